package pool

import (
	"container/list"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// inOrder is the plainest picker there is.
type inOrder []*Member

func (p inOrder) Preview(Query) (*Member, bool) { return nil, false }

func (p inOrder) Pick(q Query) *Member {
	for _, m := range p {
		if m.Usable(q) && m.Reserve() {
			return m
		}
	}
	return nil
}

func plainPool(t *testing.T, pol Policy, limits ...int) *Pool {
	c := Config{Policy: pol, Strategy: Strategy{Build: func(ms []*Member, _ Picker) Picker { return inOrder(ms) }}}
	for i, n := range limits {
		id := string(rune('a' + i))
		c.Backends = append(c.Backends, Spec{ID: id, Address: id + ":1", Weight: 1, MaxSessions: n})
	}
	p := New("p", c, Hooks{})
	t.Cleanup(p.Close)
	return p
}

// patience bounds what a loaded machine may take.
const patience = time.Minute

// A release and an arrival at the same moment: the one that waits is served, and
// there is nobody else whose release could do it later.
func TestNoWakeUpIsLost(t *testing.T) {
	p := plainPool(t, Policy{QueueMax: 3}, 1)
	for round := range 5000 {
		var first, second Lease
		if err := p.Acquire(&first, Query{}); err != nil {
			t.Fatal(err)
		}
		released := make(chan struct{})
		go func() {
			first.Release()
			close(released)
		}()
		woken := make(chan struct{}, 1)
		place, err := p.Join(&second, Query{}, Waiter{Wake: signalTo(woken)})
		if err != nil {
			t.Fatal(err)
		}
		if place != nil {
			select {
			case <-woken:
			case <-time.After(patience):
				t.Fatalf("round %d: nobody wakes who waits; %+v", round, p.Status())
			}
			if err := place.Take(&second, early); err != nil {
				t.Fatal(err)
			}
		}
		<-released
		second.Release()
	}
}

// What is barred is forgotten once no session may get it, also where nobody waits
// then: else each connect of the pool would ask for it for good.
func TestBarGoesWithItsBackend(t *testing.T) {
	for name, lose := range map[string]func(*Pool, *Backend){
		"removed": func(p *Pool, b *Backend) { p.Remove(b.ID()) },
		"down":    func(p *Pool, b *Backend) { p.SetHealth(b, Down, "a probe failed") },
	} {
		t.Run(name, func(t *testing.T) {
			p := plainPool(t, Policy{QueueMax: 3, HoldFor: time.Minute, Probed: true}, 0)
			a := p.roster.entries[0].Backend
			var l Lease
			place, err := p.Join(&l, Query{Avoid: []*Backend{a}}, Waiter{Wake: func() {}, Holds: true})
			if err != nil || place == nil {
				t.Fatalf("got %v, %v; want a place", place, err)
			}
			if got := p.queue.barred.Load(); got != 1 {
				t.Fatalf("%d are barred, want 1", got)
			}
			place.Leave()
			lose(p, a)
			if got := p.queue.barred.Load(); got != 0 {
				t.Errorf("%d are barred, want none", got)
			}
		})
	}
}

// crowd is what many sessions at once look at.
type crowd struct {
	t *testing.T
	p *Pool

	mu      sync.Mutex
	waiting []*Place // of those that avoid nobody
	served  atomic.Int64
}

// Many sessions, small limits, and somebody who changes everything: in the end
// all were served, or left, nobody was overtaken, and every count is zero.
func TestQueueUnderLoad(t *testing.T) {
	for _, pol := range []Policy{
		{QueueMax: 8, QueueFor: time.Second},
		{QueueMax: 8, QueueFor: time.Second, HoldFor: time.Second, ReleaseRate: 5000, MaxFailures: 2},
	} {
		queueUnderLoad(t, pol)
	}
}

func queueUnderLoad(t *testing.T, pol Policy) {
	p := plainPool(t, pol, 1, 2, 1)
	c := &crowd{t: t, p: p}
	var sessions, rest sync.WaitGroup
	var stop atomic.Bool
	for seed := range uint64(12) {
		sessions.Go(func() { c.sessions(rand.New(rand.NewPCG(seed, 3))) })
	}
	rest.Go(func() {
		for rng := rand.New(rand.NewPCG(1, 4)); !stop.Load(); runtime.Gosched() {
			c.upset(rng)
		}
	})
	sessions.Wait()
	stop.Store(true)
	rest.Wait()
	st := p.Status()
	if st.Queued != 0 || st.QueuedTotal == 0 || c.served.Load() == 0 || p.queue.line.Len() != 0 {
		t.Errorf("%d served, %d in line; %+v", c.served.Load(), p.queue.line.Len(), st)
	}
	for _, b := range st.Backends {
		if b.Active != 0 {
			t.Errorf("%s has %d active", b.ID, b.Active)
		}
	}
}

func (c *crowd) sessions(rng *rand.Rand) {
	for range 1500 {
		before := c.before()
		var l Lease
		switch {
		case rng.IntN(4) == 0:
			if c.p.Acquire(&l, Query{}) == nil {
				c.overtaken(before)
			}
		default:
			c.wait(&l, rng, before)
		}
		if b := l.Backend(); b != nil {
			c.served.Add(1)
			if c.p.Holds() && rng.IntN(8) == 0 {
				c.fails(&l, rng)
			} else if c.p.Holds() {
				l.Connected()
			}
			for range rng.IntN(4) {
				runtime.Gosched()
			}
		}
		l.Release()
	}
}

// before returns who waits now, each with where it is: who loses what it was
// given is somewhere else then.
func (c *crowd) before() map[*Place]*list.Element {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.p.queue.mu.Lock()
	defer c.p.queue.mu.Unlock()
	places := map[*Place]*list.Element{}
	for _, at := range c.waiting {
		places[at] = at.at
	}
	return places
}

// overtaken fails if any of the places waits still: all began earlier.
func (c *crowd) overtaken(places map[*Place]*list.Element) {
	c.p.queue.mu.Lock()
	defer c.p.queue.mu.Unlock()
	for at, where := range places {
		if where != nil && at.at == where {
			c.t.Error("somebody was overtaken")
		}
	}
}

func (c *crowd) wait(l *Lease, rng *rand.Rand, before map[*Place]*list.Element) {
	woken := make(chan struct{}, 1)
	place, err := c.p.Join(l, Query{}, Waiter{Wake: signalTo(woken), Holds: c.p.Holds()})
	switch {
	case err != nil:
		return
	case place == nil:
		c.overtaken(before)
		return
	}
	c.mu.Lock()
	c.waiting = append(c.waiting, place)
	c.mu.Unlock()
	switch rng.IntN(6) {
	case 0:
		runtime.Gosched()
		place.Leave()
	case 1:
		runtime.Gosched()
		place.Take(l, tooLong)
	default:
		select {
		case <-woken:
			if place.Take(l, early) == ErrWaiting { // for another time, or what it was given was removed
				place.Leave()
			}
		case <-time.After(patience):
			c.t.Errorf("nobody wakes who waits; %+v", c.p.Status())
			place.Leave()
		}
	}
	c.mu.Lock()
	c.waiting = slices.DeleteFunc(c.waiting, func(at *Place) bool { return at == place })
	c.mu.Unlock()
}

// fails has the dial of a session fail, which waits for another chance then.
func (c *crowd) fails(l *Lease, rng *rand.Rand) {
	var place *Place
	woken := make(chan struct{}, 1)
	for range 3 {
		b := l.Backend()
		l.Failed("refused", errors.New("refused"))
		next, err := c.p.Join(l, Query{Avoid: []*Backend{b}}, Waiter{Wake: signalTo(woken), Holds: true, Place: place})
		for next != nil && err == nil || err == ErrWaiting {
			place = next
			select {
			case <-woken:
			case <-time.After(time.Duration(rng.IntN(10)) * time.Millisecond):
				place.Leave()
				return
			}
			if err = place.Take(l, early); err == nil {
				break
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *crowd) upset(rng *rand.Rand) {
	id := string(rune('a' + rng.IntN(3)))
	most, admin := 1+rng.IntN(3), Admin(rng.IntN(2))
	switch rng.IntN(4) {
	case 0:
		c.p.Patch(id, Patch{MaxSessions: &most})
	case 1:
		c.p.Patch(id, Patch{Admin: &admin})
	case 2:
		c.p.Remove(id)
	default:
		c.p.Add(Spec{ID: id, Address: id + ":1", Weight: 1, MaxSessions: most})
	}
	if rng.IntN(3) == 0 { // nobody waits for long for a pool of drained backends
		ready := Ready
		for _, id := range []string{"a", "b", "c"} {
			c.p.Patch(id, Patch{Admin: &ready})
		}
	}
}

// How long a session has waited: not long enough, and too long.
const (
	early   = -time.Second
	tooLong = 1000 * time.Hour
)

// signalTo leaves a token, unless one is there.
func signalTo(c chan struct{}) func() {
	return func() {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

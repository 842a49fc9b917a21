package pool_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/pool"
)

// TestEverythingAtOnce has sessions run while members come, go and change, and
// then wants every count at zero and no limit ever exceeded. Run it with -race.
func TestEverythingAtOnce(t *testing.T) {
	for _, s := range everyStrategy(t) {
		t.Run(title(s), func(t *testing.T) { everythingAtOnce(t, s) })
	}
}

const limit = 5

func everythingAtOnce(t *testing.T, s pool.Strategy) {
	var seen sync.Map // every backend there ever was
	ss := specs(8)
	for i := range ss {
		ss[i].MaxSessions = limit
	}
	pol := pool.Policy{MaxFailures: 3, RetryAfter: time.Millisecond}
	p := pool.New("p", pool.Config{Strategy: s, Policy: pol, Backends: ss}, pool.Hooks{
		Suspected: func(b *pool.Backend) { seen.Store(b, true) },
	})
	var sessions, rest sync.WaitGroup
	var stop atomic.Bool
	for seed := range uint64(3) {
		sessions.Go(func() { clients(t, p, rand.New(rand.NewPCG(seed, 1)), &seen) })
		rest.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 2))
			for !stop.Load() {
				upset(p, pool.Config{Strategy: s, Policy: pol, Backends: ss}, rng)
			}
		})
	}
	sessions.Wait()
	stop.Store(true)
	rest.Wait()
	p.Close()
	seen.Range(func(b, _ any) bool {
		want(t, "active of "+b.(*pool.Backend).ID(), b.(*pool.Backend).Active(), 0)
		return true
	})
	want(t, "backends that are still shown", len(p.Status().Backends), 0)
}

// clients runs sessions, some at the same time, and ends them in every way.
func clients(t *testing.T, p *pool.Pool, rng *rand.Rand, seen *sync.Map) {
	leases := make([]pool.Lease, 12)
	for range 1500 {
		l := &leases[rng.IntN(len(leases))]
		b := l.Backend()
		switch {
		case b == nil:
			if p.Acquire(l, pool.Query{}) == nil {
				b = l.Backend()
				seen.Store(b, true)
			}
		case rng.IntN(3) == 0:
			l.Failed("refused", errDial)
		default:
			l.Connected()
			l.EndedFirst(rng.IntN(2) == 0, rng.IntN(2) == 0, 0)
			l.Release()
			l.Release()
		}
		if b != nil {
			if n := b.Active(); n < 0 || n > limit {
				t.Errorf("%s: got %d sessions, want 0 to %d", b.ID(), n, limit)
			}
		}
	}
	for i := range leases {
		leases[i].Release()
	}
}

// upset changes something.
func upset(p *pool.Pool, c pool.Config, rng *rand.Rand) {
	id := c.Backends[rng.IntN(len(c.Backends))].ID
	weight, state := rng.IntN(4), pool.Admin(rng.IntN(3))
	switch rng.IntN(10) {
	case 0:
		p.Remove(id)
	case 1, 2:
		p.Add(pool.Spec{ID: id, Address: id + ":1", Weight: 1, MaxSessions: limit})
	case 3:
		p.Patch(id, pool.Patch{Weight: &weight, Admin: &state})
	case 4:
		c.Policy.Probed = rng.IntN(2) == 0
		c.Backends = c.Backends[:1+rng.IntN(len(c.Backends))]
		p.Apply(c)
	case 5:
		for _, b := range p.Probed() {
			p.SetHealth(b, pool.Health(rng.IntN(3)), "x")
		}
	case 6:
		p.SetStrategy(c.Strategy)
	case 7:
		p.Status()
		p.Settled()
	case 8:
		p.Patch(id, pool.Patch{Readmit: true})
		if rng.IntN(4) == 0 {
			p.EndEjections("x")
		}
	case 9:
		for _, b := range p.Tallies() {
			p.Eject(b.Backend, pool.Ejection{For: time.Millisecond, Most: time.Second, Budget: 100, Reason: "x"})
		}
	}
}

// A trial is taken by one session at a time, whoever else is about.
func TestTrialIsTakenOnce(t *testing.T) {
	p := pool.New("p", config(t, "a b", pool.Policy{MaxFailures: 1, RetryAfter: 0}), pool.Hooks{})
	t.Cleanup(p.Close)
	a, b := backend(t, p, "a"), backend(t, p, "b")
	avoidB := pool.Query{Avoid: []*pool.Backend{b}}
	leaseOf(t, p, "a").Failed("refused", errDial)
	var out, taken atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var l pool.Lease
			for taken.Load() < 100 {
				if p.Acquire(&l, avoidB) != nil {
					continue
				}
				if n := out.Add(1); n > 1 {
					t.Errorf("got %d trial sessions at the same time", n)
				}
				taken.Add(1)
				out.Add(-1)
				if taken.Load()%2 == 0 {
					l.Release()
				} else {
					l.Failed("refused", errDial)
				}
			}
		})
	}
	wg.Wait()
	want(t, "health", a.Health(), pool.Down)
	want(t, "active", a.Active(), 0)
}

// Changed tells one history: each event starts where the last one ended.
func TestEventsAreInOrder(t *testing.T) {
	last := map[string]string{}
	p := pool.New("p", config(t, "a b c", pool.Policy{Probed: true}), pool.Hooks{Changed: func(c pool.Change) {
		if was, ok := last[c.Backend]; ok && was != c.From {
			t.Errorf("%s: got a change from %s after one to %s", c.Backend, c.From, was)
		}
		last[c.Backend] = c.To
	}})
	var wg sync.WaitGroup
	for i, b := range p.Probed() {
		for seed := range uint64(3) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				for range 300 {
					p.SetHealth(b, pool.Up+pool.Health(rng.IntN(2)), fmt.Sprint(seed))
					state := pool.Admin(rng.IntN(3))
					p.Patch(b.ID(), pool.Patch{Admin: &state})
				}
			})
		}
	}
	wg.Wait()
	p.Close()
	for id, state := range last {
		want(t, "the last state of "+id, state, "removed")
	}
}

// B184: an addition that races a removal leaves one of the two, never a half.
func TestAddRacesRemove(t *testing.T) {
	p := newPool(t, config(t, "b", pool.Policy{}))
	a := pool.Spec{ID: "a", Address: "a:1", Weight: 1}
	for range 300 {
		var wg sync.WaitGroup
		wg.Go(func() { p.Add(a) })
		wg.Go(func() { p.Remove("a") })
		wg.Wait()
		there := len(p.Status().Backends) == 2
		want(t, "eligible", p.Eligible() == 2, there)
		if there {
			p.Remove("a")
		}
	}
}

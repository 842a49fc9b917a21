package pool_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/pool"
)

// waiter is a session that is ready to wait.
type waiter struct {
	lease pool.Lease
	place *pool.Place
	err   error
	woken int
	seq   int // order of arrival
	avoid []*pool.Backend
}

// How long a session has waited: not long enough, and too long.
const (
	early   = -time.Second
	tooLong = 1000 * time.Hour
)

// queued is a policy that lets n sessions wait.
func queued(n int) pool.Policy { return pool.Policy{QueueMax: n, QueueFor: 3 * time.Second} }

// join asks for a backend, and perhaps waits.
func join(p *pool.Pool, avoid ...*pool.Backend) *waiter {
	w := &waiter{avoid: avoid}
	w.place, w.err = p.Join(&w.lease, pool.Query{Avoid: avoid}, pool.Waiter{Wake: func() { w.woken++ }, Holds: true})
	return w
}

// has returns the id of the backend that w has got by now.
func (w *waiter) has() string {
	if w.place != nil {
		w.err = w.place.Take(&w.lease, early)
	}
	switch {
	case w.lease.Backend() != nil:
		return w.lease.Backend().ID()
	case w.err != nil:
		return w.err.Error()
	}
	return ""
}

func TestQueueServesTheFirstWhenASlotIsFree(t *testing.T) {
	f := setup(t, "a=1/1", queued(2))
	l := acquire(t, f.Pool)
	first, second, third := join(f.Pool), join(f.Pool), join(f.Pool)
	want(t, "the third, with room for two", third.has(), pool.ErrFull.Error())
	want(t, "patience", first.place.Patience(), 3*time.Second)
	want(t, "queued", f.Status().Queued, 2)
	want(t, "a newcomer", f.Acquire(new(pool.Lease), pool.Query{}), pool.ErrFull)

	l.Release()
	want(t, "woken", first.woken, 1)
	want(t, "the first", first.has(), "a")
	want(t, "the second", second.has(), pool.ErrWaiting.Error())
	first.lease.Release()
	want(t, "the second", second.has(), "a")
	second.lease.Release()
	s := f.Status()
	want(t, "queued", s.Queued, 0)
	want(t, "queued in all", s.QueuedTotal, 2)
	want(t, "queue_max", s.QueueMax, 2)
	want(t, "active", row(t, f.Pool, "a").Active, 0)
}

// B041: who leaves frees its place, and what came of it goes to the next.
func TestQueueGoesOnWhenSomebodyLeaves(t *testing.T) {
	f := setup(t, "a=1/1", queued(2))
	l := acquire(t, f.Pool)
	first, second := join(f.Pool), join(f.Pool)
	first.place.Leave()
	third := join(f.Pool)
	want(t, "the third", third.has(), pool.ErrWaiting.Error())
	l.Release()
	want(t, "woken", second.woken, 1)
	second.place.Leave() // it was served, and does not know
	want(t, "the third", third.has(), "a")
	third.lease.Release()
	want(t, "woken", first.woken, 0)
}

func TestQueueTimeout(t *testing.T) {
	f := setup(t, "a=1/1", queued(2))
	l := acquire(t, f.Pool)
	late, inTime := join(f.Pool), join(f.Pool)
	want(t, "too late", late.place.Take(&late.lease, tooLong), pool.ErrLate)
	l.Release()
	want(t, "at the last moment", inTime.place.Take(&inTime.lease, tooLong), nil)
	want(t, "what it got", inTime.has(), "a")
	inTime.lease.Release()
	want(t, "timeouts", f.Status().QueueTimeouts, 1)
	want(t, "queued", f.Status().Queued, 0)
}

// Whatever makes room serves who waits.
func TestQueueIsServedByEveryChange(t *testing.T) {
	one, none, two := 1, 0, 2
	ready, drain := pool.Ready, pool.Drain
	for _, c := range []struct {
		name, text string
		pol        pool.Policy
		before     func(f *fixture) // after one session took a
		change     func(f *fixture)
		want       string
	}{
		{name: "limit raised", text: "a=1/1", want: "a", change: func(f *fixture) { f.Patch("a", pool.Patch{MaxSessions: &two}) }},
		{name: "limit lifted", text: "a=1/1", want: "a", change: func(f *fixture) { f.Patch("a", pool.Patch{MaxSessions: &none}) }},
		{name: "weight", text: "a=1/1 b=0", want: "b", change: func(f *fixture) { f.Patch("b", pool.Patch{Weight: &one}) }},
		{name: "ready again", text: "a=1/1 b", want: "b",
			before: func(f *fixture) { f.Patch("b", pool.Patch{Admin: &drain}) },
			change: func(f *fixture) { f.Patch("b", pool.Patch{Admin: &ready}) }},
		{name: "added by the API", text: "a=1/1", want: "b", change: func(f *fixture) { f.Add(parse(f.t, "b")[0]) }},
		{name: "reload", text: "a=1/1", want: "b", pol: queued(9), change: func(f *fixture) { f.Apply(config(f.t, "a=1/1 b", queued(9))) }},
		{name: "reload that lets nobody wait any more", text: "a=1/1", want: "a",
			change: func(f *fixture) { f.Apply(config(f.t, "a=1/2", pool.Policy{})) }},
		{name: "up", text: "a=1/1 b", want: "b", pol: pool.Policy{Probed: true, Init: pool.InitDown},
			before: func(f *fixture) { f.SetHealth(f.Probed()[0], pool.Up, "") },
			change: func(f *fixture) { f.SetHealth(f.Probed()[1], pool.Up, "") }},
		{name: "no backend left", text: "a=1/1", want: pool.ErrNoBackend.Error(), change: func(f *fixture) { f.Remove("a") }},
		{name: "pool removed", text: "a=1/1", want: pool.ErrNoBackend.Error(), change: func(f *fixture) { f.Close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.pol.QueueMax, c.pol.QueueFor = 9, time.Second
			f := setup(t, c.text, c.pol)
			if c.before != nil {
				c.before(f)
			}
			l := acquire(t, f.Pool)
			defer l.Release()
			w := join(f.Pool)
			want(t, "before", w.has(), pool.ErrWaiting.Error())
			c.change(f)
			want(t, "woken", w.woken, 1)
			want(t, "after", w.has(), c.want)
			w.lease.Release()
		})
	}
}

// A backend without probes comes back by one trial session: who waits may be it.
func TestQueueIsServedByATrial(t *testing.T) {
	pol := pool.Policy{MaxFailures: 1, RetryAfter: time.Millisecond, QueueMax: 1}
	f := setup(t, "a b=1/1", pol)
	leaseOf(t, f.Pool, "a").Failed("refused", errDial)
	l := leaseOf(t, f.Pool, "b")
	defer l.Release()
	w := join(f.Pool)
	for end := time.Now().Add(10 * time.Second); w.has() == pool.ErrWaiting.Error(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no trial in time")
		}
	}
	want(t, "the trial", w.has(), "a")
	w.lease.Release()
}

// Who has tried a backend waits for others; a slot that is of no use to it goes
// to the next.
func TestQueueLetsPassWhoeverCanUseTheSlot(t *testing.T) {
	f := setup(t, "a=1/1 b=1/1", queued(9))
	a, b := leaseOf(t, f.Pool, "a"), leaseOf(t, f.Pool, "b")
	picky, other := join(f.Pool, a.Backend()), join(f.Pool)
	a.Release()
	want(t, "the second", other.has(), "a")
	want(t, "the first", picky.has(), pool.ErrWaiting.Error())
	other.lease.Release()
	l := acquire(t, f.Pool) // nobody who waits could have it
	want(t, "a newcomer", l.Backend().ID(), "a")
	b.Release()
	want(t, "the first", picky.has(), "b")
	l.Release()
	picky.lease.Release()
}

// Without a queue nothing waits, and the pick does not know of it.
func TestNoQueueRefusesAtOnce(t *testing.T) {
	f := setup(t, "a=1/1", pool.Policy{})
	l := acquire(t, f.Pool)
	defer l.Release()
	want(t, "Queues", f.Queues(), false)
	if w := join(f.Pool); w.place != nil || w.err != pool.ErrFull {
		t.Errorf("got %v, want ErrFull", w.err)
	}
	want(t, "queued", f.Status().Queued, 0)
}

// TestQueueOrder plays random sequences against what must hold after each step:
// first come first served, and nobody waits for a slot that is free.
func TestQueueOrder(t *testing.T) {
	for _, s := range everyStrategy(t) {
		for seed := range seedsOf(s, 60) {
			o := &orderly{t: t, rng: rand.New(rand.NewPCG(seed, 7)), seed: seed}
			pol := queued(4)
			if o.holds = seed%2 == 1; o.holds {
				pol.HoldFor = 30 * time.Second
			}
			o.p = newPool(t, pool.Config{Strategy: s, Policy: pol, Backends: parse(t, "a=1/1 b=2/2 c=1/1")})
			for range 400 {
				if o.step(); t.Failed() {
					return
				}
			}
		}
	}
}

// orderly is one run of TestQueueOrder.
type orderly struct {
	t       *testing.T
	p       *pool.Pool
	rng     *rand.Rand
	seed    uint64
	holds   bool      // while no backend is eligible; then nobody avoids any
	waiting []*waiter // in order of arrival
	running []*waiter
	came    int
}

func (o *orderly) step() {
	switch o.rng.IntN(12) {
	case 0, 1, 2, 3, 4:
		o.arrive()
	case 5, 6, 7:
		if n := len(o.running); n > 0 {
			i := o.rng.IntN(n)
			o.running[i].lease.Release()
			o.running = slices.Delete(o.running, i, i+1)
		}
	case 8:
		if n := len(o.waiting); n > 0 {
			i := o.rng.IntN(n)
			o.waiting[i].place.Leave()
			o.waiting = slices.Delete(o.waiting, i, i+1)
		}
	default:
		o.change()
	}
	o.collect()
	o.check()
}

func (o *orderly) arrive() {
	var avoid []*pool.Backend
	if !o.holds && len(o.running) > 0 && o.rng.IntN(4) == 0 {
		avoid = append(avoid, o.running[o.rng.IntN(len(o.running))].lease.Backend())
	}
	w := join(o.p, avoid...)
	o.came++
	w.seq = o.came
	switch {
	case w.place != nil:
		o.waiting = append(o.waiting, w)
	case w.err == nil:
		o.served(w)
	}
}

// served notes that w runs now, which nobody who came before may wait for.
func (o *orderly) served(w *waiter) {
	o.running = append(o.running, w)
	for _, before := range o.waiting {
		b := w.lease.Backend()
		if before.seq < w.seq && (o.holds || before.woken == 0) && before.place.Take(&before.lease, early) == pool.ErrWaiting && !slices.Contains(before.avoid, b) {
			o.t.Fatalf("seed %d: session %d got %s, for which %d waits", o.seed, w.seq, b.ID(), before.seq)
		}
	}
}

// change is something that an operator or a probe does.
func (o *orderly) change() {
	id := []string{"a", "b", "c"}[o.rng.IntN(3)]
	most, weight, admin := o.rng.IntN(4), o.rng.IntN(3), pool.Admin(o.rng.IntN(2))
	switch o.rng.IntN(5) {
	case 0:
		o.p.Patch(id, pool.Patch{MaxSessions: &most})
	case 1:
		o.p.Patch(id, pool.Patch{Weight: &weight})
	case 2:
		o.p.Patch(id, pool.Patch{Admin: &admin})
	case 3:
		o.p.Remove(id)
	default:
		o.p.Add(pool.Spec{ID: id, Address: id + ":1", Weight: 1, MaxSessions: 1 + most})
	}
}

// collect takes what those who waited have got, in the order of their arrival.
func (o *orderly) collect() {
	for i := 0; i < len(o.waiting); {
		w := o.waiting[i]
		err := w.place.Take(&w.lease, early)
		if waits := err == pool.ErrWaiting; !waits && w.woken == 0 || !o.holds && (waits == (w.woken > 0) || w.woken > 1) {
			o.t.Fatalf("seed %d: session %d was woken %d times and got %v", o.seed, w.seq, w.woken, err)
		}
		if err == pool.ErrWaiting {
			i++
			continue
		}
		o.waiting = slices.Delete(o.waiting, i, i+1)
		if err == nil {
			o.served(w)
		} else if !errors.Is(err, pool.ErrNoBackend) {
			o.t.Fatalf("seed %d: session %d got %v", o.seed, w.seq, err)
		}
	}
}

// check wants everybody who waits to have a full backend to wait for, and no
// other.
func (o *orderly) check() {
	st := o.p.Status()
	if st.Queued != int64(len(o.waiting)) {
		o.t.Fatalf("seed %d: %d are queued, want %d", o.seed, st.Queued, len(o.waiting))
	}
	if all := int64(len(o.waiting)); o.holds && st.Held != 0 && st.Held != all || !o.holds && st.Held != 0 {
		o.t.Fatalf("seed %d: %d of %d are held", o.seed, st.Held, all)
	}
	for _, w := range o.waiting {
		full := 0
		for _, b := range st.Backends {
			if b.State != "up" || b.Weight == 0 || slices.ContainsFunc(w.avoid, func(a *pool.Backend) bool { return a.ID() == b.ID }) {
				continue
			}
			if full++; b.MaxSessions == 0 || b.Active < int64(b.MaxSessions) {
				o.t.Fatalf("seed %d: session %d waits, and %s has %d of %d", o.seed, w.seq, b.ID, b.Active, b.MaxSessions)
			}
		}
		if full == 0 && !o.holds {
			o.t.Fatalf("seed %d: session %d waits for nothing", o.seed, w.seq)
		}
		if d := w.place.Patience(); (d == 30*time.Second) != (full == 0) {
			o.t.Fatalf("seed %d: session %d waits for %v, with %d full", o.seed, w.seq, d, full)
		}
	}
}

package pool_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// held is a policy that holds sessions while no backend is eligible.
func held(rate int) pool.Policy {
	return pool.Policy{QueueMax: 1000, QueueFor: 3 * time.Second, HoldFor: 30 * time.Second, ReleaseRate: rate}
}

// lined joins n sessions, and wants them to wait.
func lined(t *testing.T, p *pool.Pool, n int, avoid ...*pool.Backend) (ws []*waiter) {
	t.Helper()
	for range n {
		w := join(p, avoid...)
		want(t, "who comes", w.has(), pool.ErrWaiting.Error())
		ws = append(ws, w)
	}
	return ws
}

// served returns which of ws have a backend, as "0a 1b".
func served(ws []*waiter) string {
	var list []string
	for i, w := range ws {
		if id := w.has(); w.lease.Backend() != nil {
			list = append(list, fmt.Sprintf("%d%s", i, id))
		}
	}
	return strings.Join(list, " ")
}

func release(ws []*waiter) {
	for _, w := range ws {
		if w.place != nil {
			w.place.Leave()
		}
		w.lease.Release()
	}
}

// Whatever gives the pool a backend serves those who were held, in order.
func TestHoldIsEndedByEveryChange(t *testing.T) {
	one, zero := 1, 0
	ready, drain := pool.Ready, pool.Drain
	for _, c := range []struct {
		name, text string
		before     func(f *fixture)
		change     func(f *fixture)
		want       string // of three
	}{
		{"added to an empty pool", "", nil, func(f *fixture) { f.Add(parse(f.t, "a")[0]) }, "0a 1a 2a"},
		{"ready", "a", func(f *fixture) { f.Patch("a", pool.Patch{Admin: &drain}) },
			func(f *fixture) { f.Patch("a", pool.Patch{Admin: &ready}) }, "0a 1a 2a"},
		{"weight", "a", func(f *fixture) { f.Patch("a", pool.Patch{Weight: &zero}) },
			func(f *fixture) { f.Patch("a", pool.Patch{Weight: &one}) }, "0a 1a 2a"},
		{"reload", "", nil, func(f *fixture) { f.Apply(config(f.t, "a=1/2", held(0))) }, "0a 1a"},
		{"reload that holds nobody", "", nil, func(f *fixture) { f.Apply(config(f.t, "a", queued(1))) }, "0a 1a 2a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t, c.text, held(0))
			if c.before != nil {
				c.before(f)
			}
			ws := lined(t, f.Pool, 3)
			want(t, "held", f.Status().Held, 3)
			want(t, "patience", ws[0].place.Patience(), 30*time.Second)
			c.change(f)
			want(t, "served", served(ws), c.want)
			release(ws)
			s := f.Status()
			want(t, "held", s.Held, 0)
			want(t, "held in all", s.HeldTotal, 3)
		})
	}
}

// A pool that holds nobody any more refuses those who were held.
func TestHoldIsRefusedByEveryChange(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"pool removed": func(f *fixture) { f.Close() },
		"reload":       func(f *fixture) { f.Apply(config(f.t, "", queued(5))) },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, "", held(0))
			w := lined(t, f.Pool, 1)[0]
			change(f)
			want(t, "woken", w.woken, 1)
			want(t, "held", w.has(), pool.ErrNoBackend.Error())
			want(t, "queued", f.Status().Queued, 0)
		})
	}
}

func TestHoldIsBounded(t *testing.T) {
	pol := held(0)
	pol.QueueMax = 2
	f := setup(t, "", pol)
	ws := lined(t, f.Pool, 2)
	want(t, "the third", join(f.Pool).has(), pool.ErrNoBackend.Error())
	want(t, "who is not held", f.Acquire(new(pool.Lease), pool.Query{}), pool.ErrNoBackend)
	want(t, "not late yet", ws[0].place.Take(&ws[0].lease, 30*time.Second-1), pool.ErrWaiting)
	want(t, "late", ws[0].place.Take(&ws[0].lease, 30*time.Second), pool.ErrHeldLate)
	s := f.Status()
	want(t, "hold timeouts", s.HoldTimeouts, 1)
	want(t, "queue timeouts", s.QueueTimeouts, 0)
	want(t, "queued", s.Queued, 1)
	release(ws)
}

// When the situation changes, so does the patience, and who waits is told.
func TestPatienceFollowsTheSituation(t *testing.T) {
	drain, ready := pool.Drain, pool.Ready
	f := setup(t, "a=1/1", held(0))
	l := acquire(t, f.Pool)
	w := lined(t, f.Pool, 1)[0]
	want(t, "patience while it is full", w.place.Patience(), 3*time.Second)
	want(t, "held", f.Status().Held, 0)
	f.Patch("a", pool.Patch{Admin: &drain})
	want(t, "woken", w.woken, 1)
	want(t, "patience while there is none", w.place.Patience(), 30*time.Second)
	want(t, "held", f.Status().Held, 1)
	longer := held(0)
	longer.HoldFor = time.Minute
	f.Apply(config(t, "a=1/1", longer))
	want(t, "patience after a reload", w.place.Patience(), time.Minute)
	want(t, "after the time of the queue", w.place.Take(&w.lease, 4*time.Second), pool.ErrWaiting)
	f.Patch("a", pool.Patch{Admin: &ready})
	want(t, "woken", w.woken, 3)
	want(t, "patience while it is full again", w.place.Patience(), 3*time.Second)
	want(t, "after the time of the queue", w.place.Take(&w.lease, 4*time.Second), pool.ErrLate)
	l.Release()
	s := f.Status()
	want(t, "queue timeouts", s.QueueTimeouts, 1)
	want(t, "held in all", s.HeldTotal, 1)
	want(t, "held", s.Held, 0)
}

// With a rate they are released one at a time; who comes meanwhile is behind them,
// and the pace is over with the last.
func TestReleaseRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "", held(10))
		ws := lined(t, f.Pool, 5)
		time.Sleep(2 * time.Second)
		f.Add(parse(t, "a")[0])
		at := time.Now()
		want(t, "at once", served(ws), "0a")
		want(t, "a newcomer that does not wait", f.Acquire(new(pool.Lease), pool.Query{}), pool.ErrFull)
		ws = append(ws, lined(t, f.Pool, 2)...)
		want(t, "the newcomer's patience", ws[6].place.Patience(), 30*time.Second)
		for i := range 6 {
			time.Sleep(time.Until(at.Add(time.Duration(i+1)*100*time.Millisecond - 1)))
			synctest.Wait()
			want(t, "before its turn", ws[i+1].has(), pool.ErrWaiting.Error())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			want(t, "at its turn", ws[i+1].woken, 1)
			want(t, "what it gets", ws[i+1].has(), "a")
		}
		late := acquire(t, f.Pool)
		late.Release()
		want(t, "held", f.Status().Held, 0)
		release(ws)
	})
}

// Turns that nobody could take are no turns: a second outage is released as the
// first.
func TestReleaseRateAfterAnotherOutage(t *testing.T) {
	drain, ready := pool.Drain, pool.Ready
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a", held(10))
		f.Patch("a", pool.Patch{Admin: &drain})
		ws := lined(t, f.Pool, 8)
		f.Patch("a", pool.Patch{Admin: &ready})
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		want(t, "served", served(ws), "0a 1a")
		f.Patch("a", pool.Patch{Admin: &drain})
		time.Sleep(5 * time.Second)
		f.Patch("a", pool.Patch{Admin: &ready})
		synctest.Wait()
		want(t, "served", served(ws), "0a 1a 2a")
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		want(t, "served", served(ws), "0a 1a 2a 3a 4a")
		quick := held(0)
		f.Apply(config(t, "a", quick))
		want(t, "served without a rate", served(ws), "0a 1a 2a 3a 4a 5a 6a 7a")
		release(ws)
	})
}

// back has a session whose dial to a failed come back to the queue.
func back(p *pool.Pool, w *waiter) *waiter {
	b := w.lease.Backend()
	w.lease.Failed("refused", errDial)
	n := &waiter{avoid: []*pool.Backend{b}}
	n.place, n.err = p.Join(&n.lease, pool.Query{Avoid: n.avoid}, pool.Waiter{Wake: func() { n.woken++ }, Holds: true, Place: w.place})
	return n
}

// Who has tried all there is waits. The first in line tries again, alone, after a
// pause that grows.
func TestHeldSessionsTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a", held(0))
		var ws []*waiter
		for range 4 {
			w := &waiter{}
			f.Acquire(&w.lease, pool.Query{})
			ws = append(ws, w)
		}
		for i := range ws {
			ws[i] = back(f.Pool, ws[i])
		}
		want(t, "exhausted", f.Exhausted(pool.Query{Avoid: ws[0].avoid}), true)
		want(t, "held", f.Status().Held, 4)
		for _, pause := range []time.Duration{200, 400, 800, 1000, 1000} {
			time.Sleep(pause*time.Millisecond - 1)
			synctest.Wait()
			want(t, "before the pause is over", served(ws), "")
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			want(t, "after it", served(ws), "0a")
			ws[0] = back(f.Pool, ws[0])
			want(t, "who comes while it does not answer", join(f.Pool).has(), pool.ErrWaiting.Error())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, "the next try", served(ws), "0a")
		ws[0].lease.Connected()
		want(t, "when it answers", served(ws), "0a 1a 2a 3a")
		release(ws)
	})
}

// One that failed once keeps nobody else away, and the first that succeeds lets
// all have it who had bad luck.
func TestBadLuckIsOneSessionsOwn(t *testing.T) {
	f := setup(t, "a", held(0))
	unlucky := &waiter{}
	f.Acquire(&unlucky.lease, pool.Query{})
	unlucky = back(f.Pool, unlucky)
	want(t, "it waits", unlucky.has(), pool.ErrWaiting.Error())
	l := acquire(t, f.Pool)
	l.Connected()
	want(t, "it gets", unlucky.has(), "a")
	l.Release()
	release([]*waiter{unlucky})
}

// What comes back after it was down is worth a try at once.
func TestHeldSessionTriesWhatCameBack(t *testing.T) {
	pol := held(0)
	pol.Probed = true
	f := setup(t, "a b", pol)
	b := f.Probed()
	f.SetHealth(b[1], pool.Down, "probe")
	w := &waiter{}
	f.Acquire(&w.lease, pool.Query{})
	w = back(f.Pool, w)
	want(t, "it waits", w.has(), pool.ErrWaiting.Error())
	f.SetHealth(b[0], pool.Down, "probe")
	want(t, "it waits", w.has(), pool.ErrWaiting.Error())
	f.SetHealth(b[0], pool.Up, "probe")
	want(t, "it gets", w.has(), "a")
	release([]*waiter{w})
}

// A session whose try failed comes back to where it was, also if there is no room
// for newcomers, and its time has gone on.
func TestHeldSessionKeepsItsPlace(t *testing.T) {
	pol := held(0)
	pol.QueueMax = 2
	f := setup(t, "", pol)
	ws := lined(t, f.Pool, 2)
	f.Add(parse(t, "a=1/1")[0])
	want(t, "served", served(ws), "0a")
	f.Add(parse(t, "b=0")[0])
	ws = append(ws, lined(t, f.Pool, 1)...)
	ws[0] = back(f.Pool, ws[0])
	want(t, "the second", ws[1].has(), "a") // it has not tried it
	want(t, "the first", ws[0].has(), pool.ErrWaiting.Error())
	one := 1
	limit := 1
	f.Patch("b", pool.Patch{Weight: &one, MaxSessions: &limit})
	want(t, "served", served(ws), "0b 1a")
	release(ws)
}

// So does one that comes back behind another that failed as well: it waits for the
// next try, and not for room.
func TestHeldSessionComesBackBehindAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a", held(0))
		var ws []*waiter
		for range 4 {
			w := &waiter{}
			f.Acquire(&w.lease, pool.Query{})
			ws = append(ws, w)
		}
		for i := range ws {
			ws[i] = back(f.Pool, ws[i])
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		want(t, "after a pause", served(ws), "0a")
		time.Sleep(400 * time.Millisecond)
		synctest.Wait()
		want(t, "after the next", served(ws), "0a 1a")
		ws[0] = back(f.Pool, ws[0])
		ws[1] = back(f.Pool, ws[1])
		for i, w := range ws {
			want(t, fmt.Sprint("patience of ", i), w.place.Patience(), 30*time.Second)
		}
		want(t, "held", f.Status().Held, 4)
		time.Sleep(800 * time.Millisecond)
		synctest.Wait()
		want(t, "the next try", served(ws), "0a")
		release(ws)
	})
}

// A request that some backend may have acted on does not wait for one to be
// eligible, nor go on to when that is what it comes to.
func TestWhoDoesNotHold(t *testing.T) {
	f := setup(t, "a=1/1", held(0))
	l := acquire(t, f.Pool)
	w := &waiter{}
	w.place, w.err = f.Join(&w.lease, pool.Query{}, pool.Waiter{Wake: func() { w.woken++ }})
	want(t, "it waits", w.has(), pool.ErrWaiting.Error())
	f.Remove("a")
	want(t, "after that", w.has(), pool.ErrNoBackend.Error())
	l.Release()
	place, err := f.Join(&w.lease, pool.Query{}, pool.Waiter{Wake: func() {}})
	if place != nil || err != pool.ErrNoBackend {
		t.Errorf("got %v, %v", place, err)
	}
}

// An outer balancer sends clients as long as they are held.
func TestReadyWhileItHolds(t *testing.T) {
	drain, ready := pool.Drain, pool.Ready
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a", held(0))
		want(t, "with one", f.Ready(), true)
		f.Patch("a", pool.Patch{Admin: &drain})
		time.Sleep(20 * time.Second)
		f.Add(parse(t, "b=0")[0]) // that is no new loss
		time.Sleep(10*time.Second - 1)
		want(t, "to the end of the hold", f.Ready(), true)
		time.Sleep(time.Nanosecond)
		want(t, "after it", f.Ready(), false)
		f.Patch("a", pool.Patch{Admin: &ready})
		want(t, "with one again", f.Ready(), true)
		f.Patch("a", pool.Patch{Admin: &drain})
		want(t, "without one again", f.Ready(), true)
		f.Apply(config(t, "a", queued(5)))
		want(t, "without a hold", f.Ready(), false)
	})
	want(t, "one that never had any", setup(t, "", held(0)).Ready(), false)
}

// Many that wait cost one who comes next to nothing: nobody looks at each.
func TestHeldLineIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no pause ends by itself
		pol := held(0)
		pol.QueueMax = 100_000
		f := setup(t, "a", pol)
		var ws []*waiter
		for range 20_000 {
			w := &waiter{}
			f.Acquire(&w.lease, pool.Query{})
			ws = append(ws, w)
		}
		for i, w := range slices.Backward(ws) {
			ws[i] = back(f.Pool, w)
		}
		want(t, "held", f.Status().Held, 20_000)
		f.Remove("a")
		f.Add(parse(t, "b")[0])
		want(t, "the last", ws[0].has(), "b")
		release(ws)
		want(t, "queued", f.Status().Queued, 0)
	})
}

package pool_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"sluice/pool"
)

func TestAcquireGoesRound(t *testing.T) {
	f := setup(t, "a b c", pool.Policy{})
	want(t, "picks", picks(t, f.Pool, 4), "a b c a")
}

func TestWeightZeroGetsNothing(t *testing.T) {
	f := setup(t, "a b=0 c", pool.Policy{})
	want(t, "picks", picks(t, f.Pool, 4), "a c a c")
	want(t, "Eligible", f.Eligible(), 2)
	want(t, "state", row(t, f.Pool, "b").State, "up")
}

func TestNothingToPick(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "all of weight 0": "a=0 b=0"} {
		f := setup(t, text, pool.Policy{TryAll: true})
		var l pool.Lease
		if err := f.Acquire(&l, pool.Query{}); !errors.Is(err, pool.ErrNoBackend) {
			t.Errorf("%s: got %v, want ErrNoBackend", name, err)
		}
		if l.Backend() != nil {
			t.Errorf("%s: the lease is filled", name)
		}
		l.Connected()
		l.Failed("refused", errDial)
		l.Release()
	}
}

func TestFullIsNotTheSameAsNone(t *testing.T) {
	for _, s := range everyStrategy(t) {
		p := newPool(t, pool.Config{Strategy: s, Backends: parse(t, "a=1/1 b=1/2")})
		held := hold(t, p, 3)
		var l pool.Lease
		if err := p.Acquire(&l, pool.Query{}); err != pool.ErrFull {
			t.Errorf("%s: all full: got %v, want ErrFull", title(s), err)
		}
		b := []*pool.Backend{held[0].Backend(), held[1].Backend()}
		if b[0] == b[1] { // not every strategy takes turns
			b[1] = held[2].Backend()
		}
		if err := p.Acquire(&l, pool.Query{Avoid: b}); err != pool.ErrNoBackend {
			t.Errorf("%s: all avoided: got %v, want ErrNoBackend", title(s), err)
		}
		if err := p.Acquire(&l, pool.Query{Avoid: b[:1]}); err != pool.ErrFull {
			t.Errorf("%s: one avoided, one full: got %v, want ErrFull", title(s), err)
		}
		want(t, "Eligible", p.Eligible(), 2)
	}
}

func TestSessionCountsFromThePickToTheRelease(t *testing.T) {
	f := setup(t, "a", pool.Policy{})
	l := acquire(t, f.Pool)
	want(t, "active while dialing", row(t, f.Pool, "a").Active, 1)
	want(t, "total while dialing", row(t, f.Pool, "a").Total, 0)
	l.Connected()
	l.Connected()
	want(t, "total", row(t, f.Pool, "a").Total, 1)
	l.Backend().Moved(0, 3, 0)
	l.Backend().Moved(9, 0, 500)
	for range 3 {
		l.Release()
		want(t, "active after the release", row(t, f.Pool, "a").Active, 0)
	}
	l.Failed("refused", errDial)
	r := row(t, f.Pool, "a")
	want(t, "failures of a lease that was released", r.DialFailures, 0)
	want(t, "bytes to the backend", r.BytesToBack, 3)
	want(t, "bytes to the client", r.BytesToClient, 500)
}

func TestFailedReleases(t *testing.T) {
	f := setup(t, "a b", pool.Policy{})
	l := acquire(t, f.Pool)
	b := l.Backend()
	l.Failed("refused", errDial)
	l.Failed("refused", errDial)
	l.Release()
	r := row(t, f.Pool, "a")
	want(t, "active", r.Active, 0)
	want(t, "dial failures", r.DialFailures, 1)
	want(t, "failures in a row", r.FailuresInRow, 1)
	want(t, "suspected", fmt.Sprint(f.suspect), "[a]")
	want(t, "the lease's backend", l.Backend(), nil)

	if err := f.Acquire(l, pool.Query{Avoid: []*pool.Backend{b}}); err != nil || l.Backend().ID() != "b" {
		t.Fatalf("the same lease again: got %v", err)
	}
	l.Release()
}

// A failed dial keeps its turn: the redial takes the next one.
func TestFailedDialKeepsItsTurn(t *testing.T) {
	f := setup(t, "a b c", pool.Policy{})
	l := acquire(t, f.Pool)
	b := l.Backend()
	l.Failed("refused", errDial)
	next := acquire(t, f.Pool, b)
	defer next.Release()
	want(t, "the redial", next.Backend().ID(), "b")
	want(t, "later picks", picks(t, f.Pool, 3), "c a b")
}

func TestLimitHoldsInABurst(t *testing.T) {
	for _, s := range everyStrategy(t) {
		p := newPool(t, pool.Config{Strategy: s, Backends: parse(t, "a=1/7 b=3/5 c=1/1")})
		var granted, full sync.Map
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				l := new(pool.Lease)
				if err := p.Acquire(l, pool.Query{}); err == nil {
					granted.Store(i, l)
				} else if err == pool.ErrFull {
					full.Store(i, true)
				}
			})
		}
		wg.Wait()
		want(t, title(s)+": granted", length(&granted), 13)
		want(t, title(s)+": full", length(&full), 87)
		for id, n := range map[string]int64{"a": 7, "b": 5, "c": 1} {
			want(t, title(s)+": active of "+id, row(t, p, id).Active, n)
		}
		granted.Range(func(_, l any) bool { l.(*pool.Lease).Release(); return true })
		want(t, title(s)+": picks again", len(picks(t, p, 1)), 1)
	}
}

func length(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

func TestAcquireAllocatesNothing(t *testing.T) {
	for _, s := range everyStrategy(t) {
		for name, ss := range map[string][]pool.Spec{
			"equal":   specs(10),
			"unequal": parse(t, "a=7 b=3 c=1"),
			"limited": parse(t, "a=1/5 b=1/5 c=2/5"),
		} {
			p := newPool(t, pool.Config{Strategy: s, Backends: ss})
			var l pool.Lease
			q := pool.Query{Avoid: []*pool.Backend{nil}}
			n := testing.AllocsPerRun(1000, func() {
				p.Acquire(&l, q)
				l.Connected()
				l.Release()
			})
			want(t, title(s)+" "+name+": allocations", n, 0)
		}
	}
}

func TestStrategySwitchWhileSessionsRun(t *testing.T) {
	f := setup(t, "a b c", pool.Policy{})
	held := hold(t, f.Pool, 4) // a b c a
	f.SetStrategy(strategy(t, "least_connections", "first"))
	s := f.Status()
	want(t, "strategy", s.Strategy, "least_connections")
	want(t, "origin", s.StrategyOrigin, "api")
	hold(t, f.Pool, 2) // b c
	for _, id := range []string{"a", "b", "c"} {
		want(t, "active of "+id, row(t, f.Pool, id).Active, 2)
	}
	held[1].Release() // b
	want(t, "the least busy", picks(t, f.Pool, 3), "b b b")
	f.SetStrategy(strategy(t, "round_robin", ""))
	want(t, "origin", f.Status().StrategyOrigin, "config")
}

// The backend of a lease stays what it was while others come and go.
func TestLeaseKeepsItsBackend(t *testing.T) {
	f := setup(t, "a b c d e f g h", pool.Policy{})
	l := leaseOf(t, f.Pool, "c")
	for _, id := range []string{"a", "b", "c", "d"} {
		if err := f.Remove(id); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "address", l.Backend().Address(), "c:1")
	want(t, "pool", l.Backend().Pool(), "p")
	l.Release()
}

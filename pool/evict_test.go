package pool_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// evictor is a pool whose evictions are noted with the time since its start.
type evictor struct {
	*fixture
	pol   pool.Policy
	began time.Time

	mu    sync.Mutex // guards ended
	ended []string
}

var whys = map[pool.Why]string{pool.WentDown: "down", pool.WasRemoved: "removed", pool.WasDrained: "drained"}

// evicting runs test in a bubble, with a session on each backend of text.
func evicting(t *testing.T, text string, pol pool.Policy, test func(e *evictor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &evictor{fixture: &fixture{t: t}, pol: pol, began: time.Now()}
		e.Pool = pool.New("p", config(t, text, pol), pool.Hooks{Evict: func(ev pool.Eviction) {
			if !ev.At.Equal(time.Now()) {
				t.Errorf("%s: at %v, told at %v", ev.Backend.ID(), ev.At, time.Now())
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			e.ended = append(e.ended, fmt.Sprint(whys[ev.Why], " ", ev.Backend.ID(), " ", time.Since(e.began)))
		}})
		hold(t, e.Pool, len(e.Status().Backends))
		test(e)
		e.Close()
	})
}

// after lets time pass, and returns what was evicted since the last call.
func (e *evictor) after(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	all := strings.Join(e.ended, ", ")
	e.ended = nil
	return all
}

func (e *evictor) admin(id string, a pool.Admin) {
	e.t.Helper()
	if err := e.Patch(id, pool.Patch{Admin: &a}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *evictor) backend(id string) *pool.Backend {
	e.t.Helper()
	for _, b := range e.Probed() {
		if b.ID() == id {
			return b
		}
	}
	e.t.Fatalf("no backend %s", id)
	return nil
}

// ends returns when the drain of a backend is over.
func (e *evictor) ends(id string) string {
	for _, b := range e.Status().Backends {
		if b.ID == id && !b.DrainEnds.IsZero() {
			return b.DrainEnds.Sub(e.began).String()
		}
	}
	return "never"
}

// B073, B074: sessions of a backend that goes down end only where that was asked
// for, once, and whoever found out.
func TestEvictedWhenDown(t *testing.T) {
	for _, closes := range []bool{false, true} {
		evicting(t, "a b", pool.Policy{Probed: true, CloseDown: closes}, func(e *evictor) {
			a := e.backend("a")
			e.SetHealth(a, pool.Up, "probe")
			e.SetHealth(a, pool.Down, "probe")
			e.SetHealth(a, pool.Down, "probe")
			want(t, "down", e.after(0), map[bool]string{true: "down a 0s"}[closes])
			e.SetHealth(a, pool.Up, "probe")
			want(t, "up", e.after(time.Second), "")
			e.admin("a", pool.Drain)
			e.SetHealth(a, pool.Down, "probe")
			want(t, "down while it drains", e.after(0), map[bool]string{true: "down a 1s"}[closes])
			if err := e.Remove("a"); err != nil {
				t.Fatal(err)
			}
			want(t, "removed while down", e.after(time.Hour), "")
		})
	}
	evicting(t, "a b", pool.Policy{MaxFailures: 2, RetryAfter: time.Minute, CloseDown: true}, func(e *evictor) {
		for range 2 {
			l := acquire(t, e.Pool)
			for l.Backend().ID() != "b" {
				l.Release()
				l = acquire(t, e.Pool)
			}
			l.Failed("refused", pool.ErrFull)
		}
		want(t, "dials took it out", e.after(0), "down b 0s")
	})
}

// The policy that counts is that of the event: what is down already stays.
func TestOnDownIsReadAtTheEvent(t *testing.T) {
	evicting(t, "a b", pool.Policy{Probed: true}, func(e *evictor) {
		e.SetHealth(e.backend("a"), pool.Down, "probe")
		e.Apply(config(t, "a b", pool.Policy{Probed: true, CloseDown: true}))
		want(t, "the policy changed", e.after(time.Hour), "")
		e.SetHealth(e.backend("b"), pool.Down, "probe")
		want(t, "the next", e.after(0), "down b 1h0m0s")
	})
}

// B124: whatever removes a backend, its sessions end at once, after a time, or
// never.
func TestEvictedWhenRemoved(t *testing.T) {
	removals := map[string]func(e *evictor){
		"api":     func(e *evictor) { e.Remove("a") },
		"file":    func(e *evictor) { e.Apply(config(t, "b", e.pol)) },
		"address": func(e *evictor) { e.Apply(config(t, "a@elsewhere b", e.pol)) },
	}
	for name, remove := range removals {
		evicting(t, "a b", pool.Policy{CloseGone: true, DrainFor: time.Minute}, func(e *evictor) {
			remove(e)
			want(t, name+": close", e.after(time.Hour), "removed a 0s")
		})
		evicting(t, "a b", pool.Policy{DrainFor: time.Minute}, func(e *evictor) {
			remove(e)
			want(t, name+": ends", e.ends("a"), "1m0s")
			want(t, name+": drain", e.after(time.Minute-1), "")
			want(t, name+": drained", e.after(1), "removed a 1m0s")
		})
		evicting(t, "a b", pool.Policy{}, func(e *evictor) {
			remove(e)
			want(t, name+": for ever", e.after(100*time.Hour)+e.ends("a"), "never")
		})
	}
	evicting(t, "a b", pool.Policy{CloseGone: true}, func(e *evictor) {
		e.Close()
		want(t, "the pool is removed", e.after(0), "removed a 0s, removed b 0s")
	})
}

// An entry that comes back, or is set back to ready, keeps its sessions.
func TestDrainIsTakenBack(t *testing.T) {
	evicting(t, "a b c", pool.Policy{DrainFor: time.Minute}, func(e *evictor) {
		e.Remove("a")
		e.admin("b", pool.Drain)
		e.admin("c", pool.Maint)
		want(t, "meanwhile", e.after(time.Minute-1), "")
		if err := e.Add(pool.Spec{ID: "a", Address: "a:1", Weight: 1}); err != nil {
			t.Fatal(err)
		}
		e.admin("b", pool.Ready)
		e.admin("c", pool.Ready)
		want(t, "taken back", e.after(time.Hour)+e.ends("a")+e.ends("b")+e.ends("c"), "nevernevernever")
		e.admin("b", pool.Drain)
		want(t, "drained anew", e.after(time.Minute), "drained b 1h1m59.999999999s")
	})
}

// The time counts from when a backend stopped to get sessions: neither maint
// after drain nor a removal begins it anew.
func TestDrainCountsFromItsStart(t *testing.T) {
	evicting(t, "a b c", pool.Policy{DrainFor: time.Minute}, func(e *evictor) {
		for _, id := range []string{"a", "b", "c"} {
			e.admin(id, pool.Drain)
		}
		e.after(20 * time.Second)
		e.admin("b", pool.Maint)
		e.Remove("c")
		want(t, "ends", e.ends("a")+e.ends("b")+e.ends("c"), "1m0s1m0s1m0s")
		got := e.after(40 * time.Second)
		for _, part := range []string{"drained a 1m0s", "drained b 1m0s", "removed c 1m0s"} {
			if !strings.Contains(got, part) {
				t.Errorf("got %q, want %q in it", got, part)
			}
		}
		want(t, "after that", e.after(time.Hour), "")
	})
}

// A reload changes the time of the drains under way.
func TestDrainTimeoutIsReadWhileDraining(t *testing.T) {
	for _, c := range []struct {
		to   time.Duration
		want string
		rest time.Duration
	}{
		{30 * time.Second, "drained a 30s, removed b 30s", 10 * time.Second},
		{10 * time.Second, "drained a 20s, removed b 20s", 0},
		{2 * time.Minute, "drained a 2m0s, removed b 2m0s", 100 * time.Second},
		{0, "", time.Hour},
	} {
		evicting(t, "a b c", pool.Policy{DrainFor: time.Minute}, func(e *evictor) {
			e.admin("a", pool.Drain)
			e.Apply(config(t, "a c", pool.Policy{DrainFor: time.Minute}))
			e.after(20 * time.Second)
			e.Apply(config(t, "a c", pool.Policy{DrainFor: c.to}))
			if c.rest > 0 {
				want(t, "before", e.after(c.rest-1), "")
				sorted(t, c.to.String(), e.after(1), c.want)
				return
			}
			sorted(t, c.to.String(), e.after(0), c.want)
		})
	}
}

// sorted compares two lists as sets: timers that are due at once have no order.
func sorted(t *testing.T, what, got, want string) {
	t.Helper()
	for _, part := range strings.Split(want, ", ") {
		if !strings.Contains(got, part) || len(got) != len(want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
}

// With the last session of a removed backend its drain is over.
func TestDrainEndsWithTheLastSession(t *testing.T) {
	evicting(t, "a", pool.Policy{DrainFor: time.Minute}, func(e *evictor) {
		l := acquire(t, e.Pool)
		e.Remove("a")
		want(t, "ends", e.ends("a"), "1m0s")
		l.Release()
		want(t, "one is left", e.ends("a"), "1m0s")
		e.after(time.Second)
	})
	synctest.Test(t, func(t *testing.T) {
		told := 0
		p := pool.New("p", config(t, "a", pool.Policy{DrainFor: time.Minute}), pool.Hooks{Evict: func(pool.Eviction) { told++ }})
		l := acquire(t, p)
		p.Remove("a")
		l.Release()
		time.Sleep(time.Hour)
		want(t, "evictions", told, 0)
		p.Close()
	})
}

// Who is told of an eviction can rely on it that no pick that begins then finds
// the backend: nobody escapes the order.
func TestNoPickAfterAnEviction(t *testing.T) {
	var p *pool.Pool
	told := 0
	p = pool.New("p", config(t, "a b c", pool.Policy{Probed: true, CloseDown: true, CloseGone: true}), pool.Hooks{Evict: func(ev pool.Eviction) {
		told++
		for range 6 {
			var l pool.Lease
			if err := p.Acquire(&l, pool.Query{}); err == nil && l.Backend() == ev.Backend {
				t.Errorf("%s was picked after its eviction", l.Backend().ID())
			}
			l.Release()
		}
	}})
	t.Cleanup(p.Close)
	hold(t, p, 3)
	p.SetHealth(p.Probed()[0], pool.Down, "probe")
	p.Remove("b")
	want(t, "evictions", told, 2)
}

// A session that waits may be given a backend and be slow to take it. Meanwhile
// the backend can be lost: it must not get it then.
func TestQueueLosesTheBackendThatItGave(t *testing.T) {
	for _, free := range []bool{false, true} {
		f := setup(t, "a=1/1 b=1/1", queued(5))
		held := map[string]*pool.Lease{}
		for _, l := range []*pool.Lease{acquire(t, f.Pool), acquire(t, f.Pool)} {
			held[l.Backend().ID()] = l
		}
		w := join(f.Pool)
		held["a"].Release()
		want(t, "woken", w.woken, 1)
		f.Remove("a")
		expected := pool.ErrWaiting.Error() // it is back in its place
		if free {
			held["b"].Release()
			expected = "b"
		}
		want(t, "a is gone", w.has(), expected)
		want(t, "asked again", w.has(), expected)
		if !free {
			want(t, "queued", f.Status().Queued, 1)
			held["b"].Release()
			want(t, "woken", w.woken, 2)
			want(t, "what it gets", w.has(), "b")
		}
		w.lease.Release()
		want(t, "queued", f.Status().Queued, 0)
		for _, b := range f.Status().Backends {
			want(t, "active on "+b.ID, b.Active, 0)
		}
	}
}

// Who gets a backend from the snapshot before, while the one without it is being
// made, is among those that end: nobody else would find that session.
func TestWhoPicksDuringAFallIsEvicted(t *testing.T) {
	var evicted pool.Eviction
	var p *pool.Pool
	var l pool.Lease
	var picked time.Time
	s := strategy(t, "first", "")
	build := s.Build
	s.Build = func(eligible []*pool.Member, previous pool.Picker) pool.Picker {
		if p != nil && picked.IsZero() { // a and then b were there before
			picked = time.Now()
			if err := p.Acquire(&l, pool.Query{}); err != nil {
				t.Error(err)
			}
		}
		return build(eligible, previous)
	}
	p = pool.New("p", pool.Config{Strategy: s, Policy: pool.Policy{Probed: true, CloseDown: true}, Backends: parse(t, "a b")},
		pool.Hooks{Evict: func(e pool.Eviction) { evicted = e }})
	t.Cleanup(p.Close)
	a := p.Probed()[0]
	p.SetHealth(a, pool.Down, "a probe failed")
	if l.Backend() != a || evicted.Backend != a {
		t.Fatalf("%v was picked, and %v evicted; want a", l.Backend(), evicted.Backend)
	}
	if evicted.At.Before(picked) {
		t.Errorf("who has it since %v is spared: those until %v end", picked, evicted.At)
	}
}

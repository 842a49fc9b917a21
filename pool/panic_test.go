package pool_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// panicking returns a pool of backends that are up, and what it says of panics.
func panicking(t *testing.T, text string, pol pool.Policy) (f *fixture, said *[]string) {
	f, said = &fixture{t: t}, new([]string)
	pol.Probed = true
	f.Pool = pool.New("p", config(t, text, pol), pool.Hooks{Panicked: func(p pool.Panic) {
		*said = append(*said, fmt.Sprint(p.Pool, " ", p.On, ": ", p.Reason))
	}})
	t.Cleanup(f.Close)
	for _, b := range f.Probed() {
		f.SetHealth(b, pool.Up, "first probe passed")
	}
	return f, said
}

// With fewer up than the threshold says, all are used, and it is said once when
// that begins and once when it ends.
func TestPanicThreshold(t *testing.T) {
	for _, c := range []struct{ threshold, n, down int }{
		{0, 4, 4}, {1, 4, 4}, {25, 4, 4}, {26, 4, 3}, {50, 4, 3}, {51, 4, 2}, {75, 4, 2}, {76, 4, 1}, {100, 4, 1}, {50, 1, 1}, {100, 1, 1}, {67, 3, 1}, {66, 3, 2},
	} {
		f, said := panicking(t, strings.Join(ids(c.n), " "), pool.Policy{TryAll: true, PanicBelow: c.threshold})
		for i := range c.n {
			f.fall(f.of(ids(c.n)[i]))
			on := i+1 >= c.down
			if s := f.Status(); s.Panic != on || on && s.Eligible != c.n || !on && s.Eligible != c.n-i-1 {
				t.Errorf("%d %% of %d, %d down: got %d eligible, panic %v", c.threshold, c.n, i+1, s.Eligible, s.Panic)
			}
		}
		for i := range c.n {
			f.rise(f.of(ids(c.n)[i]))
		}
		s := f.Status()
		want(t, "panic when all are back", s.Panic, false)
		if got := strings.Join(*said, ", "); len(*said) != 2 ||
			(*said)[0] != fmt.Sprintf("p true: %d of %s up", c.n-c.down, plural(c.n)) || !strings.HasPrefix((*said)[1], "p false: ") {
			t.Errorf("%d %% of %d: told %q", c.threshold, c.n, got)
		}
	}
}

func plural(n int) string {
	if n == 1 {
		return "1 backend"
	}
	return fmt.Sprintf("%d backends", n)
}

// Who gets no sessions by order is no part of it, nor are those that nothing is
// known of yet.
func TestPanicCountsWhoIsWanted(t *testing.T) {
	f, said := panicking(t, "a b c d", pool.Policy{TryAll: true, PanicBelow: 50, Init: pool.InitProbe})
	for id, p := range map[string]pool.Patch{"c": {Weight: new(int)}, "d": {Admin: drain()}} {
		if err := f.Patch(id, p); err != nil {
			t.Fatal(err)
		}
	}
	f.fall(f.of("a"))
	want(t, "panic with one of two up", f.Status().Panic, false)
	for i := range 10 {
		if err := f.Add(pool.Spec{ID: fmt.Sprint("new", i), Address: fmt.Sprint("new", i, ":1"), Weight: 1}); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "panic with ten more that wait", f.Status().Panic, false)
	f.SetHealth(f.of("new0"), pool.Down, "first probe failed")
	want(t, "panic with one of three up", f.Status().Panic, true)
	want(t, "eligible", f.Eligible(), 12)
	want(t, "times told", len(*said), 1)
}

func drain() *pool.Admin {
	a := pool.Drain
	return &a
}

// Without all_down = "try" there is no panic, and a reload ends one.
func TestPanicIsSwitched(t *testing.T) {
	f, said := panicking(t, "a b c", pool.Policy{PanicBelow: 100})
	f.fall(f.of("a"))
	want(t, "panic", f.Status().Panic, false)
	f.Apply(config(t, "a b c", pool.Policy{Probed: true, PanicBelow: 100, TryAll: true}))
	want(t, "panic once all are to be tried", f.Status().Panic, true)
	f.Apply(config(t, "a b c", pool.Policy{Probed: true, PanicBelow: 60, TryAll: true}))
	want(t, "panic with a lower threshold", f.Status().Panic, false)
	want(t, "times told", len(*said), 2)
}

// A pool begins in no panic while its backends wait for their first probe, though
// all are tried.
func TestNoPanicAtTheStart(t *testing.T) {
	f := setup(t, "a b", pool.Policy{Probed: true, Init: pool.InitProbe, TryAll: true, PanicBelow: 100})
	want(t, "panic", f.Status().Panic, false)
	want(t, "eligible", f.Eligible(), 2)
	f.SetHealth(f.of("a"), pool.Up, "")
	want(t, "panic", f.Status().Panic, false)
	want(t, "eligible", f.Eligible(), 1)
}

// Who goes down in a panic is still used, and keeps its sessions; those that it
// had end when the panic is over, if it is down by then.
func TestPanicKeepsSessions(t *testing.T) {
	pol := pool.Policy{Probed: true, CloseDown: true, TryAll: true, PanicBelow: 60}
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		began := time.Now()
		f := &fixture{t: t}
		f.Pool = pool.New("p", config(t, "a b c", pol), pool.Hooks{Evict: func(e pool.Eviction) {
			ended = append(ended, fmt.Sprint(e.Backend.ID(), " ", e.At.Sub(began)))
		}})
		defer f.Close()
		f.fall(f.of("a"))
		want(t, "ended with one down", strings.Join(ended, ", "), "a 0s")
		pass(time.Second)
		f.fall(f.of("b"))
		pass(time.Second)
		f.fall(f.of("c"))
		want(t, "panic", f.Status().Panic, true)
		f.wants("a b c")
		want(t, "ended in the panic", strings.Join(ended, ", "), "a 0s")
		pass(time.Second)
		f.rise(f.of("a"))
		f.rise(f.of("b"))
		want(t, "ended after it", strings.Join(ended, ", "), "a 0s, c 2s")
		f.Patch("b", pool.Patch{Admin: drain()})
		want(t, "ended once b, which is back, is drained", strings.Join(ended, ", "), "a 0s, c 2s")
	})
}

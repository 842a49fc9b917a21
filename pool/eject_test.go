package pool_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// order is what a detector asks for.
var order = pool.Ejection{For: 30 * time.Second, Most: 5 * time.Minute, Budget: 100, Reason: "it is odd"}

// ejecting runs f with a probed pool of the backends in text.
func ejecting(t *testing.T, text string, pol pool.Policy, f func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		pol.Probed = true
		fix := setup(t, text, pol)
		for _, b := range fix.Probed() {
			fix.SetHealth(b, pool.Up, "first probe passed")
		}
		fix.changes = nil
		f(fix)
		fix.Close()
	})
}

// of returns a member, eligible or not.
func (f *fixture) of(id string) *pool.Backend {
	f.t.Helper()
	for _, b := range f.Tallies() {
		if b.Backend.ID() == id {
			return b.Backend
		}
	}
	f.t.Fatalf("no backend %q", id)
	return nil
}

// eject carries order out, which must be possible.
func (f *fixture) eject(id string) {
	f.t.Helper()
	if !f.Eject(f.of(id), order) {
		f.t.Fatalf("%s is not ejected", id)
	}
}

func TestEjectedBackendComesBack(t *testing.T) {
	ejecting(t, "a b", pool.Policy{}, func(f *fixture) {
		l := leaseOf(t, f.Pool, "a")
		f.eject("a")
		r := row(t, f.Pool, "a")
		want(t, "state", r.State, "down")
		want(t, "health", r.Health, "up")
		want(t, "ejected until", r.EjectedUntil, time.Now().Add(30*time.Second))
		want(t, "ejections", r.Ejections, 1)
		want(t, "sessions that it keeps", r.Active, 1)
		want(t, "probed", len(f.Probed()), 2)
		want(t, "eligible", f.Eligible(), 1)
		f.wants("b b b")
		pass(30*time.Second - 1)
		f.wants("b")
		pass(1)
		f.wants("a b a b")
		want(t, "ejected", row(t, f.Pool, "a").EjectedUntil.IsZero(), true)
		want(t, "events", f.story("a"), "up->down: it is odd; ejected for 30s; down->up: its ejection is over")
		l.Release()
	})
}

// Each time in a row adds as much as the first, up to the most; after as long as
// that without one it is forgotten.
func TestEjectionsGrow(t *testing.T) {
	ejecting(t, "a b", pool.Policy{}, func(f *fixture) {
		f.eject("a")
		f.readmit("a")
		for i, long := range []time.Duration{30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300} {
			f.eject("a")
			want(t, "ejected for", time.Until(row(t, f.Pool, "a").EjectedUntil), long*time.Second)
			if got := strings.Contains(row(t, f.Pool, "a").LastChange.Reason, "since it is the 2nd time"); got != (i == 1) {
				t.Errorf("the reason of number %d speaks of the 2nd: %v", i+1, got)
			}
			pass(long * time.Second)
			pass(5*time.Minute - 1)
		}
		f.eject("a")
		if got := row(t, f.Pool, "a").LastChange.Reason; got != "it is odd; ejected for 5m0s, since it is the 13th time in a row" {
			t.Errorf("got reason %q", got)
		}
		pass(5 * time.Minute)
		pass(5 * time.Minute)
		f.eject("a")
		want(t, "ejected for, after it was good", time.Until(row(t, f.Pool, "a").EjectedUntil), 30*time.Second)
		want(t, "ejections", row(t, f.Pool, "a").Ejections, 15)
	})
}

func TestEjectionTimesAreBounded(t *testing.T) {
	ejecting(t, "a b", pool.Policy{}, func(f *fixture) {
		const century = 100 * 365 * 24 * time.Hour
		for range 3 {
			if !f.Eject(f.of("a"), pool.Ejection{For: century, Most: century, Budget: 100}) {
				t.Fatal("a is not ejected")
			}
			want(t, "ejected for", time.Until(row(t, f.Pool, "a").EjectedUntil), century)
			f.readmit("a")
		}
	})
}

// readmit lets a backend back in, as the API does.
func (f *fixture) readmit(id string) {
	f.t.Helper()
	if err := f.Patch(id, pool.Patch{Readmit: true}); err != nil {
		f.t.Fatal(err)
	}
	synctest.Wait()
}

// How many of so many may be ejected, and that the last stays.
func TestEjectionBudget(t *testing.T) {
	for _, c := range []struct{ members, percent, out int }{
		{1, 100, 0}, {2, 100, 1}, {2, 1, 1}, {2, 0, 0}, {3, 30, 1}, {3, 66, 1}, {3, 67, 2}, {3, 100, 2},
		{10, 0, 0}, {10, 9, 1}, {10, 10, 1}, {10, 19, 1}, {10, 20, 2}, {10, 30, 3}, {10, 99, 9}, {10, 100, 9},
	} {
		ejecting(t, strings.Join(ids(c.members), " "), pool.Policy{}, func(f *fixture) {
			o, out := order, 0
			o.Budget = c.percent
			for _, id := range ids(c.members) {
				if f.Eject(f.of(id), o) {
					out++
				}
			}
			if out != c.out || f.Eligible() != c.members-c.out {
				t.Errorf("%d %% of %d: %d are ejected, %d eligible; want %d out", c.percent, c.members, out, f.Eligible(), c.out)
			}
		})
	}
}

func ids(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint("b", i))
	}
	return list
}

// One that is drained takes no room in the budget.
func TestDrainedBackendIsNotInTheBudget(t *testing.T) {
	ejecting(t, "a b c d", pool.Policy{}, func(f *fixture) {
		one := order
		one.Budget = 1
		f.Eject(f.of("a"), one)
		want(t, "a second is ejected", f.Eject(f.of("b"), one), false)
		f.Patch("a", pool.Patch{Admin: drain()})
		want(t, "a second is ejected beside one that is drained", f.Eject(f.of("b"), one), true)
	})
}

// What was removed while it was ejected is not told to be back.
func TestEjectedBackendIsRemoved(t *testing.T) {
	ejecting(t, "a b", pool.Policy{}, func(f *fixture) {
		f.eject("a")
		f.Remove("a")
		pass(time.Hour)
		want(t, "events", f.story("a"), "up->down: it is odd; ejected for 30s; down->removed: removed by the API")
	})
}

// Who is in no use is not ejected, nor are those without whom too little is left.
func TestWhoIsNotEjected(t *testing.T) {
	down := func(ids string) func(*fixture) {
		return func(f *fixture) {
			for _, id := range strings.Fields(ids) {
				f.fall(f.of(id))
			}
		}
	}
	admin := func(ids string, a pool.Admin) func(*fixture) {
		return func(f *fixture) {
			for _, id := range strings.Fields(ids) {
				if err := f.Patch(id, pool.Patch{Admin: &a}); err != nil {
					f.t.Fatal(err)
				}
			}
		}
	}
	for _, c := range []struct {
		what   string
		pol    pool.Policy
		before func(*fixture)
		want   bool
	}{
		{"one of three", pool.Policy{}, down(""), true},
		{"one that is down", pool.Policy{}, down("a"), false},
		{"one that is drained", pool.Policy{}, admin("a", pool.Drain), false},
		{"one in maintenance", pool.Policy{}, admin("a", pool.Maint), false},
		{"one that is ejected", pool.Policy{}, func(f *fixture) { f.eject("a") }, false},
		{"one whose weight is 0", pool.Policy{}, func(f *fixture) { f.Patch("a", pool.Patch{Weight: new(int)}) }, false},
		{"the last but one", pool.Policy{}, down("c"), true},
		{"the last that is up", pool.Policy{}, down("b c"), false},
		{"the last that is not drained", pool.Policy{}, admin("b c", pool.Drain), false},
		{"the last that is not ejected", pool.Policy{}, func(f *fixture) { f.eject("b"); f.eject("c") }, false},
		{"with fewer of its tier than keep backups out", pool.Policy{BackupMin: 3}, down(""), false},
		{"with just as many", pool.Policy{BackupMin: 2}, down(""), true},
		{"where all would be tried then", pool.Policy{TryAll: true, PanicBelow: 67}, down(""), false},
		{"where they would not", pool.Policy{TryAll: true, PanicBelow: 66}, down(""), true},
		{"where one of them is used", pool.Policy{Single: true}, down(""), false},
		{"where nobody would", pool.Policy{PanicBelow: 100}, down(""), true},
	} {
		ejecting(t, "a b c", c.pol, func(f *fixture) {
			c.before(f)
			if got := f.Eject(f.of("a"), order); got != c.want {
				t.Errorf("%s: got %v, want %v", c.what, got, c.want)
			}
		})
	}
}

// A backup is no reason to eject the last one that is none.
func TestEjectionLeavesTheTier(t *testing.T) {
	ejecting(t, "a b", pool.Policy{}, func(f *fixture) {
		c := config(t, "a b", pool.Policy{Probed: true})
		c.Backends[1].Backup = 1
		f.Apply(c)
		want(t, "ejected", f.Eject(f.of("a"), order), false)
	})
}

// Refusing everybody helps nobody: with nobody else up, all that are ejected are
// back at once.
func TestEjectionEndsWithNobodyElse(t *testing.T) {
	ejecting(t, "a b c", pool.Policy{}, func(f *fixture) {
		f.eject("a")
		f.eject("b")
		f.fall(f.of("c"))
		f.wants("a b a b")
		want(t, "reason", row(t, f.Pool, "b").LastChange.Reason, "its ejection ends early, since no other backend works")
		f.rise(f.of("c"))
		f.fall(f.of("a"))
		f.eject("b")
		f.rise(f.of("a"))
		want(t, "the next ejection counts the one that ended early", time.Until(row(t, f.Pool, "b").EjectedUntil), time.Minute)
	})
}

func TestSuspectIsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a b", pool.Policy{MaxFailures: 1, RetryAfter: time.Hour})
		f.eject("a")
		fail(t, f.Pool, "b")
		f.wants("a b a")
		f.Close()
	})
}

// fail has a dial of that backend fail.
func fail(t *testing.T, p *pool.Pool, id string) {
	t.Helper()
	leaseOf(t, p, id).Failed("refused", errDial)
}

// A backend that goes down while it is ejected comes back when both are over.
func TestEjectedAndDown(t *testing.T) {
	ejecting(t, "a b", pool.Policy{}, func(f *fixture) {
		f.eject("a")
		f.fall(f.of("a"))
		pass(30 * time.Second)
		want(t, "state while down", row(t, f.Pool, "a").State, "down")
		f.rise(f.of("a"))
		f.wants("a b")
		f.eject("a")
		f.fall(f.of("a"))
		pass(10 * time.Second)
		f.rise(f.of("a"))
		f.wants("b b")
		if got := row(t, f.Pool, "a").LastChange.Reason; !strings.HasSuffix(got, "2 probes passed; held out for another 0s; ejected for another 50s") &&
			!strings.HasSuffix(got, "2 probes passed; ejected for another 50s") {
			t.Errorf("got reason %q", got)
		}
		pass(50 * time.Second)
		f.wants("a b")
	})
}

// Without probes, a trial waits for the end of the ejection.
func TestEjectionAndTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a b", pool.Policy{MaxFailures: 1, RetryAfter: time.Second})
		l := leaseOf(t, f.Pool, "a")
		f.eject("a")
		l.Failed("refused", errDial)
		pass(30*time.Second - 1)
		f.wants("b b b")
		pass(1)
		f.wants("a b a")
		f.Close()
	})
}

func TestEjectionEndsByOrder(t *testing.T) {
	maint, ready, drain := pool.Maint, pool.Ready, pool.Drain
	for what, c := range map[string]struct {
		end  func(f *fixture)
		next time.Duration // that the next ejection lasts
		last string        // part of the last reason
	}{
		"the API": {func(f *fixture) { f.readmit("a") }, 30 * time.Second, "let back in by the API"},
		"maintenance": {func(f *fixture) {
			f.Patch("a", pool.Patch{Admin: &maint})
			f.Patch("a", pool.Patch{Admin: &ready})
		}, 30 * time.Second, "set to ready by the API"},
		"the detection ends": {func(f *fixture) { f.EndEjections("switched off") }, 30 * time.Second, "switched off"},
		"drain ends nothing": {func(f *fixture) {
			f.Patch("a", pool.Patch{Admin: &drain})
			f.Patch("a", pool.Patch{Admin: &ready})
			f.wants("b b")
			pass(30 * time.Second)
		}, time.Minute, "its ejection is over"},
		"nor does a removal that is taken back": {func(f *fixture) {
			f.Remove("a")
			f.Add(pool.Spec{ID: "a", Address: "a:1", Weight: 1})
			f.wants("b b")
			pass(30 * time.Second)
		}, time.Minute, "its ejection is over"},
		"it goes on while the backend is no member": {func(f *fixture) {
			f.Remove("a")
			pass(time.Minute)
			f.Add(pool.Spec{ID: "a", Address: "a:1", Weight: 1})
		}, time.Minute, "added again by the API"},
		"it is good while it is no member": {func(f *fixture) {
			f.Remove("a")
			pass(30*time.Second + 5*time.Minute)
			f.Add(pool.Spec{ID: "a", Address: "a:1", Weight: 1})
		}, 30 * time.Second, "added again by the API"},
		"a reload ends nothing": {func(f *fixture) {
			f.apply("a=2 b", pool.Policy{Probed: true})
			f.wants("b b")
			f.apply("a b", pool.Policy{Probed: true})
			pass(30 * time.Second)
		}, time.Minute, "its ejection is over"},
	} {
		t.Run(what, func(t *testing.T) {
			ejecting(t, "a b", pool.Policy{}, func(f *fixture) {
				f.eject("a")
				c.end(f)
				if got := picks(t, f.Pool, 4); !strings.Contains(got, "a") {
					t.Errorf("a gets nothing: %s", got)
				}
				if got := row(t, f.Pool, "a").LastChange.Reason; !strings.Contains(got, c.last) {
					t.Errorf("got reason %q, want %q in it", got, c.last)
				}
				f.eject("a")
				want(t, "the next ejection", time.Until(row(t, f.Pool, "a").EjectedUntil), c.next)
			})
		})
	}
}

// Sessions that the backend ended first count once, as what they are.
func TestEndedFirst(t *testing.T) {
	p := newPool(t, config(t, "a", pool.Policy{}))
	for i, c := range []struct {
		within        time.Duration
		reset, silent bool
		after         time.Duration
		early, empty  int64
	}{
		{0, true, true, time.Second, 0, 1},
		{0, true, false, time.Second, 0, 1},
		{time.Second, true, false, time.Second, 1, 1},
		{time.Second, true, true, time.Second, 2, 1},
		{time.Second, true, true, time.Second + 1, 2, 2},
		{time.Second, true, false, time.Second + 1, 2, 2},
		{time.Second, false, true, 0, 2, 3},
		{time.Second, false, false, 0, 2, 3},
	} {
		p.CountEarly(c.within)
		lease(t, p, func(l *pool.Lease) { l.EndedFirst(c.reset, c.silent, c.after) })
		r := row(t, p, "a")
		want(t, fmt.Sprint("early resets after ", i), r.EarlyResets, c.early)
		want(t, fmt.Sprint("empty after ", i), r.Empty, c.empty)
	}
	new(pool.Lease).EndedFirst(true, true, 0)
}

package pool_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// fail makes n dials of a backend fail.
func (f *fixture) fail(id string, n int) {
	f.t.Helper()
	for range n {
		leaseOf(f.t, f.Pool, id).Failed("refused", errDial)
	}
}

func TestDialFailuresTakeOut(t *testing.T) {
	f := setup(t, "a b", pool.Policy{MaxFailures: 3, RetryAfter: time.Hour})
	f.fail("a", 2)
	want(t, "state after 2", row(t, f.Pool, "a").State, "up")
	leaseOf(t, f.Pool, "a").Connected()
	f.fail("a", 2)
	want(t, "state after a success and 2", row(t, f.Pool, "a").State, "up")
	f.fail("a", 1)
	want(t, "state after 3", row(t, f.Pool, "a").State, "down")
	want(t, "events", f.story("a"), "up->down: 3 failures in a row, the last: refused: dial tcp a:1: connection refused")
	want(t, "suspected", len(f.suspect), 5)
	want(t, "picks", picks(t, f.Pool, 3), "b b b")
}

func TestMaxFailuresZeroNeverTakesOut(t *testing.T) {
	f := setup(t, "a b", pool.Policy{})
	f.fail("a", 100)
	want(t, "state", row(t, f.Pool, "a").State, "up")
}

// B059: the last backend that is available stays, not the last configured.
func TestLastEligibleStays(t *testing.T) {
	f := setup(t, "a b c=0", pool.Policy{MaxFailures: 2, RetryAfter: time.Hour})
	f.operate("drain b")
	f.fail("a", 5)
	r := row(t, f.Pool, "a")
	want(t, "state", r.State, "up")
	want(t, "suspect", r.Suspect, true)
	f.operate("ready b")
	f.fail("a", 1)
	r = row(t, f.Pool, "a")
	want(t, "state with another one", r.State, "down")
	want(t, "suspect with another one", r.Suspect, false)
	f.fail("b", 3)
	want(t, "suspect", row(t, f.Pool, "b").Suspect, true)
	leaseOf(t, f.Pool, "b").Connected()
	want(t, "suspect after a success", row(t, f.Pool, "b").Suspect, false)
}

func TestProbesMayTakeOutTheLast(t *testing.T) {
	f := setup(t, "a", pool.Policy{Probed: true, MaxFailures: 1})
	a := backend(t, f.Pool, "a")
	want(t, "changed", f.SetHealth(a, pool.Down, "3 probes in a row failed, the last: x"), true)
	want(t, "changed again", f.SetHealth(a, pool.Down, "y"), false)
	want(t, "Eligible", f.Eligible(), 0)
	want(t, "reason", row(t, f.Pool, "a").LastChange.Reason, "3 probes in a row failed, the last: x")
}

func TestTryAll(t *testing.T) {
	f := setup(t, "a b c", pool.Policy{Probed: true, TryAll: true})
	f.operate("maint c")
	a, b := backend(t, f.Pool, "a"), backend(t, f.Pool, "b")
	f.SetHealth(a, pool.Down, "x")
	want(t, "picks with one up", picks(t, f.Pool, 2), "b b")
	f.SetHealth(b, pool.Down, "x")
	want(t, "picks with none up", picks(t, f.Pool, 2), "a b")
	lease(t, f.Pool, (*pool.Lease).Connected)
	want(t, "with probes a dial proves nothing", a.Health(), pool.Down)
	f.SetHealth(b, pool.Up, "x")
	want(t, "picks with one up again", picks(t, f.Pool, 2), "b b")
}

func TestTryAllWithoutProbesComesBackByADial(t *testing.T) {
	f := setup(t, "a b", pool.Policy{TryAll: true, MaxFailures: 1, RetryAfter: time.Hour})
	a := backend(t, f.Pool, "a")
	f.SetHealth(a, pool.Down, "x")
	f.SetHealth(backend(t, f.Pool, "b"), pool.Down, "x")
	leaseOf(t, f.Pool, "a").Connected()
	want(t, "health", a.Health(), pool.Up)
	want(t, "reason", row(t, f.Pool, "a").LastChange.Reason, "a dial succeeded")
}

func TestInit(t *testing.T) {
	for _, c := range []struct {
		init    pool.Init
		health  string
		state   string
		settled bool
	}{
		{pool.InitUp, "unknown", "up", true},
		{pool.InitProbe, "unknown", "down", false},
		{pool.InitDown, "down", "down", true},
	} {
		p := pool.New("p", config(t, "a b", pool.Policy{Probed: true, Init: c.init}), pool.Hooks{})
		t.Cleanup(p.Close)
		r := row(t, p, "a")
		want(t, "health", r.Health, c.health)
		want(t, "state", r.State, c.state)
		want(t, "settled", p.Settled(), c.settled)
		want(t, "eligible", p.Eligible() == 2, c.state == "up")
		for _, b := range p.Probed() {
			p.SetHealth(b, pool.Up, "first probe passed")
		}
		want(t, "eligible after the first probes", p.Eligible(), 2)
		want(t, "settled after the first probes", p.Settled(), true)
	}
}

func TestSettledDoesNotWaitForMaint(t *testing.T) {
	f := setup(t, "a b", pool.Policy{Probed: true, Init: pool.InitProbe})
	f.SetHealth(f.Probed()[0], pool.Down, "first probe failed: x")
	want(t, "settled", f.Settled(), false)
	f.operate("maint b")
	want(t, "settled with b in maint", f.Settled(), true)
	f.operate("add c")
	want(t, "settled with c new", f.Settled(), false)
}

// Carried-over state wins: init is for new backends.
func TestProbesSwitchedOn(t *testing.T) {
	f := setup(t, "a", pool.Policy{})
	f.apply("a b", pool.Policy{Probed: true, Init: pool.InitProbe})
	want(t, "picks", picks(t, f.Pool, 2), "a a")
	want(t, "settled", f.Settled(), false)
	f.apply("a b", pool.Policy{})
	want(t, "picks with probes off again", picks(t, f.Pool, 2), "b a")
	want(t, "b", f.story("b"), "->down: configured in the file; down->up: the file's policy changed")
}

func TestSetHealthOfARemovedBackend(t *testing.T) {
	f := setup(t, "a b", pool.Policy{Probed: true})
	a := backend(t, f.Pool, "a")
	f.operate("remove a")
	want(t, "changed", f.SetHealth(a, pool.Down, "late"), false)
	f.operate("add a")
	want(t, "health", row(t, f.Pool, "a").Health, "unknown")
}

func TestHealthSurvivesRemoval(t *testing.T) {
	f := setup(t, "a b", pool.Policy{Probed: true, Init: pool.InitProbe})
	for _, b := range f.Probed() {
		f.SetHealth(b, pool.Up, "x")
	}
	f.SetHealth(backend(t, f.Pool, "a"), pool.Down, "x")
	f.operate("remove a; add a; remove b; add b")
	want(t, "a", row(t, f.Pool, "a").State, "down")
	want(t, "b", row(t, f.Pool, "b").State, "up")
}

// Coming back is a fresh start for the failures that took a backend out.
func TestUpVerdictEndsTheStreak(t *testing.T) {
	f := setup(t, "a b", pool.Policy{Probed: true, MaxFailures: 2})
	a := backend(t, f.Pool, "a")
	f.fail("a", 2)
	want(t, "health", a.Health(), pool.Down)
	f.SetHealth(a, pool.Up, "2 probes in a row passed")
	f.fail("a", 1)
	want(t, "health after one failure more", a.Health(), pool.Up)
}

const retryAfter = 10 * time.Second

// trial runs f with a pool of a and b without probes, where a is down.
func trial(t *testing.T, run func(f *fixture, a *pool.Backend)) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a b", pool.Policy{MaxFailures: 2, RetryAfter: retryAfter})
		a := backend(t, f.Pool, "a")
		f.fail("a", 2)
		f.wants("b b b")
		run(f, a)
	})
}

// pass lets time pass, and timers run.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (f *fixture) wants(ids string) {
	f.t.Helper()
	want(f.t, "picks", picks(f.t, f.Pool, len(strings.Fields(ids))), ids)
}

func TestTrialThatSucceeds(t *testing.T) {
	trial(t, func(f *fixture, a *pool.Backend) {
		pass(retryAfter - 1)
		f.wants("b b b")
		pass(1)
		want(t, "Eligible", f.Eligible(), 2)
		l := leaseOf(t, f.Pool, "a")
		f.wants("b b b") // exactly one
		want(t, "health during the trial", a.Health(), pool.Down)
		l.Connected()
		want(t, "health", a.Health(), pool.Up)
		f.wants("a b a b")
		want(t, "reason", row(t, f.Pool, "a").LastChange.Reason, "the dial of its trial session succeeded")
		l.Release()
		want(t, "failures in a row", row(t, f.Pool, "a").FailuresInRow, 0)
	})
}

func TestTrialThatFails(t *testing.T) {
	trial(t, func(f *fixture, a *pool.Backend) {
		for range 3 {
			pass(retryAfter)
			leaseOf(t, f.Pool, "a").Failed("timeout", errDial)
			f.wants("b b b")
			pass(retryAfter - 1)
			f.wants("b b b")
		}
		want(t, "events", len(f.changes), 1)
	})
}

func TestTrialWhoseClientLeaves(t *testing.T) {
	trial(t, func(f *fixture, a *pool.Backend) {
		pass(retryAfter)
		for range 3 {
			l := leaseOf(t, f.Pool, "a")
			f.wants("b b")
			l.Release()
		}
		leaseOf(t, f.Pool, "a").Connected()
		want(t, "health", a.Health(), pool.Up)
	})
}

func TestTrialTakenIsNotFull(t *testing.T) {
	trial(t, func(f *fixture, a *pool.Backend) {
		pass(retryAfter)
		l := leaseOf(t, f.Pool, "a")
		defer l.Release()
		b := backend(t, f.Pool, "b")
		var none pool.Lease
		if err := f.Acquire(&none, pool.Query{Avoid: []*pool.Backend{b}}); err != pool.ErrNoBackend {
			t.Errorf("got %v, want ErrNoBackend", err)
		}
	})
}

// A backend on trial is nobody to rely on.
func TestLastEligibleStaysBesideATrial(t *testing.T) {
	trial(t, func(f *fixture, a *pool.Backend) {
		pass(retryAfter)
		f.fail("b", 5)
		r := row(t, f.Pool, "b")
		want(t, "state, suspect", fmt.Sprint(r.State, r.Suspect), "uptrue")
	})
}

func TestProbesSwitchedOnEndATrial(t *testing.T) {
	trial(t, func(f *fixture, a *pool.Backend) {
		pass(retryAfter)
		l := leaseOf(t, f.Pool, "a")
		f.apply("a b", pool.Policy{MaxFailures: 2, RetryAfter: retryAfter, Probed: true})
		l.Connected()
		want(t, "health", a.Health(), pool.Down)
		pass(time.Hour)
		f.wants("b b")
	})
}

// An open trial does not outlast the time that it belongs to.
func TestProbesSwitchedOnAndOffCloseATrial(t *testing.T) {
	trial(t, func(f *fixture, a *pool.Backend) {
		pass(retryAfter)
		pol := pool.Policy{MaxFailures: 2, RetryAfter: retryAfter, Probed: true}
		f.apply("a b", pol)
		pol.Probed = false
		f.apply("a b", pol)
		pass(retryAfter - 1)
		f.wants("b b b")
		pass(1)
		want(t, "Eligible", f.Eligible(), 2)
	})
}

func TestProbesSwitchedOffStartATrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a b", pool.Policy{Probed: true})
		f.SetHealth(backend(t, f.Pool, "a"), pool.Down, "x")
		pass(time.Hour)
		f.apply("a b", pool.Policy{RetryAfter: retryAfter})
		pass(retryAfter - 1)
		f.wants("b b")
		pass(1)
		leaseOf(t, f.Pool, "a").Connected()
		want(t, "health", row(t, f.Pool, "a").Health, "up")
	})
}

func TestRetryTimerOverRemoval(t *testing.T) {
	trial(t, func(f *fixture, a *pool.Backend) {
		pass(retryAfter / 2)
		f.operate("remove a")
		pass(retryAfter)
		f.operate("add a")
		pass(retryAfter - 1)
		f.wants("b b")
		pass(1)
		l := leaseOf(t, f.Pool, "a")
		f.operate("remove a; add a")
		pass(time.Hour)
		f.wants("b b") // the trial is still out
		l.Failed("refused", errors.New("x"))
		pass(retryAfter)
		leaseOf(t, f.Pool, "a").Connected()
		want(t, "health", a.Health(), pool.Up)
	})
}

func TestCloseStopsRetryTimers(t *testing.T) {
	trial(t, func(f *fixture, a *pool.Backend) {
		f.Close()
		pass(time.Hour)
		want(t, "Eligible", f.Eligible(), 0)
	})
}

// A backend that counts as down from the start is told once why it stays so, in
// the status and to the log: "configured in the file" helps nobody at night.
func TestDownFromTheStartSaysWhy(t *testing.T) {
	f := setup(t, "a", pool.Policy{Probed: true, Init: pool.InitDown})
	a := f.Probed()[0]
	f.changes = nil
	for range 2 {
		want(t, "changed", f.SetHealth(a, pool.Down, "1 probe failed: wrong password"), false)
	}
	want(t, "reason", row(t, f.Pool, "a").LastChange.Reason, "1 probe failed: wrong password")
	if len(f.changes) != 1 || f.changes[0].From != "down" || f.changes[0].To != "down" {
		t.Errorf("got %+v, want one line about it", f.changes)
	}
}

// What took a backend out may not be what keeps it out.
func TestTheNewestProbeIsShown(t *testing.T) {
	f := setup(t, "a b", pool.Policy{Probed: true})
	a := backend(t, f.Pool, "a")
	want(t, "before any probe", row(t, f.Pool, "a").LastProbe == nil, true)
	a.NoteProbe(errors.New("refused"))
	f.SetHealth(a, pool.Down, "first probe failed: refused")
	text := func() string { return f.Explain(pool.Query{}, 0).Backends[0].Text }
	want(t, "text", text(), "first probe failed: refused")
	a.NoteProbe(errors.New("wrong password"))
	want(t, "text later", text(), "first probe failed: refused; the last probe failed: wrong password")
	want(t, "in the status", row(t, f.Pool, "a").LastProbe.Text, "failed: wrong password")
}

package pool_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// flapping runs f with a pool of a and b that is probed.
func flapping(t *testing.T, run func(f *fixture, a *pool.Backend)) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a b", pool.Policy{Probed: true})
		for _, b := range f.Probed() {
			f.SetHealth(b, pool.Up, "first probe passed")
		}
		run(f, backend(t, f.Pool, "a"))
	})
}

// fall takes b out, as probes do.
func (f *fixture) fall(b *pool.Backend) { f.SetHealth(b, pool.Down, "3 probes failed") }

// rise is what probes find when b works again.
func (f *fixture) rise(b *pool.Backend) { f.SetHealth(b, pool.Up, "2 probes passed") }

// B062: each time that a backend goes down soon after it came back doubles the
// time that it is held out. Probes that pass do not shorten it.
func TestFlappingIsHeldOut(t *testing.T) {
	flapping(t, func(f *fixture, a *pool.Backend) {
		time.Sleep(time.Hour)
		f.fall(a)
		want(t, "held the first time", row(t, f.Pool, "a").HeldUntil.IsZero(), true)
		f.rise(a)
		f.wants("b a b a")
		for i, hold := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			hold *= time.Second
			time.Sleep(10 * time.Second)
			f.fall(a)
			fell := time.Now()
			want(t, "held until", row(t, f.Pool, "a").HeldUntil, fell.Add(hold))
			pass(hold / 4)
			f.rise(a)
			pass(hold - hold/4 - 1)
			want(t, "state while held", row(t, f.Pool, "a").State, "down")
			want(t, "health while held", row(t, f.Pool, "a").Health, "up")
			f.wants("b b b")
			pass(1)
			want(t, fmt.Sprint("state after hold ", i), row(t, f.Pool, "a").State, "up")
			want(t, "held", row(t, f.Pool, "a").HeldUntil.IsZero(), true)
			want(t, "reason", row(t, f.Pool, "a").LastChange.Reason, "2 probes passed; its hold is over")
			f.wants("a b a b")
		}
	})
}

func TestFlappingHasEvidence(t *testing.T) {
	flapping(t, func(f *fixture, a *pool.Backend) {
		f.fall(a)
		f.rise(a)
		f.fall(a)
		f.rise(a)
		pass(time.Second)
		f.fall(a)
		f.rise(a)
		pass(2 * time.Second)
		want(t, "events", f.story("a"), strings.Join([]string{
			"up->up: first probe passed",
			"up->down: 3 probes failed",
			"down->up: 2 probes passed",
			"up->down: 3 probes failed; held out for 1s, since it went down once soon after it had come back",
			"down->down: 2 probes passed; held out for another 1s",
			"down->up: 2 probes passed; its hold is over",
			"up->down: 3 probes failed; held out for 2s, since it went down 2 times in a row soon after it had come back",
			"down->down: 2 probes passed; held out for another 2s",
			"down->up: 2 probes passed; its hold is over",
		}, "; "))
	})
}

// Five minutes without a fall make a backend as good as new.
func TestSteadyBackendIsForgiven(t *testing.T) {
	flapping(t, func(f *fixture, a *pool.Backend) {
		held := func() bool { return !row(t, f.Pool, "a").HeldUntil.IsZero() }
		f.fall(a)
		time.Sleep(time.Hour) // how long it was down does not matter
		f.rise(a)
		time.Sleep(5*time.Minute - 1)
		f.fall(a)
		want(t, "held for a fall within 5 minutes", held(), true)
		pass(time.Second)
		f.rise(a)
		time.Sleep(5 * time.Minute)
		f.fall(a)
		want(t, "held for a fall after 5 minutes", held(), false)
		f.rise(a)
		f.fall(a)
		want(t, "the next hold", time.Until(row(t, f.Pool, "a").HeldUntil), time.Second)
	})
}

// A hold that ends while the backend is down brings nothing back.
func TestHoldEndsWhileDown(t *testing.T) {
	flapping(t, func(f *fixture, a *pool.Backend) {
		f.fall(a)
		f.rise(a)
		f.fall(a)
		pass(time.Minute)
		f.wants("b b")
		f.rise(a)
		f.wants("a b")
	})
}

// Refusing everybody helps nobody: a backend that works is held out only beside
// another one.
func TestHoldEndsWithNobodyElse(t *testing.T) {
	flapping(t, func(f *fixture, a *pool.Backend) {
		b := backend(t, f.Pool, "b")
		f.fall(a)
		f.rise(a)
		f.fall(a)
		f.rise(a)
		f.wants("b b")
		f.fall(b)
		f.wants("a a")
		want(t, "reason", row(t, f.Pool, "a").LastChange.Reason, "2 probes passed; its hold ends early, since no other backend works")
		want(t, "held", row(t, f.Pool, "a").HeldUntil.IsZero(), true)
		f.fall(a)
		f.rise(a)
		f.wants("a a")
		f.fall(a)
		_, err := pickOne(f.Pool)
		want(t, "a pick with both down", err, pool.ErrNoBackend)
	})
}

func pickOne(p *pool.Pool) (id string, err error) {
	var l pool.Lease
	defer l.Release()
	if err := p.Acquire(&l, pool.Query{}); err != nil {
		return "", err
	}
	return l.Backend().ID(), nil
}

// Leaving and coming back is no way out of a hold, nor is the order of an
// operator; and none of it leaves a timer that does harm.
func TestHoldOutlivesRemoval(t *testing.T) {
	flapping(t, func(f *fixture, a *pool.Backend) {
		f.fall(a)
		f.rise(a)
		f.fall(a)
		f.rise(a)
		f.operate("remove a; add a")
		f.wants("b b")
		f.operate("maint a; ready a")
		f.wants("b b")
		f.operate("remove a")
		pass(time.Minute)
		f.operate("add a")
		pass(0)
		f.wants("a b")
	})
}

// Without probes the trial of a backend that flaps waits for the end of its hold.
func TestHoldDelaysTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a b", pool.Policy{MaxFailures: 1, RetryAfter: 3 * time.Second})
		for _, wait := range []time.Duration{3, 3, 3, 4, 8, 16} { // held for 0, 1, 2, 4, 8, 16
			f.fail("a", 1)
			pass(wait*time.Second - 1)
			f.wants("b b")
			pass(1)
			leaseOf(t, f.Pool, "a").Connected()
			want(t, "state", row(t, f.Pool, "a").State, "up")
		}
	})
}

// A backend whose dials all fail is nobody else, though it stays because it is the
// last one.
func TestHoldEndsBesideASuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a b", pool.Policy{Probed: true, MaxFailures: 2})
		for _, b := range f.Probed() {
			f.SetHealth(b, pool.Up, "first probe passed")
		}
		a := backend(t, f.Pool, "a")
		f.fall(a)
		f.rise(a)
		f.fall(a)
		f.rise(a)
		f.fail("b", 1)
		want(t, "state beside a failure", row(t, f.Pool, "a").State, "down")
		f.fail("b", 1)
		want(t, "state beside a suspect", row(t, f.Pool, "a").State, "up")
		f.fail("b", 1)
		want(t, "state of the suspect", row(t, f.Pool, "b").State, "down")
		f.wants("a a")
	})
}

// Nor does a trial wait for the end of a hold then.
func TestTrialBesideASuspectComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a b", pool.Policy{MaxFailures: 1, RetryAfter: 3 * time.Second})
		for _, wait := range []time.Duration{3, 3, 3, 4, 8, 16} { // see TestHoldDelaysTheTrial
			f.fail("a", 1)
			pass(wait * time.Second)
			leaseOf(t, f.Pool, "a").Connected()
		}
		f.fail("a", 1) // held for 32 s
		f.fail("b", 1)
		pass(2 * time.Second)
		f.fail("b", 1)
		pass(time.Second - 1)
		f.wants("b b")
		pass(1)
		leaseOf(t, f.Pool, "a").Connected()
		want(t, "state", row(t, f.Pool, "a").State, "up")
	})
}

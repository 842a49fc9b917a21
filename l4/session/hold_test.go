package session_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// holding is a policy that holds sessions while no backend is eligible.
func holding() pool.Policy {
	return pool.Policy{QueueMax: 10, QueueFor: 3 * time.Second, HoldFor: 30 * time.Second, MaxFailures: 3, RetryAfter: time.Hour}
}

// attemptsOf returns the dials of a record, as "A:refused B:".
func attemptsOf(r session.Record) string {
	var words []string
	for _, a := range r.Attempts {
		words = append(words, a.Backend+":"+a.Error)
	}
	return strings.Join(words, " ")
}

// waits wants the session to wait until that long after it began to.
func (w *world) waits(step session.Step, came time.Time, patience time.Duration) {
	w.t.Helper()
	if step.Do != session.Wait || !step.Deadline.Equal(came.Add(patience)) {
		w.t.Fatalf("got %+v, want to wait for %v since %v", step, patience, came)
	}
}

func TestHeldInVain(t *testing.T) {
	w := newWorld(t, "", holding())
	w.start()
	w.waits(w.connect(), w.now, 30*time.Second)
	if step := w.Woken(w.after(30 * time.Second)); step.Do != session.End {
		t.Fatalf("got %+v, want an end", step)
	}
	if r := w.finish(); r.Cause != session.HoldTimeout || r.Code != "sQ" || r.Queue != 30*time.Second || !r.Cause.Refused() {
		t.Errorf("got %s %s after %v", r.Cause, r.Code, r.Queue)
	}
}

func TestHeldClientLeaves(t *testing.T) {
	w := newWorld(t, "", holding())
	w.start()
	w.connect()
	if !w.Left(w.after(time.Second)) {
		t.Error("it stays")
	}
	if r := w.finish(); r.Cause != session.ClientLeft || r.Code != "CQ" || w.pool.Status().Held != 0 {
		t.Errorf("got %s %s", r.Cause, r.Code)
	}
}

// The deadline is that of the situation, counted from when the session came.
func TestDeadlineFollowsTheSituation(t *testing.T) {
	w := newWorld(t, "A/1", holding())
	var other pool.Lease
	w.pool.Acquire(&other, pool.Query{})
	w.start()
	came := w.now
	w.waits(w.connect(), came, 3*time.Second)
	drain, ready := pool.Drain, pool.Ready
	w.pool.Patch("A", pool.Patch{Admin: &drain})
	w.waits(w.Woken(w.after(2*time.Second)), came, 30*time.Second)
	w.waits(w.Woken(w.after(2*time.Second)), came, 30*time.Second)
	w.pool.Patch("A", pool.Patch{Admin: &ready})
	w.Woken(w.now)
	other.Release()
	if r := w.finish(); r.Cause != session.QueueTimeout || r.Queue != 4*time.Second || w.woken != 2 {
		t.Errorf("got %s after %v, woken %d times", r.Cause, r.Queue, w.woken)
	}
}

// A session whose only backend refuses is held, tries it again after a pause, and
// neither attempts nor the budget of its dials bound that.
func TestHeldAfterEveryDialFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "A B", holding())
		w.network = map[string]string{"10.0.0.1": "refused", "10.0.0.2": "hang"}
		w.set.Attempts = 2
		w.start()
		step := w.connect()
		came := w.now
		for i := range 8 {
			w.waits(step, came, 30*time.Second)
			time.Sleep(time.Second)
			synctest.Wait()
			w.after(time.Second)
			if i == 7 {
				w.network = map[string]string{}
			}
			step = w.Woken(w.now)
			if step.Do != session.Dial || step.Deadline.Sub(w.now) <= 0 {
				t.Fatalf("try %d: got %+v", i, step)
			}
			if step = w.Dialed(w.now, w.dial(step)); step.Do != session.Wait {
				step = w.resume(step)
			}
		}
		if step.Do != session.Relay {
			t.Fatalf("got %+v, want to relay; %s", step, w.trace())
		}
		r := w.finish()
		if got := attemptsOf(r); !strings.HasPrefix(got, "A:refused B:timeout ") || strings.Count(got, "refused") < 3 {
			t.Errorf("attempts %s", got)
		}
		if r.Queue < 8*time.Second || r.Queue+r.Dial > r.Total {
			t.Errorf("waited %v, dialed %v of %v", r.Queue, r.Dial, r.Total)
		}
	})
}

// resume goes on looking for a backend after an answer.
func (w *world) resume(step session.Step) session.Step {
	for {
		switch step.Do {
		case session.Queue:
			step = w.Queue(w.now, func() { w.woken++ })
		case session.Dial:
			step = w.Dialed(w.now, w.dial(step))
		default:
			return step
		}
	}
}

// What it comes back to is its own place, and its time has gone on.
func TestHeldSessionHasOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "A", holding())
		w.network = map[string]string{"10.0.0.1": "refused"}
		w.start()
		step, came := w.connect(), w.now
		for range 100 {
			time.Sleep(time.Second)
			synctest.Wait()
			if step = w.resume(w.Woken(w.after(time.Second))); step.Do == session.End {
				break
			}
		}
		r := w.finish()
		if r.Cause != session.HoldTimeout || r.Total < 30*time.Second || w.now.Sub(came) > 31*time.Second {
			t.Errorf("got %s after %v", r.Cause, r.Total)
		}
		if n := len(r.Attempts); n < 20 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A session that is held for very long does not note each of its dials.
func TestAttemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pol := holding()
		pol.HoldFor = time.Hour
		w := newWorld(t, "A", pol)
		w.network = map[string]string{"10.0.0.1": "refused"}
		w.start()
		w.connect()
		for range 200 {
			time.Sleep(time.Second)
			synctest.Wait()
			w.resume(w.Woken(w.after(time.Second)))
		}
		if n := len(w.finish().Attempts); n != 40 {
			t.Errorf("%d attempts, want 40", n)
		}
	})
}

// With others that it has not tried, attempts are what they were: the most.
func TestAttemptsEndASessionThatHasOthers(t *testing.T) {
	w := newWorld(t, "A B C", holding())
	w.network = map[string]string{"10.0.0.1": "refused", "10.0.0.2": "refused", "10.0.0.3": "refused"}
	w.set.Attempts = 2
	w.start()
	w.connect()
	if r := w.finish(); r.Cause != session.ConnectFailed || len(r.Attempts) != 2 {
		t.Errorf("got %s, %s", r.Cause, attemptsOf(r))
	}
}

// An order about the backend that is dialed has the session wait for another.
func TestDivertedSessionIsHeld(t *testing.T) {
	for _, c := range []session.Cause{session.OnDown, session.Removed, session.Drained} {
		w := newWorld(t, "A", holding())
		w.start()
		if step := w.Next(w.now); step.Do != session.Dial {
			t.Fatalf("got %+v", step)
		}
		w.pool.Remove("A")
		if v := w.Asked(w.now, c); v != session.Redial {
			t.Fatalf("got %s", verbs[v])
		}
		w.waits(w.resume(w.Diverted(w.now, c)), w.now, 30*time.Second)
		w.pool.Add(specs("B")[0])
		if step := w.resume(w.Woken(w.now)); step.Do != session.Relay {
			t.Errorf("got %+v, want to relay", step)
		}
		if r := w.finish(); fmt.Sprint(attemptsOf(r)) != "A:canceled B:" {
			t.Errorf("attempts %s", attemptsOf(r))
		}
	}
}

// A route whose backend may have acted is over with the last that it could try: it
// does not ask for a place in the line, whether the pool holds sessions or not.
func TestReachedRouteAsksForNoPlace(t *testing.T) {
	never := holding()
	never.HoldFor = 0
	for _, c := range []struct {
		policy  pool.Policy
		reached bool
		queues  bool
	}{{holding(), false, true}, {holding(), true, false}, {never, false, false}, {never, true, false}} {
		w := newWorld(t, "A", c.policy)
		var r session.Route
		r.Start(w.pool, &w.set, netip.Addr{})
		r.Next(w.now)
		r.Dialed(w.now, refusedError())
		if c.reached {
			r.Reached()
		}
		if try, cause := r.Next(w.now); cause != session.ConnectFailed || try.Backend != nil || r.Queues() != c.queues {
			t.Errorf("hold %v, reached %v: got %+v, %s, and queues: %v", c.policy.HoldFor, c.reached, try, cause, r.Queues())
		}
	}
}

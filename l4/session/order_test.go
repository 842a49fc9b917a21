package session_test

import (
	"syscall"
	"testing"
	"time"

	"sluice/l4/session"
)

// An engine that fails closes a session that nothing ended.
func TestClosedWithoutAnEnding(t *testing.T) {
	for _, when := range []string{"before", "lookup", "dial", "second"} {
		w := newWorld(t, "A@a.test B", pool0)
		w.start()
		w.until(when)
		if r := w.finish(); r.Cause != session.LocalFault || r.Code != "RC" {
			t.Errorf("%s: got %s %s", when, r.Cause, r.Code)
		}
	}
	w := connected(t, defaults(), 0)
	if r := w.finish(); r.Cause != session.LocalFault {
		t.Errorf("relaying: got %s", r.Cause)
	}
}

// After Close a session is told things in vain: no lease is taken, nothing is
// counted, the record stays.
func TestNothingHappensAfterClose(t *testing.T) {
	for _, when := range []string{"before", "lookup", "dial", "relay"} {
		w := newWorld(t, "A@a.test B", pool0)
		w.start()
		w.until(when)
		if when == "relay" {
			w.Dialed(w.now, nil)
		}
		r := w.finish()
		kept := attempts(r)
		w.Gone(w.now)
		w.Moved(w.now, session.Client, 5)
		answers := []session.Verb{
			w.Asked(w.now, session.Killed), w.Ended(w.now, session.Client, nil),
			w.Ended(w.now, session.Backend, syscall.EPIPE), w.Expired(w.now.Add(time.Hour), [2]int{1, 2}),
		}
		for _, v := range answers {
			if v != session.None && v != session.Cut {
				t.Errorf("%s: got %s", when, verbs[v])
			}
		}
		for _, step := range []session.Step{w.Next(w.now), w.Resolved(w.now, nil, nil), w.Dialed(w.now, nil)} {
			if step.Do != session.End {
				t.Errorf("%s: got %s", when, steps[step.Do])
			}
		}
		b := w.pool.Status().Backends[0]
		if w.active() != 0 || b.BytesToBack != 0 || attempts(r) != kept || !w.Deadline().IsZero() {
			t.Errorf("%s: active %d, backend %+v, attempts %s, deadline %v", when, w.active(), b, attempts(r), w.Deadline())
		}
	}
}

// Events in an order that no engine should produce change nothing: a lease that
// is held is not lost, and what is under way goes on.
func TestEventsOutOfOrder(t *testing.T) {
	w := newWorld(t, "A@a.test B", pool0)
	w.start()
	w.Resolved(w.now, []string{"10.1.0.1:80"}, nil)
	w.Dialed(w.now, nil)
	w.Moved(w.now, session.Client, 5)
	if v := w.Ended(w.now, session.Client, nil); v != session.None {
		t.Errorf("before Next: Ended answers %s", verbs[v])
	}
	if w.active() != 0 {
		t.Fatal("before Next: a lease is held")
	}
	lookup := w.Next(w.now)
	for _, step := range []session.Step{w.Next(w.now), w.Dialed(w.now, nil)} {
		if step != lookup {
			t.Errorf("during the look-up: got %+v, want %+v again", step, lookup)
		}
	}
	dial := w.Resolved(w.now, []string{"10.1.0.1:80"}, nil)
	for _, step := range []session.Step{w.Next(w.now), w.Resolved(w.now, nil, nil)} {
		if step != dial {
			t.Errorf("during the dial: got %+v, want %+v again", step, dial)
		}
	}
	w.Dialed(w.now, nil)
	for _, step := range []session.Step{w.Next(w.now), w.Resolved(w.now, nil, nil), w.Dialed(w.now, faults["refused"])} {
		if step.Do != session.Relay {
			t.Errorf("during the relay: got %+v", step)
		}
	}
	if w.active() != 1 {
		t.Errorf("%d leases are held", w.active())
	}
	w.play("c+-5 kill")
	if r := w.finish(); r.ToBackend != 0 || attempts(r) != "A:" {
		t.Errorf("to_backend %d, attempts %s", r.ToBackend, attempts(r))
	}
}

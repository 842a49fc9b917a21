package session_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/l4/session"
)

const lag = 250 * time.Millisecond

func limits(idle, half time.Duration) session.Settings {
	s := defaults()
	s.IdleTimeout, s.HalfCloseTimeout = idle, half
	return s
}

// timer lets time pass for a session as the laziest engine may: it looks at the
// deadline only after Ended, Asked and Expired (rearm). queues says how long the
// send queues are at a time. It stops at the first verb, or when until comes.
func (w *world) timer(until time.Time, queues func(time.Time) [2]int) session.Verb {
	w.t.Helper()
	for !w.armed.IsZero() && w.armed.Before(until) {
		if w.now.Before(w.armed) {
			w.now = w.armed
		}
		if v := w.Expired(w.now, queues(w.now)); v != session.None {
			return v
		}
		w.rearm()
		if !w.armed.IsZero() && !w.armed.After(w.now) {
			w.t.Fatalf("after Expired at %v the deadline is %v: the timer would spin", w.now.Sub(began), w.armed.Sub(began))
		}
	}
	w.now = until
	return session.None
}

func (w *world) rearm() { w.armed = w.Deadline() }

func empty(time.Time) [2]int { return [2]int{} }

func TestSilentSessionEndsOnTheDot(t *testing.T) {
	for _, c := range []struct {
		idle, half time.Duration
		script     string
		after      time.Duration // of the last event; 0 is never
		cause      session.Cause
	}{
		{8 * time.Second, 0, "", 8 * time.Second, session.Idle},
		{8 * time.Second, time.Minute, "c+1 b+2", 8 * time.Second, session.Idle},
		{8 * time.Second, 3 * time.Second, "", 8 * time.Second, session.Idle},
		{8 * time.Second, 3 * time.Second, "c+1 c.", 3 * time.Second, session.HalfCloseTimeout},
		{8 * time.Second, 3 * time.Second, "b.", 3 * time.Second, session.HalfCloseTimeout},
		{8 * time.Second, time.Minute, "b.", 8 * time.Second, session.Idle},
		{8 * time.Second, 8 * time.Second, "b.", 8 * time.Second, session.HalfCloseTimeout},
		{8 * time.Second, 0, "c.", 8 * time.Second, session.Idle},
		{0, 3 * time.Second, "c.", 3 * time.Second, session.HalfCloseTimeout},
		{0, 3 * time.Second, "b|", 3 * time.Second, session.HalfCloseTimeout},
		{0, 3 * time.Second, "c+1", 0, ""},
		{0, 0, "c+1 c.", 0, ""},
	} {
		t.Run(fmt.Sprint(c.idle, c.half, c.script), func(t *testing.T) {
			w := connected(t, limits(c.idle, c.half), lag)
			w.after(1300 * time.Millisecond)
			w.play(c.script)
			if c.script == "" {
				w.Moved(w.now, session.Client, 0)
			}
			last := w.now
			w.rearm()
			v := w.timer(w.now.Add(time.Hour), empty)
			if c.after == 0 {
				if v != session.None || !w.Deadline().IsZero() {
					t.Errorf("got %s, deadline %v; want neither", verbs[v], w.Deadline())
				}
				return
			}
			if v != session.Linger || w.now.Sub(last) != c.after+lag {
				t.Fatalf("got %s after %v, want linger after %v", verbs[v], w.now.Sub(last), c.after+lag)
			}
			if r := w.finish(); r.Cause != c.cause || r.Last != c.after+lag {
				t.Errorf("got %s, last %v; want %s", r.Cause, r.Last, c.cause)
			}
		})
	}
}

// An engine may be late, or early, or ask at the wrong time; it must never end
// a session before its time.
func TestNeverEndedEarly(t *testing.T) {
	w := connected(t, limits(8*time.Second, 0), lag)
	for range 400 {
		w.after(20 * time.Millisecond)
		if v := w.Expired(w.now, [2]int{}); v != session.None {
			t.Fatalf("got %s after %v", verbs[v], w.now.Sub(began))
		}
	}
	w.after(lag)
	if v := w.Expired(w.now, [2]int{}); v != session.Linger {
		t.Errorf("got %s after the limit, want linger", verbs[v])
	}
}

// A byte a second in one direction keeps a session alive.
func TestOneDirectionIsProgressEnough(t *testing.T) {
	for _, from := range []session.Side{session.Client, session.Backend} {
		w := connected(t, limits(2*time.Second, 0), lag)
		w.rearm()
		for range 20 {
			if v := w.timer(w.now.Add(time.Second), empty); v != session.None {
				t.Fatalf("got %s after %v", verbs[v], w.now.Sub(began))
			}
			w.Moved(w.now, from, 1)
		}
	}
}

// A reader that takes its time is not idle: its send queue shrinks.
func TestSlowReaderIsNotIdle(t *testing.T) {
	for _, script := range []string{"b+4000000", "b+4000000 b."} {
		w := connected(t, limits(8*time.Second, 8*time.Second), lag)
		w.play(script)
		w.rearm()
		begin := w.now
		shrinks := func(now time.Time) [2]int {
			return [2]int{3_900_000 - int(now.Sub(begin)/time.Millisecond), 0}
		}
		if v := w.timer(w.now.Add(time.Hour), shrinks); v != session.None {
			t.Errorf("%s: got %s after %v", script, verbs[v], w.now.Sub(began))
		}
	}
}

// A queue that shrinks in steps further apart than the looks still is progress
// each time, and the limit counts from the look that saw the last one.
func TestReaderThatStopsIsIdle(t *testing.T) {
	const limit = 8 * time.Second
	for _, steps := range []int{0, 1, 5} {
		w := connected(t, limits(limit, 0), lag)
		w.Moved(w.now, session.Backend, 1_000_000)
		w.rearm()
		begin := w.now
		stop := begin.Add(time.Duration(steps) * 3 * time.Second)
		queue := func(now time.Time) [2]int {
			return [2]int{900_000 - int(min(now.Sub(begin), stop.Sub(begin))/(3*time.Second)), 0}
		}
		v := w.timer(begin.Add(time.Hour), queue)
		if took := w.now.Sub(stop); v != session.Linger || took < limit || took > limit+limit/4+lag {
			t.Errorf("%d steps: got %s %v after the last, want linger between %v and %v", steps, verbs[v], took, limit, limit+limit/4+lag)
		}
	}
}

// The peer stalls at any moment of the timer's course, also of one that was set
// when there was nothing in the queues.
func TestStalledWriterEndsInTime(t *testing.T) {
	const limit = 8 * time.Second
	for at := time.Duration(0); at < 3*limit; at += 170 * time.Millisecond {
		w := connected(t, limits(limit, 0), lag)
		w.rearm()
		// Something small now and then, so that the session lives until the stall.
		for w.now.Before(began.Add(at)) {
			if v := w.timer(began.Add(min(at, w.now.Sub(began)+5*time.Second)), empty); v != session.None {
				t.Fatalf("stall at %v: got %s at %v", at, verbs[v], w.now.Sub(began))
			}
			w.Moved(w.now, session.Client, 1)
		}
		w.Moved(w.now, session.Client, 5000)
		v := w.timer(w.now.Add(time.Hour), func(time.Time) [2]int { return [2]int{0, 4711} })
		took := w.now.Sub(began.Add(at))
		if v != session.Linger || took < limit || took > limit+limit/4+lag {
			t.Fatalf("stall at %v: got %s after %v, want linger between %v and %v", at, verbs[v], took, limit, limit+limit/4+lag)
		}
	}
}

// A machine that was asleep finds the limit long over and data in the queue:
// whether that moves cannot be known yet.
func TestLateTimerDoesNotEndASlowReader(t *testing.T) {
	w := connected(t, limits(8*time.Second, 0), lag)
	w.Moved(w.now, session.Backend, 1_000_000)
	w.after(time.Hour)
	if v := w.Expired(w.now, [2]int{900_000, 0}); v != session.None {
		t.Errorf("got %s", verbs[v])
	}
	if got, want := w.Deadline().Sub(w.now), 2*time.Second; got != want {
		t.Errorf("the next look is in %v, want %v", got, want)
	}
}

func TestEndOfStreamIsProgress(t *testing.T) {
	w := connected(t, limits(8*time.Second, 8*time.Second), lag)
	w.play("7s c.")
	w.rearm()
	ended := w.now
	if v := w.timer(ended.Add(8*time.Second+lag), empty); v != session.None {
		t.Errorf("got %s %v after the end of a stream", verbs[v], w.now.Sub(ended))
	}
}

// While a backend is looked for the steps carry the deadlines.
func TestNoDeadlineBeforeTheRelay(t *testing.T) {
	w := newWorld(t, "A@a.test", pool0)
	w.set = limits(8*time.Second, time.Second)
	w.start()
	step := w.Next(w.now)
	for step.Do != session.Relay {
		if !w.Deadline().IsZero() {
			t.Errorf("%s: there is a deadline of its own: %v", steps[step.Do], w.Deadline())
		}
		if v := w.Expired(w.now.Add(time.Hour), [2]int{}); v != session.None {
			t.Errorf("%s: Expired answers %s", steps[step.Do], verbs[v])
		}
		if step.Deadline.IsZero() {
			t.Errorf("%s: the step has no deadline", steps[step.Do])
		}
		if step.Do == session.Lookup {
			step = w.Resolved(w.now, []string{"10.1.0.1:80"}, nil)
		} else {
			step = w.Dialed(w.now, nil)
		}
	}
	if w.Deadline().IsZero() {
		t.Error("relay: there is no deadline")
	}
	w.Asked(w.now, session.Killed)
	w.finish()
}

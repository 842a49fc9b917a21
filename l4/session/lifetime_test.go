package session_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

func aged(age time.Duration, jitter int) session.Settings {
	s := limits(0, 0)
	s.MaxAge, s.AgeJitter = age, jitter
	return s
}

// life returns how old the session of that number gets, which is busy all the time.
func life(t *testing.T, w *world, number uint64) time.Duration {
	t.Helper()
	w.Session = new(session.Session)
	w.Start(w.now, w.origin(), number, client)
	if step := w.connect(); step.Do != session.Relay {
		t.Fatalf("connect: got %+v, want relay", step)
	}
	start := w.now
	w.rearm()
	v := session.None
	for v == session.None && w.now.Sub(start) < 2*w.set.MaxAge {
		if again := w.Deadline(); !again.Equal(w.armed) {
			t.Fatalf("the deadline moved from %v to %v", w.armed, again)
		}
		w.Moved(w.now, session.Backend, 1)
		v = w.timer(w.now.Add(w.set.MaxAge/16), empty)
	}
	if v != session.Linger {
		t.Fatalf("session %d: got %s at the age of %v, want linger", number, verbs[v], w.now.Sub(start))
	}
	lived := w.now.Sub(start)
	if v := w.Expired(w.after(session.LingerTime), [2]int{}); v != session.Cut {
		t.Fatalf("session %d: after the linger: got %s, want cut", number, verbs[v])
	}
	if r := w.finish(); r.Cause != session.MaxAge || r.Code != "KD" {
		t.Fatalf("session %d: got %s %s, want max_age KD", number, r.Cause, r.Code)
	}
	return lived
}

// Each session lives as long as its number says: in the last part of the limit,
// evenly over it, and with the same number as long again.
func TestLivesAreSpreadOverTheJitter(t *testing.T) {
	for _, jitter := range []int{0, 1, 20, 100} {
		t.Run(fmt.Sprint(jitter), func(t *testing.T) {
			const n, most = 2000, time.Hour
			w := newWorld(t, "A", pool.Policy{})
			w.set = aged(most, jitter)
			spread := most * time.Duration(jitter) / 100
			var parts [10]int
			for i := range uint64(n) {
				got := life(t, w, 7+i)
				if got > most || got < most-spread || got != life(t, w, 7+i) {
					t.Fatalf("session %d lives for %v, want between %v and %v, each time", i, got, most-spread, most)
				}
				if spread > 0 {
					parts[min(9, int(10*(most-got)/spread))]++
				}
			}
			for _, got := range parts {
				// Five deviations of what a fair draw gives.
				if want, off := n/10., 5*math.Sqrt(n/10.*.9); spread > 0 && math.Abs(float64(got)-want) > off {
					t.Errorf("of %d sessions so many end in each tenth: %v, want %v give or take %.0f", n, parts, want, off)
				}
			}
		})
	}
}

// The limit is not of silence, and an idle one goes on beside it.
func TestAgeAndSilenceAreLimitsOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		idle, half, age time.Duration
		script          string
		after           time.Duration // of the start
		cause           session.Cause
	}{
		{0, 0, 10 * time.Second, "", 10 * time.Second, session.MaxAge},
		{8 * time.Second, 0, 10 * time.Second, "", 8*time.Second + lag, session.Idle},
		{8 * time.Second, 0, 10 * time.Second, "3s c+1", 10 * time.Second, session.MaxAge},
		{time.Minute, 3 * time.Second, 10 * time.Second, "5s c.", 8*time.Second + lag, session.HalfCloseTimeout},
		{0, 0, 10 * time.Second, "5s c.", 10 * time.Second, session.MaxAge},
		{0, time.Minute, 10 * time.Second, "b.", 10 * time.Second, session.MaxAge},
		{0, 0, 10 * time.Second, "b|", 10 * time.Second, session.MaxAge},
		{0, 0, math.MaxInt64, "", 0, ""},
	} {
		w := connected(t, limits(c.idle, c.half), lag)
		w.set.MaxAge = c.age
		w.play(c.script)
		w.rearm()
		v := w.timer(w.now.Add(time.Hour), empty)
		if c.after == 0 {
			if v != session.None {
				t.Errorf("%+v: got %s", c, verbs[v])
			}
			continue
		}
		if took := w.now.Sub(began); v != session.Linger || took != c.after {
			t.Errorf("%+v: got %s after %v", c, verbs[v], took)
		}
		if r := w.finish(); r.Cause != c.cause {
			t.Errorf("%+v: got %s", c, r.Cause)
		}
	}
}

// What an ending does to its time is not undone by the age.
func TestAgeDoesNotEndTwice(t *testing.T) {
	w := connected(t, aged(10*time.Second, 0), 0)
	w.after(10*time.Second - time.Millisecond)
	if v := w.Asked(w.now, session.Killed); v != session.Linger {
		t.Fatalf("killed: got %s", verbs[v])
	}
	if got, want := w.Deadline(), w.now.Add(session.LingerTime); !got.Equal(want) {
		t.Errorf("the linger ends at %v, want %v", got, want)
	}
	if v := w.Expired(w.after(time.Millisecond), [2]int{}); v != session.None {
		t.Errorf("old in its linger: got %s", verbs[v])
	}
	if r := w.finish(); r.Cause != session.Killed {
		t.Errorf("got %s", r.Cause)
	}
}

// Who waits for a backend is not ended for its age, and has all of its time once
// it has one.
func TestAgeCountsFromTheBackend(t *testing.T) {
	const age = 10 * time.Second
	w := newWorld(t, "A/1", pool.Policy{QueueMax: 1, QueueFor: time.Hour})
	w.set = aged(age, 0)
	var other pool.Lease
	if err := w.pool.Acquire(&other, pool.Query{}); err != nil {
		t.Fatal(err)
	}
	w.start()
	if step := w.connect(); step.Do != session.Wait {
		t.Fatalf("got %+v, want a place in the queue", step)
	}
	w.after(3 * age)
	if v := w.Expired(w.now, [2]int{}); v != session.None || !w.Deadline().IsZero() {
		t.Fatalf("in the queue: got %s, deadline %v", verbs[v], w.Deadline())
	}
	other.Release()
	if step := w.Woken(w.now); step.Do != session.Dial {
		t.Fatalf("woken: got %+v", step)
	}
	w.Dialed(w.now, nil)
	w.rearm()
	reached := w.now
	if v := w.timer(w.now.Add(time.Hour), empty); v != session.Linger || w.now.Sub(reached) != age {
		t.Errorf("got %s %v after its backend was reached, want linger after %v", verbs[v], w.now.Sub(reached), age)
	}
	if r := w.finish(); r.Cause != session.MaxAge || r.Queue != 3*age {
		t.Errorf("got %s, queued %v", r.Cause, r.Queue)
	}
}

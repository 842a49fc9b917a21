package session_test

import (
	"testing"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// waiting returns a world whose session waits for A, which another one holds.
func waiting(t *testing.T) (w *world, held *pool.Lease) {
	t.Helper()
	w = newWorld(t, "A/1", pool.Policy{QueueMax: 1, QueueFor: 3 * time.Second})
	held = new(pool.Lease)
	if err := w.pool.Acquire(held, pool.Query{}); err != nil {
		t.Fatal(err)
	}
	w.start()
	if step := w.connect(); step.Do != session.Wait || !step.Deadline.Equal(w.now.Add(3*time.Second)) {
		t.Fatalf("got %+v, want to wait", step)
	}
	return w, held
}

// The codes of those who leave or are late say where they were.
func TestEndsOfAWait(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(w *world)
		cause session.Cause
		code  string
	}{
		{"late", func(w *world) { w.Woken(w.after(3 * time.Second)) }, session.QueueTimeout, "sQ"},
		{"reset", func(w *world) { w.Gone(w.now) }, session.ClientLeft, "CQ"},
		{"left", func(w *world) { w.Left(w.now) }, session.ClientLeft, "CQ"},
		{"killed", func(w *world) { w.Asked(w.now, session.Killed) }, session.Killed, "KD"},
		{"given up", func(w *world) {}, session.LocalFault, "RC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, held := waiting(t)
			if step := w.Woken(w.after(time.Second)); step.Do != session.Wait {
				t.Fatalf("after a wake-up for nothing: %+v", step)
			}
			if row := w.Row(w.now); row.State != "queued" {
				t.Errorf("the listing says %s", row.State)
			}
			c.end(w)
			held.Release()
			r := w.finish()
			if r.Cause != c.cause || r.Code != c.code || r.Queue != w.now.Sub(began) || r.Dial != 0 {
				t.Errorf("got %s %s after %v, dialed %v; want %s %s", r.Cause, r.Code, r.Queue, r.Dial, c.cause, c.code)
			}
		})
	}
}

// Who waited while sessions were to end had none of that backend yet, and got it
// in the place of one of them.
func TestEvictionSparesWhoWaited(t *testing.T) {
	w, held := waiting(t)
	m := session.Match{On: held.Backend(), Before: w.after(time.Second)}
	held.Release()
	w.after(time.Millisecond)
	if step := w.Woken(w.now); step.Do != session.Dial {
		t.Fatalf("got %+v, want to dial", step)
	}
	for _, state := range []string{"dialing", "relaying"} {
		later := session.Match{On: m.On, Before: w.now}
		if w.Row(w.now).State != state || w.Matches(w.now, &m) || !w.Matches(w.now, &later) {
			t.Errorf("%s: the session is taken for one that had the backend before, or is none", w.Row(w.now).State)
		}
		w.Dialed(w.now, nil)
	}
	w.finish()
}

// The wait is none of the dials' time, and what comes after it is as ever.
func TestServedAfterAWait(t *testing.T) {
	w, held := waiting(t)
	w.after(2 * time.Second)
	held.Release()
	if w.woken != 1 {
		t.Errorf("woken %d times, want once", w.woken)
	}
	step := w.Woken(w.now)
	if step.Do != session.Dial || !step.Deadline.Equal(w.now.Add(2*time.Second)) {
		t.Fatalf("got %+v, want a dial of 2s", step)
	}
	if w.Left(w.now) {
		t.Error("a half-close while dialing ended the session")
	}
	w.after(300 * time.Millisecond)
	w.Gone(w.now)
	if r := w.finish(); r.Cause != session.ClientLeft || r.Code != "CC" || r.Queue != 2*time.Second || r.Dial != 300*time.Millisecond {
		t.Errorf("got %s %s, waited %v, dialed %v", r.Cause, r.Code, r.Queue, r.Dial)
	}
}

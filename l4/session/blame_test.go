package session_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// What a backend ends first counts against it: soon after the connect if it is a
// reset, and whenever nothing was sent. What a client ends first never does.
func TestBlame(t *testing.T) {
	for _, c := range []struct {
		script string
		want   string // early resets, and empty sessions
	}{
		// The backend, at once.
		{"b!", "1 0"},
		{"b+10 b!", "1 0"},
		{"c+10 b!", "1 0"},
		{"b. c.", "0 1"},
		{"c+10 b. c.", "0 1"},
		{"b. c!", "0 1"},
		{"b. b!", "0 1"},
		{"b. kill", "0 1"},
		{"b| b.", "0 1"},
		{"b| b!", "1 0"},
		// With something sent, an end is an end.
		{"b+10 b. c.", "0 0"},
		{"c+10 b+1 b. c.", "0 0"},
		// Later.
		{"1s b!", "1 0"},
		{"1001ms b!", "0 1"},
		{"1001ms b+10 b!", "0 0"},
		{"1h b. c.", "0 1"},
		// The client first: somebody who looks whether the port is open.
		{"c. b.", "0 0"},
		{"c. b!", "0 0"},
		{"c+10 c. b!", "0 0"},
		{"c! b!", "0 0"},
		{"c| b.", "0 0"},
		{"c| b!", "0 0"},
		{"b| c. b!", "0 0"},
		{"kill b!", "0 0"},
		{"c? b!", "0 0"},
		// A failure of ours.
		{"b?", "0 0"},
		// Once is enough.
		{"b! b!", "1 0"},
		{"b. b. b!", "0 1"},
	} {
		w := connected(t, defaults(), 0)
		w.pool.CountEarly(time.Second)
		w.play(c.script)
		if got := w.blamed("A"); got != c.want {
			t.Errorf("%s: got %s, want %s", c.script, got, c.want)
		}
		w.finish()
		if got := w.blamed("A"); got != c.want {
			t.Errorf("%s, closed: got %s, want %s", c.script, got, c.want)
		}
	}
}

// blamed returns the early resets and the empty sessions of a backend.
func (w *world) blamed(id string) string {
	b, _ := w.pool.Backend(id)
	return fmt.Sprint(b.EarlyResets, " ", b.Empty)
}

// Soon is counted from the connect, however long that took.
func TestBlameCountsFromTheConnect(t *testing.T) {
	for what, c := range map[string]struct{ backends, network string }{
		"a slow dial":              {"A", "10.0.0.1=ok 1900ms"},
		"a dial that failed":       {"B A", "10.0.0.1=refused 1500ms"},
		"a dial that took time":    {"B A", "10.0.0.1=refused 100ms; 10.0.0.2=ok 1900ms"},
		"a name that took time":    {"A@a.test", ""},
		"a queue, and a slow dial": {"A/1", "10.0.0.1=ok 1500ms"},
	} {
		for after, want := range map[time.Duration]string{time.Second: "1 0", time.Second + 1: "0 1"} {
			w := newWorld(t, c.backends, pool.Policy{QueueMax: 1, QueueFor: time.Hour})
			w.pool.CountEarly(time.Second)
			fill(w.network, c.network)
			fill(w.names, "a.test=10.1.0.1 1500ms")
			var held pool.Lease
			if c.backends == "A/1" {
				if err := w.pool.Acquire(&held, pool.Query{}); err != nil {
					t.Fatal(err)
				}
			}
			w.start()
			step := w.connect()
			if step.Do == session.Wait {
				w.after(time.Minute)
				held.Release()
				step = w.Woken(w.now)
				if step.Do == session.Dial {
					step = w.Dialed(w.now, w.dial(step))
				}
			}
			if step.Do != session.Relay {
				t.Fatalf("%s: got %+v, want relay", what, step)
			}
			w.after(after)
			w.play("b!")
			if got := w.blamed("A"); got != want {
				t.Errorf("%s, reset after %v: got %s, want %s", what, after, got, want)
			}
			w.finish()
		}
	}
}

package session_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/l4/session"
)

// play tells a relaying session a script and returns its answers. A word is who
// (c or b for a socket, or an order) and what: "c." its stream ended, "c!" it
// was reset, "c|" writing to it gave EPIPE, "c?" memory ran out, "c+7" seven of
// its bytes were delivered, "kill" an order, "5s" time that passes, "look" the timer.
func (w *world) play(script string) (answers string) {
	w.t.Helper()
	var got []string
	for _, word := range strings.Fields(script) {
		if v, ok := w.one(word); ok {
			got = append(got, verbs[v])
		}
	}
	return strings.Join(got, " ")
}

func (w *world) one(word string) (v session.Verb, answered bool) {
	if d, err := time.ParseDuration(word); err == nil {
		w.after(d)
		return 0, false
	}
	switch word {
	case "kill":
		return w.Asked(w.now, session.Killed), true
	case "shut":
		return w.Asked(w.now, session.Shutdown), true
	case "gone":
		w.Gone(w.now)
		return 0, false
	case "look":
		return w.Expired(w.now, [2]int{}), true
	}
	side := session.Client
	if word[0] == 'b' {
		side = session.Backend
	}
	switch word[1] {
	case '.':
		return w.Ended(w.now, side, nil), true
	case '!':
		return w.Ended(w.now, side, syscall.ECONNRESET), true
	case '?':
		return w.Ended(w.now, side, os.NewSyscallError("write", syscall.ENOBUFS)), true
	case '|':
		return w.Ended(w.now, side, os.NewSyscallError("write", syscall.EPIPE)), true
	}
	n, err := strconv.ParseInt(word[2:], 10, 64)
	if err != nil {
		w.t.Fatalf("no such event: %q", word)
	}
	w.Moved(w.now, side, n)
	return 0, false
}

func TestEndings(t *testing.T) {
	for _, c := range []struct {
		script, answers string
		cause           session.Cause
		code            string
	}{
		// The table of Ended.
		{"c. b.", "half-close finish", session.ClientClosed, "--"},
		{"b. c.", "half-close finish", session.BackendClosed, "--"},
		{"c!", "abort", session.ClientReset, "CD"},
		{"b!", "abort", session.BackendReset, "SD"},
		{"c. b!", "half-close abort", session.BackendReset, "SD"},
		{"b. c!", "half-close abort", session.ClientReset, "CD"},
		{"c. c!", "half-close abort", session.ClientClosed, "--"},
		{"b. b!", "half-close linger", session.BackendClosed, "--"},
		{"c| c.", "- abort", session.ClientClosed, "--"},
		{"b| b.", "- linger", session.BackendClosed, "--"},
		{"c. c|", "half-close abort", session.ClientClosed, "--"},
		{"b. b|", "half-close linger", session.BackendClosed, "--"},
		{"c| c!", "- abort", session.ClientReset, "CD"},
		{"b| b!", "- abort", session.BackendReset, "SD"},
		{"b| c. b.", "- half-close linger", session.BackendClosed, "--"},
		{"c| b. c.", "- half-close abort", session.ClientClosed, "--"},
		{"b| b+900 b| c!", "- - abort", session.ClientReset, "CD"},
		{"b| kill b.", "- linger -", session.Killed, "KD"},
		// A failure of ours is nobody's reset, and no close of who ended before.
		{"c?", "abort", session.LocalFault, "RC"},
		{"b?", "abort", session.LocalFault, "RC"},
		{"c. c?", "half-close abort", session.LocalFault, "RC"},
		{"b. b?", "half-close abort", session.LocalFault, "RC"},
		{"b| b?", "- abort", session.LocalFault, "RC"},
		{"kill c?", "linger -", session.Killed, "KD"},
		// What comes after an ending means nothing.
		{"c! c.", "abort -", session.ClientReset, "CD"},
		{"b! c. c!", "abort - -", session.BackendReset, "SD"},
		{"c! b!", "abort -", session.ClientReset, "CD"},
		{"c. b. c! b!", "half-close finish - -", session.ClientClosed, "--"},
		{"c. b. kill", "half-close finish -", session.ClientClosed, "--"},
		{"c! kill", "abort -", session.ClientReset, "CD"},
		// An order ends a session politely, once, whatever comes then.
		{"kill", "linger", session.Killed, "KD"},
		{"kill shut", "linger -", session.Killed, "KD"},
		{"c. shut b.", "half-close linger -", session.Shutdown, "KD"},
		{"kill c. b!", "linger - -", session.Killed, "KD"},
		// Bytes do not change who ended what.
		{"c+10 c. b+20 b.", "half-close finish", session.ClientClosed, "--"},
		{"c+10 b. c+20 c.", "half-close finish", session.BackendClosed, "--"},
		// The client's reset while a backend is looked for is over by now.
		{"gone c. b.", "half-close finish", session.ClientClosed, "--"},
		// The same end twice is one end.
		{"c. c. b.", "half-close - finish", session.ClientClosed, "--"},
		{"b. b. b. c.", "half-close - - finish", session.BackendClosed, "--"},
	} {
		w := connected(t, defaults(), 0)
		if got := w.play(c.script); got != c.answers {
			t.Errorf("%s: got %s, want %s", c.script, got, c.answers)
		}
		if r := w.finish(); r.Cause != c.cause || r.Code != c.code {
			t.Errorf("%s: got %s %s, want %s %s", c.script, r.Cause, r.Code, c.cause, c.code)
		}
	}
}

// Linger and Abort may take a second; a session that both sides ended has no
// deadline left, and nothing may cut what it still delivers.
func TestEndingsAreBounded(t *testing.T) {
	for _, c := range []struct {
		script string
		lasts  time.Duration // until the cut; 0 is for ever
	}{
		{"kill", session.LingerTime},
		{"c!", session.LingerTime},
		{"c. b!", session.LingerTime},
		{"c. b.", 0},
	} {
		w := connected(t, defaults(), 100*time.Millisecond)
		w.after(time.Hour)
		w.play(c.script)
		want := time.Time{}
		if c.lasts > 0 {
			want = w.now.Add(c.lasts)
		}
		if got := w.Deadline(); got != want {
			t.Errorf("%s: the deadline is %v, want %v", c.script, got, want)
		}
		if got := w.play("999ms look kill c. b! look"); got != "- - - - -" {
			t.Errorf("%s: before a second has passed: got %s", c.script, got)
		}
		after := "cut - - - -"
		if c.lasts == 0 {
			after = "- - - - -"
		}
		if got := w.play("1ms look look kill c! 1h look"); got != after {
			t.Errorf("%s: after a second: got %s, want %s", c.script, got, after)
		}
		if got := w.Deadline(); !got.IsZero() {
			t.Errorf("%s: there is a deadline after the end: %v", c.script, got)
		}
		w.finish()
	}
}

func TestHalfClosed(t *testing.T) {
	w := connected(t, defaults(), 0)
	for _, c := range []struct {
		event string
		want  bool
	}{{"c+1", false}, {"b.", true}, {"b.", true}, {"c+1", true}, {"c.", false}} {
		w.play(c.event)
		if got := w.HalfClosed(); got != c.want {
			t.Errorf("after %s: got %v, want %v", c.event, got, c.want)
		}
	}
}

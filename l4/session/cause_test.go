package session_test

import (
	"testing"
	"time"

	"sluice/l4/session"
)

// The code of an idle session says whose turn it was to read: the side that got
// the last byte.
func TestCodeOfAnIdleSession(t *testing.T) {
	for _, c := range []struct{ script, code string }{
		{"", "cD"}, // no last byte at all
		{"c+1", "sD"},
		{"b+1", "cD"},
		{"b+1 c+1", "sD"},
		{"c+1 b+1", "cD"},
		{"c+1 b+0", "sD"},
	} {
		for _, half := range []bool{false, true} {
			w := connected(t, limits(8*time.Second, 8*time.Second), 0)
			w.play(c.script)
			want := session.Idle
			if half {
				w.play("c.")
				want = session.HalfCloseTimeout
			}
			w.play("8s look 8s look")
			if r := w.finish(); r.Cause != want || r.Code != c.code {
				t.Errorf("%q, half-closed %v: got %s %s, want %s %s", c.script, half, r.Cause, r.Code, want, c.code)
			}
		}
	}
}

// Causes that orders bring are KD, but for a backend that went down.
func TestCodeOfAnOrder(t *testing.T) {
	for cause, want := range map[session.Cause]string{
		session.Killed: "KD", session.Shutdown: "KD", session.Removed: "KD", session.Drained: "KD", session.Rebalanced: "KD", session.OnDown: "DD",
	} {
		w := connected(t, defaults(), 0)
		w.Asked(w.now, cause)
		if r := w.finish(); r.Cause != cause || r.Code != want {
			t.Errorf("got %s %s, want %s %s", r.Cause, r.Code, cause, want)
		}
	}
}

func TestNamesOfCauses(t *testing.T) {
	for _, c := range []struct {
		cause   session.Cause
		word    string
		refused bool
		normal  bool
	}{
		{session.ClientClosed, "client_closed", false, true},
		{session.BackendClosed, "backend_closed", false, true},
		{session.ClientReset, "client_reset", false, false},
		{session.BackendReset, "backend_reset", false, false},
		{session.Idle, "idle", false, false},
		{session.HalfCloseTimeout, "half_close_timeout", false, false},
		{session.ConnectFailed, "connect_failed", true, false},
		{session.ClientLeft, "client_left", true, false},
		{session.NoBackend, "no_backend", true, false},
		{session.BackendLimit, "backend_limit", true, false},
		{session.QueueTimeout, "queue_timeout", true, false},
		{session.LocalFault, "local_fault", true, false},
		{session.Killed, "killed", false, false},
		{session.Shutdown, "shutdown", false, false},
		{session.OnDown, "on_down", false, false},
		{session.Removed, "removed", false, false},
		{session.Drained, "drained", false, false},
		{session.MaxAge, "max_age", false, false},
		{session.Rebalanced, "rebalanced", false, false},
	} {
		if string(c.cause) != c.word || c.cause.Refused() != c.refused || c.cause.Normal() != c.normal {
			t.Errorf("%s: refused %v, normal %v; want %s, %v, %v", c.cause, c.cause.Refused(), c.cause.Normal(), c.word, c.refused, c.normal)
		}
	}
}

package session_test

import (
	"net/netip"
	"testing"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// Each part of a match decides alone.
func TestMatches(t *testing.T) {
	w := newWorld(t, "A B", pool0)
	w.start()
	w.Next(w.now)
	w.Dialed(w.now, faults["refused"])
	w.Dialed(w.now, nil)
	w.play("1s c+70 3s")
	b := w.backend("B")
	for _, c := range []struct {
		name  string
		match session.Match
		want  bool
	}{
		{"everything", session.Match{}, true},
		{"its key", session.Match{Key: session.Key{Process: "cafe", Number: 1234}}, true},
		{"its process", session.Match{Key: session.Key{Process: "cafe"}}, true},
		{"another number", session.Match{Key: session.Key{Process: "cafe", Number: 123}}, false},
		{"one of some keys", session.Match{Among: &session.Keys{{Process: "cafe", Number: 1}: {}, {Process: "cafe", Number: 1234}: {}}}, true},
		{"none of some keys", session.Match{Among: &session.Keys{{Process: "cafe", Number: 1}: {}}}, false},
		{"none of no keys", session.Match{Among: new(session.Keys)}, false},
		{"another process", session.Match{Key: session.Key{Process: "caff", Number: 1234}}, false},
		{"its names", session.Match{Frontend: "f", Pool: "p", Backend: "B", State: "relaying"}, true},
		{"another frontend", session.Match{Frontend: "g"}, false},
		{"another pool", session.Match{Pool: "q"}, false},
		{"a backend that it tried before", session.Match{Backend: "A"}, false},
		{"another state", session.Match{State: "dialing"}, false},
		{"its backend", session.Match{On: b}, true},
		{"another backend", session.Match{On: w.backend("A")}, false},
		{"its client", session.Match{Client: netip.PrefixFrom(client.Addr(), client.Addr().BitLen())}, true},
		{"another client", session.Match{Client: netip.MustParsePrefix("203.0.113.0/24")}, false},
		{"started by now", session.Match{Before: w.now}, true},
		{"started by its start", session.Match{Before: began}, true},
		{"started before", session.Match{Before: began.Add(-1)}, false},
		{"its age", session.Match{MinAge: 4 * time.Second}, true},
		{"older", session.Match{MinAge: 4*time.Second + 1}, false},
		{"its silence", session.Match{MinIdle: 3 * time.Second}, true},
		{"longer", session.Match{MinIdle: 3*time.Second + 1}, false},
		{"one part of two", session.Match{Frontend: "f", MinIdle: time.Hour}, false},
	} {
		if got := w.Matches(w.now, &c.match); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

// backend returns the backend of that id.
func (w *world) backend(id string) *pool.Backend {
	w.t.Helper()
	for range len(w.pool.Status().Backends) {
		var l pool.Lease
		if err := w.pool.Acquire(&l, pool.Query{}); err != nil {
			w.t.Fatal(err)
		}
		defer l.Release()
		if b := l.Backend(); b.ID() == id {
			return b
		}
	}
	w.t.Fatalf("no backend %q", id)
	return nil
}

func TestParseKey(t *testing.T) {
	for id, want := range map[string]session.Key{
		"cafe-1234": {Process: "cafe", Number: 1234}, "cafe-18446744073709551615": {Process: "cafe", Number: 1<<64 - 1},
		"": {}, "-": {}, "cafe": {}, "cafe-": {}, "-1": {}, "cafe-0": {}, "cafe-01": {}, "cafe-+1": {}, "cafe--1": {}, "cafe-1-2": {}, "cafe-18446744073709551616": {},
	} {
		k, ok := session.ParseKey(id)
		if ok != (want.Number > 0) || ok && (k != want || k.String() != id) {
			t.Errorf("%q: got %+v, %v", id, k, ok)
		}
	}
}

// A session that dials a backend which is to be left goes on with another; the
// order's cause is the session's if there is none.
func TestDivertedWhileDialing(t *testing.T) {
	for _, c := range []struct{ backends, when, attempts, end string }{
		{"A@a.test B", "lookup", "A:canceled B:", "relay"},
		{"A@a.test B", "dial", "A:canceled B:", "relay"},
		{"A B", "second", "A:refused B:canceled", "end"},
		{"A@a.test", "dial", "A:canceled", "end"},
	} {
		for _, cause := range []session.Cause{session.OnDown, session.Removed, session.Drained} {
			w := newWorld(t, c.backends, pool0)
			w.start()
			w.until(c.when)
			if v := w.Asked(w.now, cause); v != session.Redial {
				t.Fatalf("%s, %s: got %s", c.backends, c.when, verbs[v])
			}
			step := w.Diverted(w.now, cause)
			if step.Do == session.Dial {
				step = w.Dialed(w.now, nil)
			}
			r := w.finish()
			if steps[step.Do] != c.end || attempts(r) != c.attempts || c.end == "end" && r.Cause != cause {
				t.Errorf("%s, %s: got %s, attempts %q, cause %s", c.backends, c.when, steps[step.Do], attempts(r), r.Cause)
			}
			if f := w.failures(); cause == session.Removed && c.when != "second" && f != newWorld(t, c.backends, pool0).failures() {
				t.Errorf("%s, %s: it counted against a backend: %s", c.backends, c.when, f)
			}
		}
	}
}

// Without a backend every order just ends the search.
func TestAskedBeforeTheFirstBackend(t *testing.T) {
	w := newWorld(t, "A", pool0)
	w.start()
	if v := w.Asked(w.now, session.Drained); v != session.Cut {
		t.Errorf("got %s", verbs[v])
	}
}

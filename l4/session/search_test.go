package session_test

import (
	"strings"
	"testing"

	"sluice/l4/session"
	"sluice/pool"
)

func TestSearchAmongNames(t *testing.T) {
	for _, s := range []search{{
		name: "one address", backends: "A@a.test", names: "a.test=10.1.0.1",
		trace: "a.test 2s, 10.1.0.1 2s", attempts: "A:", failures: "A0",
	}, {
		name: "each address gets its share", backends: "A@a.test", names: "a.test=10.1.0.1 10.1.0.2",
		network: "10.1.0.1=hang",
		trace:   "a.test 2s, 10.1.0.1 1s, 10.1.0.2 1s", attempts: "A:", failures: "A0",
	}, {
		name: "what one leaves goes to the others", backends: "A@a.test", names: "a.test=10.1.0.1 10.1.0.2 10.1.0.3",
		network: "10.1.0.1=refused; 10.1.0.2=hang",
		trace:   "a.test 2s, 10.1.0.1 670ms, 10.1.0.2 1s, 10.1.0.3 1s", attempts: "A:", failures: "A0",
	}, {
		name: "addresses that all fail are one failure of the backend", backends: "A@a.test B",
		names: "a.test=10.1.0.1 10.1.0.2", network: "10.1.0.1=hang; 10.1.0.2=hang",
		trace: "a.test 2s, 10.1.0.1 1s, 10.1.0.2 1s, 10.0.0.2 2s", attempts: "A:timeout B:", failures: "A1 B0",
	}, {
		name: "an address without a route does not hide what the other says", backends: "A@a.test",
		names: "a.test=2001:db8::1 10.1.0.2", network: "2001:db8::1=nonet; 10.1.0.2=refused",
		trace: "a.test 2s, 2001:db8::1 1s, 10.1.0.2 2s", attempts: "A:refused", failures: "A1",
		cause: session.ConnectFailed, code: "SC",
	}, {
		name: "a fault of ours ends the walk", backends: "A@a.test B",
		names: "a.test=10.1.0.1 10.1.0.2 10.1.0.3", network: "10.1.0.1=refused; 10.1.0.2=nofiles",
		trace: "a.test 2s, 10.1.0.1 670ms, 10.1.0.2 1s", attempts: "A:local", failures: "A0 B0",
		cause: session.LocalFault, code: "RC",
	}, {
		name: "a name without an answer goes elsewhere and does not count", backends: "A@a.test B", names: "a.test=error",
		trace: "a.test 2s, 10.0.0.2 2s", attempts: "A:resolve B:", failures: "A0 B0",
	}, {
		name: "the only backend has a name without an answer", backends: "A@a.test", names: "a.test=error 30ms",
		trace: "a.test 2s", attempts: "A:resolve", failures: "A0",
		cause: session.ConnectFailed, code: "SC",
	}, {
		name: "a resolver that hangs takes one share", backends: "A@a.test B", names: "a.test=hang",
		trace: "a.test 2s, 10.0.0.2 2s", attempts: "A:resolve B:", failures: "A0 B0",
	}, {
		name: "any error of the resolver is the resolver's", backends: "A@a.test B", names: "a.test=odd",
		trace: "a.test 2s, 10.0.0.2 2s", attempts: "A:resolve B:", failures: "A0 B0",
	}, {
		name: "a name without addresses is no connection", backends: "A@a.test B", names: "a.test=",
		trace: "a.test 2s, 10.0.0.2 2s", attempts: "A:resolve B:", failures: "A0 B0",
	}, {
		name: "the time that a look-up took is not held against the backend", backends: "A@a.test B",
		names: "a.test=10.1.0.1 1500ms", network: "10.1.0.1=hang",
		trace: "a.test 2s, 10.1.0.1 500ms, 10.0.0.2 2s", attempts: "A:timeout B:", failures: "A0 B0",
	}} {
		t.Run(s.name, s.run)
	}
}

// A backend that is full is not the same as no backend, and one that was dialed
// before is worth more than either.
func TestWhyThereIsNoBackend(t *testing.T) {
	for _, c := range []struct {
		name, backends, network string
		down                    string // ids that are drained
		full                    string // ids that another session occupies
		want                    session.Cause
		code                    string
	}{
		{name: "all drained", backends: "A B", down: "AB", want: session.NoBackend, code: "SC"},
		{name: "all full", backends: "A/1 B/1", full: "AB", want: session.BackendLimit, code: "SQ"},
		{name: "one full, one drained", backends: "A/1 B", full: "A", down: "B", want: session.BackendLimit, code: "SQ"},
		{name: "one refuses, one full", backends: "A B/1", full: "B", network: "10.0.0.1=refused", want: session.ConnectFailed, code: "SC"},
		{name: "one hangs, one full", backends: "A B/1", full: "B", network: "10.0.0.1=hang", want: session.ConnectFailed, code: "sC"},
		{name: "one refuses, one drained", backends: "A B", down: "B", network: "10.0.0.1=refused", want: session.ConnectFailed, code: "SC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.backends, pool.Policy{})
			fill(w.network, c.network)
			occupy(t, w.pool, c.full)
			for _, id := range c.down {
				if err := w.pool.Patch(string(id), pool.Patch{Admin: &drain}); err != nil {
					t.Fatal(err)
				}
			}
			before := w.active()
			w.start()
			if step := w.connect(); step.Do != session.End {
				t.Fatalf("got %+v, want the end", step)
			}
			r := w.Close(w.now, source, 1)
			if r.Cause != c.want || r.Code != c.code {
				t.Errorf("got %s %s, want %s %s", r.Cause, r.Code, c.want, c.code)
			}
			if n := w.active(); n != before {
				t.Errorf("%d sessions are counted, want the %d from before", n, before)
			}
		})
	}
}

// occupy holds a lease of each of the backends until the test ends.
func occupy(t *testing.T, p *pool.Pool, ids string) {
	for range 64 {
		l := new(pool.Lease)
		if ids == "" || p.Acquire(l, pool.Query{}) != nil {
			return
		}
		if !strings.Contains(ids, l.Backend().ID()) {
			l.Release()
			continue
		}
		t.Cleanup(l.Release)
	}
}

var drain = pool.Drain

// The memory of a search is used again, with nothing of the session before, and
// the record before it stays what it is.
func TestSearchesShareNothing(t *testing.T) {
	w := newWorld(t, "A B@b.test", pool0)
	fill(w.network, "10.0.0.1=refused")
	fill(w.names, "b.test=10.1.0.2")
	o := w.origin()
	var before session.Record
	said := ""
	for i := range 50 {
		w.Session = new(session.Session)
		w.Start(w.now, o, 1234, client)
		if step := w.Next(w.now); step.Do == session.Dial && i%4 == 3 {
			w.Gone(w.now) // the dial is left as it is
		}
		w.connect()
		r := w.finish()
		want := "A:refused B:"
		switch {
		case r.Cause == session.ClientLeft:
			want = "A:canceled"
		case len(r.Attempts) == 1:
			want = "B:"
		}
		if got := attempts(r); got != want {
			t.Fatalf("session %d: got attempts %q, want %q", i, got, want)
		}
		if attempts(before) != said {
			t.Fatalf("session %d: the record before says %q now, and said %q", i, attempts(before), said)
		}
		before, said = r, want
	}
}

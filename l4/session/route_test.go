package session_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// search is one row: backends, what the network does, and what comes of it.
type search struct {
	name     string
	backends string
	network  string // "10.0.0.1=hang 10.0.0.2=refused 300ms": see world
	names    string // the same for the resolver
	set      func(*session.Settings)
	policy   pool.Policy

	trace    string // dials and look-ups, with the time each was given
	attempts string // all, in order
	failures string // counted against each backend
	cause    session.Cause
	code     string
}

func (s search) run(t *testing.T) {
	w := newWorld(t, s.backends, s.policy)
	if s.set != nil {
		s.set(&w.set)
	}
	fill(w.network, s.network)
	fill(w.names, s.names)
	w.start()
	step := w.connect()
	reached := step.Do == session.Relay
	if reached {
		if n := w.active(); n != 1 {
			t.Errorf("while relaying: %d sessions are counted, want 1", n)
		}
		w.Asked(w.now, session.Killed)
	}
	r := w.finish()
	if s.cause == "" {
		s.cause, s.code = session.Killed, "KD"
	}
	for _, c := range []struct{ what, got, want string }{
		{"trace", w.trace(), s.trace},
		{"attempts", attempts(r), s.attempts},
		{"failures", w.failures(), s.failures},
		{"cause", string(r.Cause), string(s.cause)},
		{"code", r.Code, s.code},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
		}
	}
}

// fill reads "key=value; key=value".
func fill(m map[string]string, text string) {
	for _, entry := range strings.Split(text, ";") {
		k, v, _ := strings.Cut(strings.TrimSpace(entry), "=")
		m[k] = v
	}
}

// tight has a budget that is shorter than one dial may take.
func tight(s *session.Settings) { s.ConnectTimeout, s.DialBudget = 10*time.Second, 3*time.Second }

func TestSearchForABackend(t *testing.T) {
	twoFailuresDown := pool.Policy{MaxFailures: 1}
	for _, s := range []search{{
		name: "the first is reached", backends: "A B",
		trace: "10.0.0.1 2s", attempts: "A:", failures: "A0 B0",
	}, {
		name: "refused goes elsewhere", backends: "A B C",
		network: "10.0.0.1=refused; 10.0.0.2=reset",
		trace:   "10.0.0.1 2s, 10.0.0.2 2s, 10.0.0.3 2s", attempts: "A:refused B:reset C:", failures: "A1 B1 C0",
	}, {
		name: "never more than attempts", backends: "A B C D",
		network: "10.0.0.1=refused; 10.0.0.2=refused; 10.0.0.3=refused",
		trace:   "10.0.0.1 2s, 10.0.0.2 2s, 10.0.0.3 2s", attempts: "A:refused B:refused C:refused", failures: "A1 B1 C1 D0",
		cause: session.ConnectFailed, code: "SC",
	}, {
		name: "one attempt", backends: "A B", set: func(s *session.Settings) { s.Attempts = 1 },
		network: "10.0.0.1=refused",
		trace:   "10.0.0.1 2s", attempts: "A:refused", failures: "A1 B0",
		cause: session.ConnectFailed, code: "SC",
	}, {
		name: "never the same twice, never more than there are", backends: "A B",
		set:     func(s *session.Settings) { s.Attempts = 9; s.DialBudget = time.Minute },
		network: "10.0.0.1=refused; 10.0.0.2=refused",
		trace:   "10.0.0.1 2s, 10.0.0.2 2s", attempts: "A:refused B:refused", failures: "A1 B1",
		cause: session.ConnectFailed, code: "SC",
	}, {
		name: "with the defaults each hanging backend counts", backends: "A B C",
		network: "10.0.0.1=hang; 10.0.0.2=hang; 10.0.0.3=hang",
		trace:   "10.0.0.1 2s, 10.0.0.2 2s, 10.0.0.3 2s", attempts: "A:timeout B:timeout C:timeout", failures: "A1 B1 C1",
		cause: session.ConnectFailed, code: "sC",
	}, {
		name: "a lone hanging backend counts", backends: "A", network: "10.0.0.1=hang",
		trace: "10.0.0.1 2s", attempts: "A:timeout", failures: "A1",
		cause: session.ConnectFailed, code: "sC",
	}, {
		name: "the code is that of the last dial", backends: "A B",
		network: "10.0.0.1=hang; 10.0.0.2=refused",
		trace:   "10.0.0.1 2s, 10.0.0.2 2s", attempts: "A:timeout B:refused", failures: "A1 B1",
		cause: session.ConnectFailed, code: "SC",
	}, {
		name: "a dial that the budget cut counts against nobody", backends: "A B", set: tight,
		network: "10.0.0.1=hang",
		trace:   "10.0.0.1 1.5s, 10.0.0.2 1.5s", attempts: "A:timeout B:", failures: "A0 B0",
	}, {
		name: "what an early failure leaves of the budget goes to the others", backends: "A B C", set: tight,
		network: "10.0.0.1=refused; 10.0.0.2=hang",
		trace:   "10.0.0.1 1s, 10.0.0.2 1.5s, 10.0.0.3 1.5s", attempts: "A:refused B:timeout C:", failures: "A1 B0 C0",
	}, {
		name: "a backend that its failure took out leaves its share to the others", backends: "A B C", set: tight,
		policy:  twoFailuresDown,
		network: "10.0.0.1=refused; 10.0.0.2=hang",
		trace:   "10.0.0.1 1s, 10.0.0.2 1.5s, 10.0.0.3 1.5s", attempts: "A:refused B:timeout C:", failures: "A1 B0 C0",
	}, {
		name: "refusal counts also in a dial that was cut", backends: "A B", set: tight,
		network: "10.0.0.1=refused 700ms",
		trace:   "10.0.0.1 1.5s, 10.0.0.2 2.3s", attempts: "A:refused B:", failures: "A1 B0",
	}, {
		name: "a fault of nobody goes on and does not count", backends: "A B C",
		network: "10.0.0.1=noport; 10.0.0.2=nonet",
		trace:   "10.0.0.1 2s, 10.0.0.2 2s, 10.0.0.3 2s", attempts: "A:local B:unreachable C:", failures: "A0 B0 C0",
	}, {
		name: "a fault of ours ends it", backends: "A B", network: "10.0.0.1=nofiles",
		trace: "10.0.0.1 2s", attempts: "A:local", failures: "A0 B0",
		cause: session.LocalFault, code: "RC",
	}, {
		name: "a fault of ours ends it later as well", backends: "A B C", network: "10.0.0.1=hang; 10.0.0.2=nofiles",
		trace: "10.0.0.1 2s, 10.0.0.2 2s", attempts: "A:timeout B:local", failures: "A1 B0 C0",
		cause: session.LocalFault, code: "RC",
	}, {
		name: "a dial that somebody canceled counts against nobody", backends: "A B", network: "10.0.0.1=canceled",
		trace: "10.0.0.1 2s, 10.0.0.2 2s", attempts: "A:canceled B:", failures: "A0 B0",
	}, {
		name: "no backends", backends: "",
		cause: session.NoBackend, code: "SC",
	}, {
		name: "a full backend is passed over", backends: "A B/1", network: "10.0.0.1=refused",
		trace: "10.0.0.1 2s, 10.0.0.2 2s", attempts: "A:refused B:", failures: "A1 B0",
	}} {
		t.Run(s.name, s.run)
	}
}

// A route alone, as a request through /proxy uses it.
func TestRouteAlone(t *testing.T) {
	w := newWorld(t, "A B C", pool.Policy{})
	var r session.Route
	r.Start(w.pool, &w.set, netip.Addr{})
	if r.TimedOut() || len(r.Attempts()) != 0 {
		t.Fatalf("a fresh route: timed out %v, attempts %v", r.TimedOut(), r.Attempts())
	}
	for i, id := range []string{"A", "B"} {
		try, cause := r.Next(w.now)
		if cause != "" || try.Backend.ID() != id || try.Deadline != w.now.Add(2*time.Second) {
			t.Fatalf("try %d: got %+v, %q", i, try, cause)
		}
		if again, cause := r.Dialed(w.after(70*time.Millisecond), faults["refused"]); !again || cause != "" {
			t.Fatalf("try %d: got %v, %q", i, again, cause)
		}
		if r.Lease().Backend() != nil {
			t.Fatal("a lease is left after a failed dial")
		}
	}
	try, _ := r.Next(w.now)
	if again, cause := r.Dialed(w.after(time.Millisecond), nil); again || cause != "" {
		t.Fatalf("got %v, %q", again, cause)
	}
	if r.Lease().Backend() != try.Backend || len(r.Attempts()) != 3 {
		t.Errorf("connected: attempts %v", r.Attempts())
	}
	if a := r.Attempts()[1]; a != (session.Attempt{Backend: "B", Error: "refused", Took: 70 * time.Millisecond}) {
		t.Errorf("the second attempt is %+v", a)
	}
	r.Lease().Release()
	r.Lease().Release()
	if n := w.active(); n != 0 {
		t.Errorf("%d sessions are counted", n)
	}
}

func TestCancelCountsAgainstNobody(t *testing.T) {
	w := newWorld(t, "A B", pool.Policy{})
	var r session.Route
	r.Start(w.pool, &w.set, netip.Addr{})
	r.Cancel(w.now) // nothing was picked: nothing happens
	r.Next(w.now)
	r.Cancel(w.after(300 * time.Millisecond))
	r.Cancel(w.now)
	want := session.Attempt{Backend: "A", Error: "canceled", Took: 300 * time.Millisecond}
	if len(r.Attempts()) != 1 || r.Attempts()[0] != want {
		t.Errorf("got %+v, want %+v alone", r.Attempts(), want)
	}
	if got := w.failures(); got != "A0 B0" || w.active() != 0 {
		t.Errorf("failures %s, active %d", got, w.active())
	}
}

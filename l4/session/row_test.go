package session_test

import (
	"testing"
	"time"

	"sluice/l4/session"
)

// One session from its start to its end, as a listing shows it.
func TestRow(t *testing.T) {
	w := newWorld(t, "A B@b.test", pool0)
	w.start()
	want := session.Row{
		Key: session.Key{Process: "cafe", Number: 1234}, Frontend: "f", Listen: "127.0.0.1:5432", Client: client,
		Pool: "p", Started: began, State: "dialing",
	}
	check := func(when string, change func()) {
		t.Helper()
		change()
		want.Age = w.now.Sub(began)
		if got := w.Row(w.now); got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", when, got, want)
		}
	}
	check("before Next", func() {})
	w.Next(w.now)
	w.after(time.Second)
	check("a dial", func() { want.Backend, want.Address, want.Idle = "A", "10.0.0.1:80", time.Second })
	w.Dialed(w.now, faults["refused"])
	check("a look-up", func() { want.Backend, want.Address = "B", "" })
	w.Resolved(w.now, []string{"10.1.0.2:80"}, nil)
	check("a second dial", func() { want.Address = "10.1.0.2:80" })
	w.Dialed(w.now, nil)
	check("connected", func() { want.State, want.Idle = "relaying", 0 })
	w.play("1s c+70 b+900 2s b. 3s")
	check("half-closed", func() {
		want.ToBackend, want.ToClient, want.HalfClosed, want.Idle = 70, 900, true, 3*time.Second
	})
	w.play("kill 100ms")
	check("lingering", func() { want.State, want.Idle = "ending", 3100*time.Millisecond })
	w.finish()
	check("closed", func() {})
}

func TestRowWithoutABackend(t *testing.T) {
	for backends, want := range map[string]session.Row{
		"":    {State: "ending"},
		"A B": {State: "ending", Backend: "B", Address: "10.0.0.2:80"},
	} {
		w := newWorld(t, backends, pool0)
		fill(w.network, "10.0.0.1=refused; 10.0.0.2=refused")
		w.start()
		w.connect()
		got := w.Row(w.now)
		if got.State != want.State || got.Backend != want.Backend || got.Address != want.Address {
			t.Errorf("%q: got %+v, want %+v", backends, got, want)
		}
		w.finish()
	}
}

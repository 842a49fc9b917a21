package session_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

var pool0 = pool.Policy{}

// One session that has everything: a refusal, a look-up, two addresses, bytes
// of unequal number, a pause at the end.
func TestRecordOfAReachedBackend(t *testing.T) {
	w := newWorld(t, "A B@b.test", pool0)
	fill(w.network, "10.0.0.1=refused 30ms; 10.1.0.1=refused 20ms; 10.1.0.2=ok 10ms")
	fill(w.names, "b.test=10.1.0.1 10.1.0.2 5ms")
	other := new(pool.Lease)
	defer other.Release()
	w.start()
	w.connect()
	for range 2 { // one more session on B
		if w.pool.Acquire(other, pool.Query{}); other.Backend().ID() == "B" {
			break
		}
		other.Release()
	}
	w.play("100ms c+70 b+900 50ms b+1 c. 400ms b.")
	r := w.Close(w.now, source, 9)
	if n := r.Redials(); n != 1 {
		t.Errorf("%d redials, want 1", n)
	}
	want := session.Record{
		Started: began, Session: "cafe-1234", Frontend: "f", Listen: "127.0.0.1:5432", Client: client,
		Pool: "p", Backend: "B", Address: "10.1.0.2:80", Source: source,
		Attempts: []session.Attempt{
			{Backend: "A", Error: "refused", Took: 30 * time.Millisecond},
			{Backend: "B", Took: 35 * time.Millisecond},
		},
		ToBackend: 70, ToClient: 901,
		Dial: 65 * time.Millisecond, Total: 615 * time.Millisecond, Last: 400 * time.Millisecond,
		FrontendActive: 9, BackendActive: 2,
		Code: "--", Cause: session.ClientClosed,
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
	st := w.pool.Status().Backends[1]
	if st.Active != 1 || st.Total != 1 || st.BytesToBack != 70 || st.BytesToClient != 901 {
		t.Errorf("the backend says %+v", st)
	}
}

func TestRecordWithoutABackend(t *testing.T) {
	for _, c := range []struct {
		name, backends, network, names string
		backend, address, attempts     string
		dial, total                    time.Duration
	}{
		{name: "nothing tried", backends: ""},
		{
			name: "the last one tried", backends: "A B", network: "10.0.0.1=hang; 10.0.0.2=refused 40ms",
			backend: "B", address: "10.0.0.2:80", attempts: "A:timeout B:refused",
			dial: 2*time.Second + late + 40*time.Millisecond, total: 2*time.Second + late + 40*time.Millisecond,
		},
		{
			name: "one that was never dialed has no address", backends: "A B@b.test",
			network: "10.0.0.1=refused", names: "b.test=error 3ms",
			backend: "B", address: "", attempts: "A:refused B:resolve",
			dial: 3 * time.Millisecond, total: 3 * time.Millisecond,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.backends, pool0)
			fill(w.network, c.network)
			fill(w.names, c.names)
			w.start()
			w.connect()
			r := w.finish()
			if r.Backend != c.backend || r.Address != c.address || attempts(r) != c.attempts || r.Source != "" || r.BackendActive != 0 {
				t.Errorf("got backend %q at %q, source %q, attempts %s, active %d", r.Backend, r.Address, r.Source, attempts(r), r.BackendActive)
			}
			if r.Dial != c.dial || r.Total != c.total {
				t.Errorf("got dial %v of %v, want %v of %v", r.Dial, r.Total, c.dial, c.total)
			}
		})
	}
}

// The client leaves, or an order comes, at each point of the way.
func TestCutWhileLookingForABackend(t *testing.T) {
	for _, c := range []struct {
		when     string
		attempts string
		dial     time.Duration
	}{
		{"before", "", 0},
		{"lookup", "A:canceled", 100 * time.Millisecond},
		{"dial", "A:canceled", 200 * time.Millisecond},
		{"second", "A:refused B:canceled", 300 * time.Millisecond},
	} {
		for _, order := range []session.Cause{session.ClientLeft, session.Shutdown} {
			w := newWorld(t, "A@a.test B", pool0)
			w.start()
			w.until(c.when)
			code := "CC"
			if order == session.ClientLeft {
				w.Gone(w.now)
				w.Gone(w.now)
				if v := w.Asked(w.now, session.Killed); v != session.None {
					t.Errorf("%s: an order to a session that is over: %s", c.when, verbs[v])
				}
			} else {
				code = "KD"
				if v := w.Asked(w.now, order); v != session.Cut {
					t.Errorf("%s: got %s, want cut", c.when, verbs[v])
				}
				w.Gone(w.now)
			}
			if n := w.active(); n != 0 {
				t.Errorf("%s: %d sessions are counted", c.when, n)
			}
			// The engine's dial ends after that, in any way.
			w.after(100 * time.Millisecond)
			for _, step := range []session.Step{
				w.Next(w.now), w.Resolved(w.now, []string{"10.1.0.1:80"}, nil),
				w.Dialed(w.now, nil), w.Dialed(w.now, faults["refused"]),
			} {
				if step.Do != session.End {
					t.Errorf("%s: got %s, want end", c.when, steps[step.Do])
				}
			}
			r := w.finish()
			if r.Cause != order || r.Code != code || attempts(r) != c.attempts || r.Dial != c.dial {
				t.Errorf("%s, %s: got %s %s, attempts %q, dial %v", c.when, order, r.Cause, r.Code, attempts(r), r.Dial)
			}
			if strings.Contains(w.failures(), "A1") && c.when != "second" || strings.Contains(w.failures(), "B1") {
				t.Errorf("%s: counted against %s", c.when, w.failures())
			}
		}
	}
}

// until brings the search to a point, a tenth of a second for each step.
func (w *world) until(point string) {
	w.after(100 * time.Millisecond)
	if point == "before" {
		return
	}
	w.Next(w.now)
	w.after(100 * time.Millisecond)
	if point == "lookup" {
		return
	}
	w.Resolved(w.now, []string{"10.1.0.1:80"}, nil)
	w.after(100 * time.Millisecond)
	if point == "dial" {
		return
	}
	w.Dialed(w.now, faults["refused"])
	w.after(100 * time.Millisecond)
}

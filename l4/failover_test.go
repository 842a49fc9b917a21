package l4_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
	"sluice/pool"
)

// B042: a failed dial goes to another backend, never to the same one twice.
func TestRedialNeverRepeatsABackend(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Refuse(t), l4test.Refuse(t), l4test.Serve(t, l4test.Tag("C")).Addr)})
		const clients = 300
		for range clients {
			c := r.dial()
			if got := line(t, c); got != "C" {
				t.Fatalf("got %q", got)
			}
			c.Close()
			tried := words(r.record())
			sorted := slices.Clone(tried)
			slices.Sort(sorted)
			if len(slices.Compact(sorted)) != len(tried) || tried[len(tried)-1] != "C:" {
				t.Errorf("attempts %v", tried)
			}
		}
	})
}

// B047: one of three backends dies under load, and no client notices.
func TestBackendDiesUnderLoad(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		a, b, c := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B")), l4test.Serve(t, l4test.Tag("C"))
		r := start(t, setup{specs: specs(a.Addr, b.Addr, c.Addr), policy: pool.Policy{MaxFailures: 3, RetryAfter: time.Hour}})
		var served atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 150 {
					conn, err := net.Dial("tcp", r.addr)
					if err != nil && ending(err) == "reset" {
						continue // as below, before the client looked
					}
					if err != nil {
						t.Error(err)
						return
					}
					conn.SetDeadline(time.Now().Add(l4test.Patience))
					// A session on the backend that dies may be cut; one that starts
					// later gets a greeting from somewhere.
					if _, err := io.ReadFull(conn, make([]byte, 2)); err != nil {
						if err != io.EOF && ending(err) != "reset" {
							t.Errorf("a client saw %v", err)
						}
					} else {
						served.Add(1)
					}
					conn.Close()
				}
			})
		}
		eventually(t, "some are served", func() bool { return served.Load() > 50 })
		b.Stop()
		wg.Wait()
		// Only sessions that had reached it could be lost with it.
		if n := served.Load(); n < 4*150-20 {
			t.Errorf("%d of %d clients were served", n, 4*150)
		}
		if st := r.pool.Status().Backends[1]; st.State != "down" {
			t.Errorf("the dead backend is %s", st.State)
		}
	})
}

// B044: a dial that hangs leaves time for the next backend, and one that the
// budget cut counts against nobody.
func TestHangingDialLeavesTimeForTheNext(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		set := defaults()
		set.ConnectTimeout, set.DialBudget = 10*time.Second, 1500*time.Millisecond
		r := start(t, setup{set: set, specs: specs(l4test.Hole(t), l4test.Serve(t, l4test.Tag("B")).Addr)})
		began := time.Now()
		c := r.dial()
		if got := line(t, c); got != "B" {
			t.Errorf("got %q", got)
		}
		if took := time.Since(began); took < 700*time.Millisecond || took > 1500*time.Millisecond {
			t.Errorf("it took %v, want half the budget", took)
		}
		c.Close()
		rec := r.record()
		if got := fmt.Sprint(words(rec)); got != "[A:timeout B:]" {
			t.Errorf("attempts %v", got)
		}
		if n := r.pool.Status().Backends[0].DialFailures; n != 0 {
			t.Errorf("%d failures are held against the backend that the budget cut", n)
		}
	})
}

// B056: the record names every attempt, what became of it, and how long it took.
// A dial that had all of its time counts.
func TestRecordListsAttempts(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		set := defaults()
		set.ConnectTimeout = 300 * time.Millisecond
		r := start(t, setup{set: set, specs: specs(l4test.Refuse(t), l4test.Hole(t), l4test.Serve(t, l4test.Tag("C")).Addr)})
		c := r.dial()
		line(t, c)
		c.Close()
		rec := r.record()
		if got := fmt.Sprint(words(rec)); got != "[A:refused B:timeout C:]" {
			t.Errorf("attempts %v", got)
		}
		if took := rec.Attempts[1].Took; took < 300*time.Millisecond || took > 2*time.Second {
			t.Errorf("the dial that hung took %v", took)
		}
		if rec.Backend != "C" || rec.Dial < 300*time.Millisecond || rec.Source == "" {
			t.Errorf("record %+v", rec)
		}
		for i, want := range []int64{1, 1, 0} {
			if b := r.pool.Status().Backends[i]; b.DialFailures != want {
				t.Errorf("backend %s has %d failures, want %d", b.ID, b.DialFailures, want)
			}
		}
		if n := r.front.Status().Redials; n != 2 {
			t.Errorf("%d redials, want 2", n)
		}
	})
}

// B054: with no backend a client is refused in bounded time, whatever it says.
func TestNoBackendAnswers(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		set := defaults()
		set.ConnectTimeout, set.DialBudget = 200*time.Millisecond, 500*time.Millisecond
		for _, c := range []struct {
			specs []pool.Spec
			cause session.Cause
			code  string
		}{
			{specs(l4test.Refuse(t), l4test.Refuse(t)), session.ConnectFailed, "SC"},
			{specs(l4test.Hole(t), l4test.Hole(t)), session.ConnectFailed, "sC"},
			{[]pool.Spec{{ID: "A", Address: "127.0.0.1:9", Weight: 0}}, session.NoBackend, "SC"},
		} {
			r := start(t, setup{set: set, specs: c.specs})
			began := time.Now()
			if how := r.refused("SELECT 1"); how != "reset" {
				t.Errorf("the client saw %s, want a reset", how)
			}
			if took := time.Since(began); took > set.DialBudget+time.Second {
				t.Errorf("it took %v", took)
			}
			r.mustEnd(c.cause, c.code, 0, 0)
		}
	})
}

// A backend at its limit refuses, and is never given more.
func TestBackendLimit(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		b := l4test.Serve(t, l4test.Tag("A"))
		r := start(t, setup{specs: []pool.Spec{{ID: "A", Address: b.Addr, Weight: 1, MaxSessions: 1}}})
		for range 50 { // one after the other: the place is free when the session is over
			c := r.dial()
			line(t, c)
			if how := r.refused(""); how != "reset" {
				t.Errorf("a second client saw %s", how)
			}
			r.mustEnd(session.BackendLimit, "SQ", 0, 0)
			c.Close()
			r.mustEnd(session.ClientClosed, "--", 0, 2)
		}
	})
}

// B052 b: once a byte could have reached a backend there is no other.
func TestResetAfterTheConnectIsNotRedialed(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		b := l4test.Serve(t, l4test.Tag("B"))
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Reset).Addr, b.Addr)})
		if how := r.refused("important"); how != "reset" {
			t.Errorf("the client saw %s, want a reset", how)
		}
		r.mustEnd(session.BackendReset, "SD", 9, 0)
		if n := b.Total(); n != 0 {
			t.Errorf("the second backend got %d connections", n)
		}
	})
}

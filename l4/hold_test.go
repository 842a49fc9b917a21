package l4_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
	"sluice/pool"
)

// holding is a policy that holds sessions while no backend is eligible.
func holding(most int, patience time.Duration) pool.Policy {
	return pool.Policy{QueueMax: most, QueueFor: time.Hour, HoldFor: patience, MaxFailures: 3}
}

// nobody is a backend that gets no new sessions.
func nobody() []pool.Spec { return []pool.Spec{{ID: "none", Address: "127.0.0.1:1"}} }

// held waits until n sessions are held.
func (r *rig) held(n int64) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d sessions are held", n), func() bool { return r.pool.Status().Held == n })
}

// With no backend, clients wait in the order in which they came.
func TestHeldClientsAreServedInOrder(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		const most = 4
		habit, conns := l4test.Hand(t)
		r := start(t, setup{specs: nobody(), policy: holding(most, time.Hour)})
		var clients []*net.TCPConn
		for i := range most {
			c := r.dial()
			fmt.Fprintf(c, "client %d\n", i)
			clients = append(clients, c)
			r.held(int64(i + 1))
		}
		if how := r.refused("one more"); how != "reset" {
			t.Errorf("the queue is full, and the client saw %s", how)
		}
		r.mustEnd(session.NoBackend, "SC", 0, 0)
		r.apply([]pool.Spec{{ID: "A", Address: l4test.Serve(t, habit).Addr, Weight: 1, MaxSessions: 1}})
		for i, c := range clients {
			b := handed(t, conns)
			if got, want := line(t, b), fmt.Sprintf("client %d", i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			b.Close()
			if more, err := io.ReadAll(c); err != nil || len(more) > 0 {
				t.Errorf("client %d got %q, %v", i, more, err)
			}
			c.Close()
			if rec := r.mustEnd(session.BackendClosed, "--", 9, 0); rec.Queue == 0 || len(rec.Attempts) != 1 {
				t.Errorf("client %d: waited %v, attempts %v", i, rec.Queue, words(rec))
			}
		}
		if st := r.pool.Status(); st.Held != 0 || st.Queued != 0 || st.HeldTotal != most {
			t.Errorf("status %+v", st)
		}
	})
}

// A hold ends at hold_timeout, with RST.
func TestHoldTimesOut(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		const patience = 300 * time.Millisecond
		r := start(t, setup{specs: nobody(), policy: holding(3, patience)})
		if how := r.refused("hello"); how != "reset" {
			t.Errorf("the client saw %s", how)
		}
		if rec := r.mustEnd(session.HoldTimeout, "sQ", 0, 0); rec.Queue < patience || rec.Queue > rec.Total {
			t.Errorf("it waited %v of %v", rec.Queue, rec.Total)
		}
		if n := r.pool.Status().HoldTimeouts; n != 1 {
			t.Errorf("%d timeouts", n)
		}
	})
}

// Who waits is told when its time is another: an hour in which a short time is
// over, and a short time that becomes an hour.
func TestEnginesFollowTheDeadline(t *testing.T) {
	drain, ready := pool.Drain, pool.Ready
	onEngines(t, func(t *testing.T, start starter) {
		habit, conns := l4test.Hand(t)
		pol := holding(3, time.Hour)
		pol.QueueFor = 400 * time.Millisecond
		r := start(t, setup{
			specs:  []pool.Spec{{ID: "A", Address: l4test.Serve(t, habit).Addr, Weight: 1, MaxSessions: 1}},
			policy: pol,
		})
		first := r.dial()
		b := handed(t, conns)
		r.pool.Patch("A", pool.Patch{Admin: &drain})
		waits := r.dial()
		r.held(1)
		<-time.After(2 * pol.QueueFor)
		r.held(1)
		r.pool.Patch("A", pool.Patch{Admin: &ready}) // full
		if _, err := io.ReadAll(waits); ending(err) != "reset" {
			t.Errorf("after its time in the queue it saw %v", err)
		}
		r.mustEnd(session.QueueTimeout, "sQ", 0, 0)

		waits = r.dial()
		r.queued(1)
		r.pool.Patch("A", pool.Patch{Admin: &drain})
		r.held(1)
		<-time.After(2 * pol.QueueFor)
		l4test.Abort(b)
		r.mustEnd(session.BackendReset, "SD", 0, 0)
		r.pool.Patch("A", pool.Patch{Admin: &ready})
		handed(t, conns).Close()
		if got, err := io.ReadAll(waits); len(got) > 0 || err != nil {
			t.Errorf("it got %q, %v", got, err)
		}
		first.Close()
	})
}

// A held client that leaves frees its place.
func TestHeldClientLeaves(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for name, leave := range map[string]func(c *net.TCPConn){
			"end":   func(c *net.TCPConn) { c.Close() },
			"reset": func(c *net.TCPConn) { io.WriteString(c, "hello"); l4test.Abort(c) },
		} {
			t.Run(name, func(t *testing.T) {
				r := start(t, setup{specs: nobody(), policy: holding(1, time.Hour)})
				for range 3 {
					c := r.dial()
					r.held(1)
					leave(c)
					r.held(0)
					r.mustEnd(session.ClientLeft, "CQ", 0, 0)
				}
			})
		}
	})
}

// A backend is gone for a while, and nothing finds it down: who comes waits, and
// nobody sees an error.
func TestBackendIsAwayForAWhile(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		const clients = 30
		a := l4test.Serve(t, l4test.Tag("A"))
		r := start(t, setup{specs: specs(a.Addr), policy: holding(clients, time.Hour)})
		a.Stop()
		answers := make(chan string, clients)
		for range clients {
			go func() {
				c, err := net.Dial("tcp", r.addr)
				if err != nil {
					answers <- err.Error()
					return
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(2 * l4test.Patience))
				got := make([]byte, 2)
				if _, err = io.ReadFull(c, got); err != nil {
					got = []byte(err.Error())
				}
				answers <- string(got)
			}()
		}
		r.queuedOrTrying(clients)
		l4test.ServeAt(t, a.Addr, l4test.Tag("A"))
		for range clients {
			if got := <-answers; got != "A\n" {
				t.Errorf("a client got %s", got)
			}
		}
		for range clients {
			rec := r.record()
			if rec.Queue == 0 || len(rec.Attempts) < 1 || rec.Attempts[len(rec.Attempts)-1].Error != "" {
				t.Errorf("waited %v, attempts %v", rec.Queue, words(rec))
			}
		}
		if st := r.pool.Status(); st.Backends[0].DialFailures > 2*clients {
			t.Errorf("%d dials failed, of %d clients", st.Backends[0].DialFailures, clients)
		}
	})
}

// queuedOrTrying waits until n sessions were held; one of them may be trying.
func (r *rig) queuedOrTrying(n int64) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d sessions were held", n), func() bool { return r.pool.Status().HeldTotal == n })
}

// A shutdown ends who is held as it does who is queued.
func TestHeldSessionsAndShutdown(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: nobody(), policy: holding(3, time.Hour)})
		c := r.dial()
		r.held(1)
		ctx, stop := context.WithCancel(context.Background())
		stop()
		if n := r.front.Shutdown(ctx); n != 1 {
			t.Errorf("%d sessions were cut, want 1", n)
		}
		if _, err := io.ReadAll(c); ending(err) != "reset" {
			t.Errorf("who was held saw %v", err)
		}
		r.mustEnd(session.Shutdown, "KD", 0, 0)
	})
}

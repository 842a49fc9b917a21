package l4_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
	"sluice/pool"
)

// narrow is a rig whose only backend takes one session at a time and hands it
// over; up to most may wait, each for as long as patience.
func narrow(t *testing.T, start starter, most int, patience time.Duration) (*rig, <-chan *net.TCPConn) {
	t.Helper()
	habit, conns := l4test.Hand(t)
	return start(t, setup{
		specs:  []pool.Spec{{ID: "A", Address: l4test.Serve(t, habit).Addr, Weight: 1, MaxSessions: 1}},
		policy: pool.Policy{QueueMax: most, QueueFor: patience},
	}), conns
}

// queued waits until n sessions wait.
func (r *rig) queued(n int64) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d sessions are queued", n), func() bool { return r.pool.Status().Queued == n })
}

// handed waits for the next session at the backend.
func handed(t *testing.T, conns <-chan *net.TCPConn) *net.TCPConn {
	t.Helper()
	select {
	case c := <-conns:
		c.SetDeadline(time.Now().Add(2 * l4test.Patience))
		return c
	case <-time.After(l4test.Patience):
		t.Fatalf("no session reached the backend\n%s", stacks())
		return nil
	}
}

// noMore fails if another session is at the backend.
func noMore(t *testing.T, conns <-chan *net.TCPConn) {
	t.Helper()
	select {
	case <-conns:
		t.Error("a session reached the backend before its turn")
	default:
	}
}

// B041: with a queue, clients over the limit are served in the order in which
// they came; one more than may wait is refused at once.
func TestQueueIsServedInOrder(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		const most = 4
		r, conns := narrow(t, start, most, time.Hour)
		var clients []*net.TCPConn
		for i := range 1 + most {
			c := r.dial()
			fmt.Fprintf(c, "client %d\n", i) // kept until there is a backend
			clients = append(clients, c)
			if i == 0 {
				eventually(t, "the first is there", func() bool { return r.pool.Status().Backends[0].Total == 1 })
			}
			r.queued(int64(i))
		}
		if how := r.refused("one more"); how != "reset" {
			t.Errorf("the queue is full, and the client saw %s", how)
		}
		if rec := r.mustEnd(session.BackendLimit, "SQ", 0, 0); rec.Queue != 0 {
			t.Errorf("it waited %v", rec.Queue)
		}
		if n := len(r.sessionsOf("queued")); n != most {
			t.Errorf("%d sessions are shown as queued, want %d", n, most)
		}
		for i, c := range clients {
			b := handed(t, conns)
			noMore(t, conns)
			if got, want := line(t, b), fmt.Sprintf("client %d", i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			io.WriteString(b, "served\n")
			b.Close()
			if got := line(t, c); got != "served" {
				t.Errorf("client %d got %q", i, got)
			}
			if more, err := io.ReadAll(c); err != nil || len(more) > 0 { // so that the backend is the first to end
				t.Errorf("client %d got %q, %v behind it", i, more, err)
			}
			c.Close()
			rec := r.mustEnd(session.BackendClosed, "--", 9, 7)
			if waited := rec.Queue > 0; waited != (i > 0) || rec.Dial+rec.Queue > rec.Total {
				t.Errorf("client %d: waited %v, dialed %v of %v", i, rec.Queue, rec.Dial, rec.Total)
			}
		}
		if st := r.pool.Status(); st.Queued != 0 || st.QueuedTotal != most || st.QueueTimeouts != 0 {
			t.Errorf("status %+v", st)
		}
	})
}

// sessionsOf lists the sessions in that state.
func (r *rig) sessionsOf(state string) (rows []session.Row) {
	for _, row := range r.sessions() {
		if row.State == state {
			rows = append(rows, row)
		}
	}
	return rows
}

// B041: a wait ends at queue_timeout, with RST.
func TestQueueTimesOut(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		const patience = 300 * time.Millisecond
		r, conns := narrow(t, start, 3, patience)
		first := r.dial()
		b := handed(t, conns)
		if how := r.refused("hello"); how != "reset" {
			t.Errorf("the client saw %s", how)
		}
		rec := r.mustEnd(session.QueueTimeout, "sQ", 0, 0)
		if rec.Queue < patience || rec.Queue > rec.Total || len(rec.Attempts) != 0 {
			t.Errorf("it waited %v of %v, attempts %v", rec.Queue, rec.Total, rec.Attempts)
		}
		if n := r.pool.Status().QueueTimeouts; n != 1 {
			t.Errorf("%d timeouts", n)
		}
		first.Close()
		io.ReadAll(b)
		b.Close()
		r.mustEnd(session.ClientClosed, "--", 0, 0)
	})
}

// B041: a queued client that leaves frees its place: by a reset, or by an end of
// stream with nothing before it.
func TestQueuedClientLeaves(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for name, leave := range map[string]func(c *net.TCPConn){
			"end":              func(c *net.TCPConn) { c.Close() },
			"half-close":       func(c *net.TCPConn) { c.CloseWrite() },
			"reset":            l4test.Abort,
			"reset after data": func(c *net.TCPConn) { io.WriteString(c, "hello"); l4test.Abort(c) },
		} {
			t.Run(name, func(t *testing.T) {
				r, conns := narrow(t, start, 1, time.Hour)
				r.dial()
				b := handed(t, conns)
				for range 3 {
					c := r.dial()
					r.queued(1)
					leave(c)
					r.queued(0)
					r.mustEnd(session.ClientLeft, "CQ", 0, 0)
				}
				next := r.dial()
				r.queued(1)
				l4test.Abort(b)
				handed(t, conns).Close()
				if got, err := io.ReadAll(next); len(got) > 0 || err != nil {
					t.Errorf("the next client got %q, %v", got, err)
				}
			})
		}
	})
}

// A client that had ended before it came to wait leaves at once as well.
func TestClientThatEndedDoesNotWait(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r, conns := narrow(t, start, 1, time.Hour)
		r.dial()
		handed(t, conns)
		for range 20 {
			c := r.dial()
			c.CloseWrite()
			r.mustEnd(session.ClientLeft, "CQ", 0, 0)
		}
	})
}

// What a client sent before its end is a request: it waits for its backend, and
// gets its answer.
func TestQueuedRequestIsKept(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r, conns := narrow(t, start, 1, time.Hour)
		r.dial()
		b := handed(t, conns)
		c := r.dial()
		r.queued(1)
		request := strings.Repeat("x", 100_000)
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(c, request)
			c.CloseWrite()
			sent <- err
		}()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if st := r.pool.Status(); st.Queued != 1 {
			t.Errorf("it does not wait: %+v", st)
		}
		l4test.Abort(b)
		b = handed(t, conns)
		if got, err := io.ReadAll(b); string(got) != request || err != nil {
			t.Errorf("the backend got %d bytes, %v; want %d", len(got), err, len(request))
		}
		io.WriteString(b, "answer")
		b.Close()
		if got, err := io.ReadAll(c); string(got) != "answer" || err != nil {
			t.Errorf("the client got %q, %v", got, err)
		}
	})
}

// So is what came with a PROXY header, although it is off the socket by then.
func TestQueuedRequestBehindAHeaderIsKept(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		s := behindProxy(t, headers(session.RequireHeaders))
		habit, conns := l4test.Hand(t)
		s.specs = []pool.Spec{{ID: "A", Address: l4test.Serve(t, habit).Addr, Weight: 1, MaxSessions: 1}}
		s.policy = pool.Policy{QueueMax: 2, QueueFor: time.Hour}
		r := start(t, s)
		const header = "PROXY TCP4 198.51.100.9 203.0.113.1 1234 5432\r\n"
		io.WriteString(r.dial(), header)
		b := handed(t, conns)
		asks := r.dial()
		io.WriteString(asks, header+"request")
		asks.CloseWrite()
		r.queued(1)
		leaves := r.dial()
		io.WriteString(leaves, header)
		r.queued(2)
		leaves.CloseWrite()
		r.queued(1)
		r.mustEnd(session.ClientLeft, "CQ", 0, 0)
		l4test.Abort(b)
		b = handed(t, conns)
		if got, err := io.ReadAll(b); string(got) != "request" || err != nil {
			t.Errorf("the backend got %q, %v", got, err)
		}
		b.Close()
	})
}

// A queued session is a session: it can be killed, and gets its backend during a
// shutdown as long as that waits.
func TestQueuedSessionsAndOrders(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r, conns := narrow(t, start, 3, time.Hour)
		r.dial()
		b := handed(t, conns)
		victim := r.dial()
		r.queued(1)
		if n := len(r.sessionsOf("queued")); n != 1 || !r.kill(r.sessionsOf("queued")[0].Key.String()) {
			t.Fatalf("%d queued sessions, or it cannot be killed", n)
		}
		if _, err := io.ReadAll(victim); ending(err) != "reset" {
			t.Errorf("the victim saw %v", err)
		}
		r.mustEnd(session.Killed, "KD", 0, 0)

		served, cut := r.dial(), (*net.TCPConn)(nil)
		r.queued(1)
		cut = r.dial()
		r.queued(2)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan int, 1)
		go func() { done <- r.front.Shutdown(ctx) }()
		l4test.Abort(b)
		r.mustEnd(session.BackendReset, "SD", 0, 0)
		b = handed(t, conns)
		io.WriteString(b, "last\n")
		if got := line(t, served); got != "last" {
			t.Errorf("got %q", got)
		}
		stop()
		if n := <-done; n != 2 {
			t.Errorf("%d sessions were cut, want 2", n)
		}
		if _, err := io.ReadAll(cut); ending(err) != "reset" {
			t.Errorf("who waited to the end saw %v", err)
		}
	})
}

// With no backend left to wait for, who waits is refused.
func TestQueueEndsWithTheLastBackend(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r, conns := narrow(t, start, 3, time.Hour)
		r.dial()
		handed(t, conns)
		c := r.dial()
		r.queued(1)
		r.apply(nil)
		if _, err := io.ReadAll(c); ending(err) != "reset" {
			t.Errorf("the client saw %v", err)
		}
		r.mustEnd(session.NoBackend, "SC", 0, 0)
	})
}

// A session whose backend refuses waits for the other, which is full. The budget
// of its dials does not count that.
func TestRedialWaitsForAFullBackend(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		habit, conns := l4test.Hand(t)
		set := defaults()
		set.DialBudget, set.ConnectTimeout = 500*time.Millisecond, 500*time.Millisecond
		r := start(t, setup{
			set: set, strategy: "least_connections",
			specs: []pool.Spec{
				{ID: "A", Address: l4test.Refuse(t), Weight: 1},
				{ID: "B", Address: l4test.Serve(t, habit).Addr, Weight: 1, MaxSessions: 1},
			},
			policy: pool.Policy{QueueMax: 3, QueueFor: time.Hour},
		})
		r.dial()
		b := handed(t, conns)
		r.dial()
		r.queued(1)
		<-time.After(2 * set.DialBudget)
		l4test.Abort(b)
		r.mustEnd(session.BackendReset, "SD", 0, 0)
		b = handed(t, conns)
		// A reset in the middle of the connect would be a failed dial.
		eventually(t, "the dial is over", func() bool { return r.pool.Status().Backends[1].Total == 2 })
		l4test.Abort(b)
		rec := r.mustEnd(session.BackendReset, "SD", 0, 0)
		if got := fmt.Sprint(words(rec)); got != "[A:refused B:]" || rec.Queue < 2*set.DialBudget || rec.Dial > rec.Total-rec.Queue {
			t.Errorf("attempts %s, waited %v, dialed %v of %v", got, rec.Queue, rec.Dial, rec.Total)
		}
	})
}

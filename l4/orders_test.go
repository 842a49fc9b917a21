package l4_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
	"sluice/pool"
)

// B073: on_down is RST to both sides, behind what was already on its way.
func TestOnDownResetsBothSides(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		client, backend := r.pair()
		const toBackend, toClient = 5, 300_001
		fmt.Fprint(client, "12345")
		io.ReadFull(backend, make([]byte, toBackend))
		if _, err := backend.Write(make([]byte, toClient)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all is on its way to the client", func() bool { return r.sessions()[0].ToClient == toClient })
		if n := r.engine.End(session.Match{Backend: "A"}, session.OnDown); n != 1 {
			t.Errorf("%d sessions took the order", n)
		}
		n, err := io.Copy(io.Discard, client)
		if n != toClient || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the client got %d bytes and %v, want %d and a reset", n, err, toClient)
		}
		if n, err := io.Copy(io.Discard, backend); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the backend got %d bytes more and %v, want a reset", n, err)
		}
		if rec := r.record(); rec.Cause != session.OnDown || rec.Code != "DD" || rec.ToClient != toClient || rec.ToBackend != toBackend {
			t.Errorf("record %+v", rec)
		}
	})
}

// A reader that takes nothing holds up an ending by RST for as long as any.
func TestOnDownWithAReaderThatStopped(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		_, backend := r.pair()
		clog(backend)
		if n := r.engine.End(session.Match{}, session.OnDown); n != 1 {
			t.Errorf("%d sessions took the order", n)
		}
		if rec := r.record(); rec.Cause != session.OnDown || rec.Total > l4test.Patience {
			t.Errorf("record %+v", rec)
		}
	})
}

// What a backend that is down has not taken holds up nobody: its client hears of it
// at once, and not when the time of a polite ending is over. A busy machine is
// late too, but not each time it is asked.
func TestOnDownDoesNotWaitForTheBackend(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		var took []time.Duration
		for range 10 {
			client, backend := r.pair()
			clog(client)
			began := time.Now()
			if n := r.engine.End(session.Match{}, session.OnDown); n != 1 {
				t.Fatalf("%d sessions took the order", n)
			}
			if _, err := io.Copy(io.Discard, client); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the client saw %v, want a reset", err)
			}
			took = append(took, time.Since(began))
			backend.Close()
			if rec := r.record(); rec.Cause != session.OnDown || rec.Code != "DD" {
				t.Errorf("record %+v", rec)
			}
			if took[len(took)-1] < session.LingerTime/2 {
				return
			}
		}
		t.Errorf("the resets came after %v, time after time", took)
	})
}

// clog writes until the other end takes no more.
func clog(c net.Conn) (written int64) {
	piece := make([]byte, 64<<10)
	for {
		c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := c.Write(piece)
		written += int64(n)
		if err != nil {
			c.SetWriteDeadline(time.Time{})
			return written
		}
	}
}

// B017: an ending by Sluice is FIN to both, so that who has everything sees no
// reset; what the two still say is taken.
func TestRemovedAndDrainedEndPolitely(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, cause := range []session.Cause{session.Removed, session.Drained, session.Killed} {
			r := start(t, setup{})
			client, backend := r.pair()
			const size = 1 << 20
			go backend.Write(make([]byte, size))
			io.ReadFull(client, make([]byte, size))
			if n := r.engine.End(session.Match{Pool: "p"}, cause); n != 1 {
				t.Errorf("%d sessions took the order", n)
			}
			if n, err := io.Copy(io.Discard, client); n != 0 || err != nil {
				t.Errorf("%s: the client saw %d bytes, %v; want an end", cause, n, err)
			}
			fmt.Fprint(backend, "bye") // nobody reads it, and it must not end in a reset
			if n, err := io.Copy(io.Discard, backend); n != 0 || err != nil {
				t.Errorf("%s: the backend saw %d bytes, %v; want an end", cause, n, err)
			}
			client.Close()
			backend.Close()
			if rec := r.record(); rec.Cause != cause || rec.Code != "KD" || rec.ToClient != size {
				t.Errorf("record %+v", rec)
			}
		}
	})
}

// The first cause stays, and who is ending already takes no order.
func TestOrderWhileLingering(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		r.pair()
		if n := r.engine.End(session.Match{}, session.Drained); n != 1 {
			t.Fatalf("%d sessions took the order", n)
		}
		for _, late := range []session.Cause{session.Killed, session.OnDown, session.Removed} {
			if n := r.engine.End(session.Match{}, late); n != 0 {
				t.Errorf("%s: %d sessions took an order while they ended", late, n)
			}
		}
		if rec := r.record(); rec.Cause != session.Drained {
			t.Errorf("cause %s", rec.Cause)
		}
	})
}

// An order about a backend that is still dialed sends the client to another, and
// ends the session only where there is none.
func TestOrderAboutTheBackendDialed(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		hole := l4test.Hole(t)
		for _, c := range []struct {
			backends []string
			cause    session.Cause
			want     string
		}{
			{[]string{hole, l4test.Serve(t, l4test.Tag("B")).Addr}, session.Removed, "B"},
			{[]string{hole, l4test.Serve(t, l4test.Tag("B")).Addr}, session.OnDown, "B"},
			{[]string{hole}, session.Drained, "reset"},
			{[]string{hole, l4test.Serve(t, l4test.Tag("B")).Addr}, session.Killed, "reset"},
		} {
			set := defaults()
			set.ConnectTimeout, set.DialBudget = time.Minute, 2*time.Minute
			r := start(t, setup{specs: specs(c.backends...), set: set})
			client := r.dial()
			eventually(t, "A is dialed", func() bool {
				rows := r.sessions()
				return len(rows) == 1 && rows[0].State == "dialing" && rows[0].Address == hole
			})
			if n := r.engine.End(session.Match{Backend: "A"}, c.cause); n != 1 {
				t.Errorf("%d sessions took the order", n)
			}
			if c.want == "B" {
				if got := line(t, client); got != "B" {
					t.Errorf("%s: got %q", c.cause, got)
				}
				client.Close()
				if rec := r.record(); rec.Cause != session.ClientClosed || len(rec.Attempts) != 2 || rec.Attempts[0].Error != "canceled" {
					t.Errorf("%s: record %+v", c.cause, rec)
				}
				continue
			}
			_, err := io.Copy(io.Discard, client)
			if rec := r.record(); !errors.Is(err, syscall.ECONNRESET) || rec.Cause != c.cause {
				t.Errorf("%s: the client got %v, the record %+v", c.cause, err, rec)
			}
		}
	})
}

// B016: one order ends a thousand sessions whose clients stopped reading and
// whose buffers are full, each within the time of an ending.
func TestOneOrderEndsAThousand(t *testing.T) {
	onEnginesAlone(t, func(t *testing.T, start starter) {
		// Full buffers of all would be more than the kernel gives to TCP as a whole: it
		// would reset connections, of other tests as well.
		const sessions, full = 1000, 50
		var came, stuck atomic.Int64
		r := start(t, setup{specs: specs(l4test.Serve(t, func(c *net.TCPConn) {
			if came.Add(1) <= full {
				clog(c)
			}
			stuck.Add(1)
			io.Copy(io.Discard, c) // until the session ends
		}).Addr)})
		for range sessions {
			c := r.dial()
			c.SetReadBuffer(4 << 10)
		}
		eventually(t, "buffers are full", func() bool { return stuck.Load() == sessions })
		if n := r.engine.End(session.Match{Backend: "A"}, session.Removed); n != sessions {
			t.Errorf("%d took the order", n)
		}
		for range sessions {
			if rec := r.record(); rec.Cause != session.Removed {
				t.Fatalf("record %+v", rec)
			}
		}
		if s := stacks(); strings.Contains(s, ".Close(") {
			t.Errorf("somebody waits in a close\n%s", s)
		}
	})
}

// Nobody escapes: while clients come, dial and wait without end, a backend that
// goes down or is removed has no session soon after, and the others go on.
func TestNobodyEscapesAnEviction(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, most := range []int{0, 3} {
			hold := func(c *net.TCPConn) { io.Copy(c, c) }
			both := specs(l4test.Serve(t, hold).Addr, l4test.Serve(t, hold).Addr)
			both[0].MaxSessions, both[1].MaxSessions = most, most
			policy := pool.Policy{Probed: true, CloseDown: true, CloseGone: true, QueueMax: most * 100, QueueFor: time.Minute}
			r := start(t, setup{specs: both, policy: policy, drop: true})
			stop := r.keepComing(24)
			for round := range 30 {
				lost, kept := both[round%2], both[1-round%2]
				eventually(t, "clients come", func() bool { return r.active(lost.ID)+r.active(kept.ID) > 0 })
				if round%4 < 2 {
					r.apply([]pool.Spec{kept})
				} else {
					r.health(lost.ID, pool.Down)
				}
				eventually(t, lost.ID+" has no session", func() bool { return r.active(lost.ID) == 0 })
				r.apply(both)
				r.health(lost.ID, pool.Up)
			}
			stop()
		}
	})
}

// keepComing has n clients that come again whenever they are ended. The func that
// it returns ends that, and the rig.
func (r *rig) keepComing(n int) (stop func()) {
	var clients sync.WaitGroup
	var over atomic.Bool
	for range n {
		clients.Go(func() {
			for !over.Load() {
				c, err := net.Dial("tcp", r.addr)
				if err != nil {
					continue
				}
				io.Copy(io.Discard, c) // until somebody ends it
				c.Close()
			}
		})
	}
	return func() {
		over.Store(true)
		r.ln.Close()
		r.front.Shutdown(canceled())
		clients.Wait()
	}
}

// active returns the sessions of the backends of that id.
func (r *rig) active(id string) (n int64) {
	for _, b := range r.pool.Status().Backends {
		if b.ID == id {
			n += b.Active
		}
	}
	return n
}

// health gives a verdict on a backend.
func (r *rig) health(id string, h pool.Health) {
	for _, b := range r.pool.Probed() {
		if b.ID() == id {
			r.pool.SetHealth(b, h, "test")
		}
	}
}

// Pages hold each session once, in one order, whatever begins or ends between
// them.
func TestPagesOfSessions(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr, l4test.Serve(t, l4test.Tag("B")).Addr)})
		const sessions, page = 47, 10
		for range sessions {
			line(t, r.dial())
		}
		all := r.sessions()
		var after session.Key
		seen := 0
		for more := true; more; {
			var rows []session.Row
			rows, more = r.engine.Sessions(session.Match{}, after, page)
			for _, row := range rows {
				if row.Key.Compare(after) <= 0 || row.Key != all[seen].Key {
					t.Fatalf("row %d is %s behind %s, want %s", seen, row.Key, after, all[seen].Key)
				}
				after = row.Key
				seen++
			}
			if more && len(rows) != page {
				t.Errorf("a page of %d", len(rows))
			}
		}
		if seen != sessions {
			t.Errorf("%d of %d sessions were listed", seen, sessions)
		}
		onB, more := r.engine.Sessions(session.Match{Backend: "B"}, session.Key{}, sessions)
		if len(onB) != sessions/2 || more {
			t.Errorf("%d sessions on B, more %v", len(onB), more)
		}
		loopback := session.Match{Client: netip.MustParsePrefix("127.0.0.0/8")}
		if rows, more := r.engine.Sessions(loopback, session.Key{}, sessions); len(rows) != sessions || more {
			t.Errorf("%d sessions from loopback, more %v", len(rows), more)
		}
		for side, l := range onB[0].Links {
			if l.Known != (runtime.GOOS == "linux") || l.Known && (l.RTT <= 0 || l.RTT > time.Minute || l.Retransmits != 0) {
				t.Errorf("side %d: %+v", side, l)
			}
		}
	})
}

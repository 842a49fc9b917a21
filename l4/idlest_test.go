package l4_test

import (
	"cmp"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// acknowledged is how long a kernel may wait with an acknowledgement that nothing
// else carries (Linux: TCP_DELACK_MAX, 200 ms), and no event tells of. A session with
// bytes on their way is not idle.
const acknowledged = 250 * time.Millisecond

// The idlest of those that match end, and no others, with an end and not a reset.
func TestEndIdlest(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr)})
		const n = 8
		var clients []*net.TCPConn
		for range n {
			c := r.dial()
			line(t, c)
			clients = append(clients, c)
		}
		// From the last to the first, so that the idlest are not the oldest; the
		// copies of one are told of before the next.
		for i := n - 1; i >= 0; i-- {
			ask(t, clients[i], "hello")
			mine := func(row session.Row) bool { return row.Client == addrOf(clients[i]) && row.ToClient == 2+6 }
			eventually(t, "it is told", func() bool { return slices.ContainsFunc(r.sessions(), mine) })
			<-time.After(2 * time.Millisecond) // so that they differ
		}
		<-time.After(acknowledged)
		relaying := session.Match{Pool: "p", State: "relaying"}
		for _, none := range []struct {
			match session.Match
			n     int
		}{
			{session.Match{Pool: "q"}, n}, {session.Match{MinIdle: time.Hour}, n}, {session.Match{MinAge: time.Hour}, n}, {relaying, 0}, {relaying, -1},
		} {
			if got := r.engine.EndIdlest(none.match, none.n, session.Rebalanced); got != 0 {
				t.Errorf("%+v: %d sessions took the order", none, got)
			}
		}
		ended := 0
		eventually(t, "three sessions took the order", func() bool {
			ended += r.engine.EndIdlest(relaying, 3-ended, session.Rebalanced)
			return ended == 3
		})
		for _, c := range clients[n-3:] {
			if data, err := io.ReadAll(c); len(data) != 0 || err != nil {
				t.Errorf("an idle one saw %q, %v; want an end", data, err)
			}
			c.Close()
			if rec := r.record(); rec.Cause != session.Rebalanced || rec.Code != "KD" {
				t.Errorf("record %+v", rec)
			}
		}
		for _, c := range clients[:n-3] {
			if got := ask(t, c, "alive?"); got != "alive?" {
				t.Errorf("one that was less idle answers %q", got)
			}
		}
		rest := 0
		eventually(t, "the rest ends, once what they were sent is acknowledged", func() bool {
			rest += r.engine.EndIdlest(relaying, 100, session.Rebalanced)
			return rest >= n-3
		})
	})
}

// Who reads slowly has nothing new to read for a long time, and is not idle.
func TestEndIdlestSparesASlowReader(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		slow, backend := r.pair()
		wrote := clog(backend)
		quick, _ := r.pair()
		if got := r.engine.EndIdlest(session.Match{State: "relaying"}, 2, session.Rebalanced); got != 1 {
			t.Errorf("%d sessions took the order, want 1", got)
		}
		if data, err := io.ReadAll(quick); len(data) != 0 || err != nil {
			t.Errorf("the idle one saw %q, %v; want an end", data, err)
		}
		quick.Close()
		backend.CloseWrite()
		if n, err := io.Copy(io.Discard, slow); n != wrote || err != nil {
			t.Errorf("the slow reader got %d bytes, %v; want %d and an end", n, err, wrote)
		}
	})
}

// addrOf returns where c comes from, as a row has it.
func addrOf(c *net.TCPConn) netip.AddrPort { return c.LocalAddr().(*net.TCPAddr).AddrPort() }

// Of many it finds those that were silent since the earliest moments.
func TestEndIdlestOfMany(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Silent(t)).Addr)})
		const n, few = 300, 40
		for range n {
			r.dial()
		}
		eventually(t, "all relay", func() bool { return r.pool.Status().Backends[0].Total == n })
		rows := r.sessions()
		since := func(row session.Row) time.Time { return row.Started.Add(row.Age - row.Idle) }
		slices.SortFunc(rows, func(a, b session.Row) int {
			return cmp.Or(since(a).Compare(since(b)), a.Key.Compare(b.Key))
		})
		if got := r.engine.EndIdlest(session.Match{State: "relaying"}, few, session.Rebalanced); got != few {
			t.Fatalf("%d sessions took the order, want %d", got, few)
		}
		for range few {
			rec := r.record()
			place := slices.IndexFunc(rows, func(row session.Row) bool { return row.Key.String() == rec.Session })
			if place >= few || rec.Cause != session.Rebalanced {
				t.Errorf("the idlest but %d ended for %s", place, rec.Cause)
			}
		}
	})
}

package l4_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// A listing shows each session once, as it is; killing one by its id ends that
// one alone, and ids of others end none.
func TestSessionsAreListedAndKilled(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr, l4test.Serve(t, l4test.Tag("B")).Addr)})
		other := start(t, setup{beside: r, specs: specs(l4test.Serve(t, l4test.Tag("C")).Addr)})
		line(t, other.dial())
		clients := map[string]*net.TCPConn{}
		for range 10 {
			c := r.dial()
			line(t, c)
			if got := ask(t, c, "hello"); got != "hello" {
				t.Fatalf("got %q", got)
			}
			clients[c.LocalAddr().String()] = c
		}
		const moved = 6
		eventually(t, "the listing shows what was moved", func() bool {
			return !slices.ContainsFunc(r.sessions(), func(row session.Row) bool { return row.ToBackend != moved || row.ToClient != moved+2 })
		})
		rows := r.sessions()
		seen := map[string]bool{}
		for _, row := range rows {
			if clients[row.Client.String()] == nil || seen[row.Key.String()] || row.State != "relaying" || row.Frontend != "f" ||
				row.Pool != "p" || row.Listen != r.addr || row.Backend != "A" && row.Backend != "B" || row.HalfClosed {
				t.Errorf("row %+v", row)
			}
			seen[row.Key.String()] = true
		}
		if len(rows) != len(clients) {
			t.Errorf("%d rows of %d sessions", len(rows), len(clients))
		}
		victim := rows[3]
		process, _, _ := strings.Cut(victim.Key.String(), "-")
		for _, id := range []string{"", "1", process, process + "-0", process + "-99999", process + "--1", process + "-x", process + "-01", "ffffffffffff-1"} {
			if r.kill(id) {
				t.Errorf("%q is the id of a session", id)
			}
		}
		if !r.kill(victim.Key.String()) {
			t.Fatalf("%s cannot be killed", victim.Key.String())
		}
		if data, err := io.ReadAll(clients[victim.Client.String()]); len(data) != 0 || err != nil {
			t.Errorf("the victim saw %q, %v; want an end", data, err)
		}
		clients[victim.Client.String()].Close()
		if rec := r.record(); rec.Session != victim.Key.String() || rec.Cause != session.Killed || rec.Client != victim.Client {
			t.Errorf("record %+v, want that of %s", rec, victim.Key.String())
		}
		delete(clients, victim.Client.String())
		for _, c := range clients {
			if got := ask(t, c, "alive?"); got != "alive?" {
				t.Errorf("another session answered %q", got)
			}
		}
		if r.kill(victim.Key.String()) || len(r.sessions()) != len(clients) {
			t.Errorf("the victim is listed still")
		}
	})
}

// The admin listener closes last: it may list sessions when the engine is gone.
func TestListingAfterTheEngineEnded(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr)})
		line(t, r.dial())
		id := r.sessions()[0].Key.String()
		done := make(chan string)
		r.front.Shutdown(canceled())
		r.record()
		r.ln.Close()
		r.engine.Close()
		go func() { done <- fmt.Sprint(len(r.sessions()), r.kill(id), r.front.Shutdown(canceled())) }()
		select {
		case got := <-done:
			if got != "0 false 0" {
				t.Errorf("got %s", got)
			}
		case <-time.After(l4test.Patience):
			t.Fatalf("it waits for ever\n%s", stacks())
		}
	})
}

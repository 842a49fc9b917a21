//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"sluice/admin/rebalance"
	"sluice/l4/l4test"
)

// holder is a client that keeps a session, says nothing, and comes back when it is
// closed.
type holder struct {
	mu   sync.Mutex // guards conn and over
	conn net.Conn
	over bool
	lost int // connects that failed, and sessions that ended in a reset
}

func (h *holder) hold(address string) {
	for {
		c, err := net.Dial("tcp", address)
		h.mu.Lock()
		if h.over || err != nil {
			if err == nil {
				c.Close()
			} else if !h.over {
				h.lost++
			}
			h.mu.Unlock()
			return
		}
		h.conn = c
		h.mu.Unlock()
		in := bufio.NewReader(c)
		_, first := in.ReadString('\n')
		_, err = io.Copy(io.Discard, in)
		c.Close()
		h.mu.Lock()
		if !h.over && (first != nil || err != nil) {
			h.lost++
		}
		h.mu.Unlock()
	}
}

func (h *holder) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.conn != nil {
		h.conn.Close()
	}
}

// holders starts n clients that stay, and returns them and what ends them.
func holders(address string, n int) (list []*holder, stop func()) {
	var all sync.WaitGroup
	for range n {
		h := &holder{}
		list = append(list, h)
		all.Go(func() { h.hold(address) })
	}
	return list, func() {
		for _, h := range list {
			h.stop()
		}
		all.Wait()
	}
}

// sluice runs a command against the daemon.
func (d *daemon) sluice(command string, args ...string) (status int, stdout, stderr string) {
	d.t.Helper()
	return sluiceRun(d.t, append([]string{command, "--admin", d.admin}, args...)...)
}

// A backend that came late gets its share of clients that stay, and none of them is
// reset or refused.
func TestRebalanceOfClientsThatStay(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
		text := func(backends ...string) string {
			return process + head + frontendText("web", free, "p") + poolText("p", `strategy = "least_connections"`, backends...)
		}
		d := startDaemon(t, text("A="+a.Addr))
		const n = 60
		list, stop := holders(d.frontend("web").Listen, n)
		defer stop()
		eventually(t, "all hold a session", func() bool { return d.backend("p", "A").Active == n })
		d.mustReload(text("A="+a.Addr, "B="+b.Addr))
		eventually(t, "the newcomer is up", func() bool { return d.backend("p", "B").Health == "up" })

		status, out, errs := d.sluice("rebalance", "--dry-run", "--target", "0")
		if status != 0 || !strings.Contains(out, "pool p: planned; 30 sessions") || !strings.Contains(out, "A: 60 sessions, fair share 30, 30 to close") {
			t.Errorf("dry run: got %d %q %q", status, out, errs)
		}
		status, out, errs = d.sluice("rebalance", "p", "--rate", "100", "--target", "0", "--json")
		var p rebalance.Progress
		if err := json.Unmarshal([]byte(out), &p); err != nil || status != 0 || p.Surplus != 30 || p.State != rebalance.Running {
			t.Fatalf("start: got %d %q %q", status, out, errs)
		}
		eventually(t, "the pool is even", func() bool {
			_, out, _ = d.sluice("rebalance", "p", "--status")
			return strings.Contains(out, "pool p: even (")
		})
		if !strings.Contains(out, "30 sessions were too many at first, 30 are closed, 0 are too many now") {
			t.Errorf("it ended with %s", out)
		}
		if x, y := d.backend("p", "A").Active, d.backend("p", "B").Active; x != n/2 || y != n/2 {
			t.Errorf("%d and %d sessions, want %d each", x, y, n/2)
		}
		moved := 0
		for _, line := range d.lines("session") {
			if line["cause"] == "rebalanced" && line["code"] == "KD" && line["backend"] == "A" {
				moved++
			}
		}
		if moved != 30 || len(d.lines("rebalance started")) != 1 || len(d.lines("rebalance ended")) != 1 {
			t.Errorf("%d records of sessions that were moved on, want 30", moved)
		}
		if text := `sluice_frontend_sessions_total{cause="rebalanced",frontend="web"} 30`; !strings.Contains(metricsOf(d), text) {
			t.Errorf("no %s in /metrics", text)
		}
		stop()
		for i, h := range list {
			if h.lost > 0 {
				t.Errorf("client %d lost %d connections", i, h.lost)
			}
		}
	})
}

func metricsOf(d *daemon) string {
	_, body := d.ask("GET", "/metrics", "")
	return body
}

// What cannot be done is said, and what runs is stopped.
func TestRebalanceCommand(t *testing.T) {
	t.Parallel()
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	d := startDaemon(t, head+frontendText("web", free, "p")+poolText("p", "", "A="+a.Addr)+poolText("q", "", "B="+b.Addr))
	list, stop := holders(d.frontend("web").Listen, 20)
	defer stop()
	eventually(t, "all hold a session", func() bool { return d.backend("p", "A").Active == int64(len(list)) })
	d.must("POST", "/backends", fmt.Sprintf(`{"pool":"p","id":"C","address":%q}`, b.Addr))
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"", 1, "name one of the pools: p, q"},
		{"none", 1, `no pool "none"`},
		{"p q", 2, "at most 1 arg"},
		{"p --status", 1, "there was no rebalance"},
		{"p --stop", 1, "no rebalance of pool"},
		{"p --stop --status", 2, "exclude each other"},
		{"p --rate 0", 1, "must be 1 at least"},
		{"p --min-idle -1s", 1, "must be a duration"},
		{"q", 0, "pool q: running; 0 sessions were too many"},
		{"p --rate 1 --min-idle 1h", 0, "pool p: running; 9 sessions were too many"},
		{"p", 1, "DELETE stops it"},
		{"p --stop", 0, "pool p: stopped (it was stopped); 9 sessions were too many at first, 0 are closed"},
		{"p --status", 0, "pool p: stopped"},
	} {
		status, out, errs := d.sluice("rebalance", strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(out+errs, c.want) {
			t.Errorf("rebalance %s: got %d %q %q, want %d and %q", c.args, status, out, errs, c.status, c.want)
		}
	}
	eventually(t, "a pool that was even gets so", func() bool {
		_, out, _ := d.sluice("rebalance", "q", "--status")
		return strings.Contains(out, "pool q: even")
	})
}

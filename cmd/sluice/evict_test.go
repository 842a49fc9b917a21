package main

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// keeper is a backend A whose listener can close without its connections.
func keeper(t *testing.T) (ln net.Listener) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go l4test.Tag("A")(c.(*net.TCPConn))
		}
	}()
	return ln
}

// B073, B074, B124: what happens to the session of a backend that goes down, is
// removed, or is drained, by each of the ways there are.
func TestBackendEventsAndTheirSessions(t *testing.T) {
	t.Parallel()
	down := func(d *daemon, ln net.Listener, _ string) {
		ln.Close()
		eventually(d.t, "A is down", func() bool { return d.backend("p", "A").Health == "down" })
	}
	ask := func(method, path, body string, want int) func(*daemon, net.Listener, string) {
		return func(d *daemon, _ net.Listener, _ string) {
			if status, answer := d.ask(method, path, body); status != want {
				d.t.Fatalf("%s %s: got %d %s", method, path, status, answer)
			}
		}
	}
	remove := ask("DELETE", "/backends/A?pool=p", "", http.StatusNoContent)
	for _, c := range []struct {
		name, keys string
		event      func(d *daemon, ln net.Listener, text string)
		cause      string // empty: the session stays
		code       string
		sees       error
		least      time.Duration
	}{
		{"down, close", `on_down = "close"`, down, "on_down", "DD", syscall.ECONNRESET, 0},
		{"down, keep", "", down, "", "", nil, 0},
		{"removed by the API, close", `on_remove = "close"`, remove, "removed", "KD", io.EOF, 0},
		{"removed by the API, 1s", `drain_timeout = "1s"`, remove, "removed", "KD", io.EOF, time.Second},
		{"removed by the API, for ever", "", remove, "", "", nil, 0},
		{"removed from the file", `on_remove = "close"`, func(d *daemon, _ net.Listener, text string) {
			d.mustReload(strings.Replace(text, `id = "A"`, `id = "other"`, 1))
		}, "removed", "KD", io.EOF, 0},
		{"its pool removed", `on_remove = "close"`, func(d *daemon, _ net.Listener, text string) {
			d.mustReload(strings.ReplaceAll(text, `"p"`, `"q"`))
		}, "removed", "KD", io.EOF, 0},
		{"its frontend removed", `on_remove = "close"`, func(d *daemon, _ net.Listener, text string) {
			d.mustReload(strings.ReplaceAll(text, `"web"`, `"other"`))
		}, "", "", nil, 0},
		{"drained", `drain_timeout = "1s"`, ask("PATCH", "/backends/A?pool=p", `{"state":"drain"}`, 200), "drained", "KD", io.EOF, time.Second},
		{"in maintenance", `drain_timeout = "1s"`, ask("PATCH", "/backends/A?pool=p", `{"state":"maint"}`, 200), "drained", "KD", io.EOF, time.Second},
		{"drained while the file gets the time", "", func(d *daemon, ln net.Listener, text string) {
			ask("PATCH", "/backends/A?pool=p", `{"state":"drain"}`, 200)(d, ln, text)
			d.mustReload(strings.Replace(text, "[pool.health]", "drain_timeout = \"1ms\"\n[pool.health]", 1))
		}, "drained", "KD", io.EOF, 0},
	} {
		for _, engine := range map[bool][]string{false: {"copy"}, true: {"copy", "epoll"}}[runtime.GOOS == "linux"] {
			t.Run(c.name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				ln := keeper(t)
				text := head + "[process]\nengine = \"" + engine + "\"\n" + frontendText("web", free, "p") +
					poolText("p", c.keys, "A="+ln.Addr().String())
				d := startDaemon(t, text)
				client, _ := open(t, d.frontend("web").Listen)
				began := time.Now()
				c.event(d, ln, text)
				if c.cause == "" {
					echoes(t, client)
					return
				}
				_, err := io.ReadFull(client, make([]byte, 1))
				if took := time.Since(began); !errors.Is(err, c.sees) || took < c.least {
					t.Errorf("the client saw %v after %v, want %v after %v", err, took, c.sees, c.least)
				}
				client.Close()
				d.await("the record", "session")
				if line := d.lines("session")[0]; line["cause"] != c.cause || line["code"] != c.code || line["backend"] != "A" {
					t.Errorf("got line %v, want cause %s", line, c.cause)
				}
			})
		}
	}
}

// The API lists and ends what runs, drains tell when they end, and one that is
// taken back ends nothing.
func TestSessionsAPI(t *testing.T) {
	t.Parallel()
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	d := startDaemon(t, head+frontendText("web", free, "p")+poolText("p", `drain_timeout = "1h"`, "A="+a.Addr, "B="+b.Addr))
	var clients [4]*net.TCPConn
	var on [4]string
	for i := range clients {
		clients[i], on[i] = open(t, d.frontend("web").Listen)
		echoes(t, clients[i])
	}
	type page struct {
		Sessions []struct {
			ID, Client, Backend, State string
			ToBackend                  int64           `json:"to_backend"`
			TCP                        json.RawMessage `json:"backend_tcp"`
		}
		Next *string
	}
	list := func(query string) (p page) {
		t.Helper()
		status, body := d.ask("GET", "/sessions"+query, "")
		if err := json.Unmarshal([]byte(body), &p); err != nil || status != http.StatusOK {
			t.Fatalf("got %d %s", status, body)
		}
		return p
	}
	all := list("?limit=3")
	if len(all.Sessions) != 3 || all.Next == nil || len(list("?after="+*all.Next).Sessions) != 1 {
		t.Fatalf("pages of three: %+v", all)
	}
	if s := all.Sessions[0]; s.Client != clients[0].LocalAddr().String() || s.Backend != on[0] || s.State != "relaying" ||
		(s.TCP != nil) != (runtime.GOOS == "linux") {
		t.Errorf("the first is %+v, %s", s, s.TCP)
	}
	if got := list("?backend=B&client=127.0.0.0/8&state=relaying"); len(got.Sessions) != 2 {
		t.Errorf("on B: %+v", got)
	}
	ask := func(method, path, body string, want int, text string) {
		t.Helper()
		if status, answer := d.ask(method, path, body); status != want || !strings.Contains(answer, text) {
			t.Errorf("%s %s: got %d %s, want %d and %s", method, path, status, answer, want, text)
		}
	}
	ask("PATCH", "/backends/B", `{"state":"drain"}`, 200, `"drain_ends":"20`)
	ask("PATCH", "/backends/B", `{"state":"ready"}`, 200, `"admin":"ready"`)
	if ends := d.backend("p", "B").DrainEnds; !ends.IsZero() {
		t.Errorf("the drain was taken back, and ends at %v", ends)
	}
	ask("DELETE", "/sessions/"+all.Sessions[0].ID, "", 204, "")
	wantEnd(t, clients[0])
	ask("DELETE", "/sessions/"+all.Sessions[0].ID, "", 404, "GET /sessions")
	ask("DELETE", "/sessions?min_age=1h", "", 200, `{"ended":0}`)
	ask("DELETE", "/sessions?backend="+on[1], "", 200, `{"ended":2}`)
	wantEnd(t, clients[1])
	wantEnd(t, clients[3])
	echoes(t, clients[2])
	ask("DELETE", "/sessions?all=true", "", 200, `{"ended":1}`)
	wantEnd(t, clients[2])
	for _, line := range d.lines("session") {
		if line["cause"] != "killed" {
			t.Errorf("got line %v", line)
		}
	}
}

// wantEnd waits for a polite end, and answers it.
func wantEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("got %d bytes, %v; want the end", n, err)
	}
	c.Close()
}

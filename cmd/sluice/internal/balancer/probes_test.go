package balancer

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/cmd/internal/config"
	"sluice/l4/l4test"
	"sluice/pool"
	"sluice/pool/health"
)

// answers serves lines: the n-th one, from 1, is answered by answer. It returns
// its address.
func answers(t *testing.T, answer func(n int64, line string) string) string {
	var asked atomic.Int64
	return l4test.Serve(t, func(c *net.TCPConn) {
		line, _ := bufio.NewReader(c).ReadString('\n')
		fmt.Fprint(c, answer(asked.Add(1), line))
	}).Addr
}

// places replaces the servers that the texts of these tests name.
func places(t *testing.T) *strings.Replacer {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/good" && r.Host != "good" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(web.Close)
	echo := answers(t, func(_ int64, line string) string { return "got " + line })
	_, port, _ := net.SplitHostPort(echo)
	return strings.NewReplacer(
		"ECHO", echo,
		"PORT", port,
		"DEAD", l4test.Refuse(t),
		"WEB", web.Listener.Addr().String(),
		"FAILS", answers(t, func(n int64, _ string) string { return map[bool]string{true: "good", false: "bad"}[n == 1] }),
		"RISES", answers(t, func(n int64, _ string) string { return map[bool]string{true: "bad", false: "good"}[n == 1] }),
		"SLOW", answers(t, func(int64, string) string { <-time.After(300 * time.Millisecond); return "good" }))
}

// Each key of [pool.health] changes the verdict of a backend by a reload, which
// names the key.
func TestProbeKeysAreLive(t *testing.T) {
	const quick = "fall = 1\nrise = 1\ninterval = \"20ms\"\ndown_interval = \"20ms\"\ntimeout = \"5s\"\n"
	const line = quick + "send = \"x\\n\"\n"
	for _, c := range []struct{ key, backend, keys, from, to, before, after string }{
		{"send", "ECHO", quick + `expect = "^got a\n"`, `send = "a\n"`, `send = "b\n"`, "up", "down"},
		{"expect", "ECHO", line, `expect = "^got x"`, `expect = "^got y$"`, "up", "down"},
		{"probe", "ECHO", quick, `probe = "tcp"`, `probe = "http"`, "up", "down"},
		{"path", "WEB", quick + `probe = "http"`, `path = "/good"`, `path = "/bad"`, "up", "down"},
		{"host", "WEB", quick + `probe = "http"`, `host = "good"`, `host = "bad"`, "up", "down"},
		{"status", "WEB", quick + `probe = "http"`, `status = "418"`, `status = "200-399"`, "up", "down"},
		{"port", "DEAD", quick, ``, `port = PORT`, "down", "up"},
		{"address", "ECHO", quick, `address = "localhost"`, `address = "127.0.0.254"`, "up", "down"},
		{"interval", "FAILS", strings.Replace(line, "interval = \"20ms\"\n", "", 1) + `expect = "good"`, `interval = "24h"`, `interval = "20ms"`, "up", "down"},
		{"down_interval", "RISES", strings.Replace(line, "down_interval = \"20ms\"\n", "", 1) + `expect = "good"`, `down_interval = "24h"`, `down_interval = "20ms"`, "down", "up"},
		{"fall", "FAILS", strings.Replace(line, "fall = 1\n", "", 1) + `expect = "good"`, `fall = 1000`, `fall = 1`, "up", "down"},
		{"rise", "RISES", strings.Replace(line, "rise = 1\n", "", 1) + `expect = "good"`, `rise = 1000`, `rise = 1`, "down", "up"},
		{"timeout", "SLOW", strings.Replace(line, "timeout = \"5s\"\n", "", 1) + `expect = "good"`, `timeout = "50ms"`, `timeout = "10s"`, "down", "up"},
	} {
		t.Run(c.key, func(t *testing.T) {
			t.Parallel()
			at := places(t)
			text := func(keys string) string {
				return at.Replace(frontendText("f", "p") + "[[pool]]\nname = \"p\"\n[pool.health]\n" + c.keys + "\n" + keys +
					"\n[[pool.backend]]\naddress = \"" + c.backend + "\"\n")
			}
			b, f, stop := started(t, text(c.from))
			defer stop()
			awaitHealth(t, b, c.before)
			<-time.After(300 * time.Millisecond) // many probes, unless they are told to wait
			if got := b.view.Load().pools[0].Status().Backends[0]; got.Health != c.before {
				t.Errorf("got %s (%s), want that it stays %s", got.Health, got.LastChange.Reason, c.before)
			}
			f.set(text(c.to))
			done, err := b.Reload(t.Context(), "test")
			if err != nil || len(done.Changes) != 1 || !strings.HasPrefix(done.Changes[0], "pool p: health."+c.key+" ") {
				t.Fatalf("got %+v, %v", done, err)
			}
			awaitHealth(t, b, c.after)
		})
	}
}

// awaitHealth waits for the verdict on the only backend.
func awaitHealth(t *testing.T, b *Balancer, want string) {
	t.Helper()
	var s pool.BackendStatus
	for late := time.Now().Add(20 * time.Second); s.Health != want; <-time.After(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("got %s (%s), want %s", s.Health, s.LastChange.Reason, want)
		}
		s = b.view.Load().pools[0].Status().Backends[0]
	}
}

// init is what a backend counts as that joins: one that was there stays as it is.
func TestProbeInitOfNewBackends(t *testing.T) {
	t.Parallel()
	at := places(t)
	text := func(init, more string) string {
		return at.Replace(frontendText("f", "p") + "[[pool]]\nname = \"p\"\n[pool.health]\nrise = 1000\ninit = \"" + init +
			"\"\n[[pool.backend]]\naddress = \"ECHO\"\n" + more)
	}
	b, f, stop := started(t, text("up", ""))
	defer stop()
	awaitHealth(t, b, "up")
	f.set(text("down", "[[pool.backend]]\naddress = \"WEB\"\n"))
	if _, err := b.Reload(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	all := b.view.Load().pools[0].Status().Backends
	if all[0].Health != "up" || all[1].Health != "down" {
		t.Errorf("got %s and %s, want up and down", all[0].Health, all[1].Health)
	}
}

func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		address string
		port    int
		host    string
		want    health.Target
	}{
		{"a:1", 0, "", health.Target{Address: "a:1", SendProxy: 2}},
		{"a:1", 2, "", health.Target{Address: "a:2"}},
		{"a:1", 0, "b", health.Target{Address: "b:1"}},
		{"[fe80::1%lo]:1", 2, "", health.Target{Address: "[fe80::1%lo]:2"}},
		{"a:1", 2, "::1", health.Target{Address: "[::1]:2"}},
		{"unix:/run/x", 2, "b", health.Target{Address: "b:2"}},
		{"unix:/run/x", 2, "", health.Target{Address: "unix:/run/x", SendProxy: 2}},
		{"unix:/run/x", 0, "b", health.Target{Address: "unix:/run/x", SendProxy: 2}},
	} {
		got := elsewhere(health.Target{Address: c.address, SendProxy: 2}, config.Probe{Port: c.port, Address: c.host})
		if got != c.want {
			t.Errorf("%s, port %d, address %s: got %v, want %v", c.address, c.port, c.host, got, c.want)
		}
	}
}

// A probe speaks HTTP over a unix socket, too.
func TestProbeOfUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	web.Listener.Close()
	web.Listener = ln
	web.Start()
	defer web.Close()
	b, _, stop := started(t, frontendText("f", "p")+poolText("p", "http", "unix:"+path))
	defer stop()
	awaitHealth(t, b, "up")
}

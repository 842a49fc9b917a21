//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// unprobed is poolText without probes: dials alone tell of its backends.
func unprobed(name, keys string, backends ...string) string {
	return strings.Replace(poolText(name, keys, backends...), "[pool.health]\n", "[pool.health]\nprobe = \"none\"\n", 1)
}

// attempts returns the dials of the line of a session.
func attempts(line map[string]any) (dials []map[string]any) {
	all, _ := line["attempts"].([]any)
	for _, a := range all {
		dial, _ := a.(map[string]any)
		dials = append(dials, dial)
	}
	return dials
}

// The dials for a client are bounded in number, each in time, and all in time.
func TestDialKeysAreLive(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		var dead []string
		for _, id := range []string{"A", "B", "C", "D"} {
			dead = append(dead, id+"="+l4test.Refuse(t))
		}
		hole := l4test.Hole(t)
		text := func(keys string) string {
			return process + head + frontendText("dead", free, "dead", keys) + unprobed("dead", "max_failures = 0", dead...) +
				frontendText("hole", free, "hole", keys) + unprobed("hole", "max_failures = 0", "A="+hole)
		}
		d := startDaemon(t, text(""))
		for _, n := range []int{2, 4} { // by default there are 3
			d.mustReload(text(fmt.Sprint("attempts = ", n)))
			if got := d.refusedWith(d.frontend("dead").Listen); len(attempts(got)) != n {
				t.Errorf("with attempts = %d: got %v", n, got)
			}
		}
		d.mustReload(text(`connect_timeout = "2500ms"`)) // by default it is 2 s
		line := d.refusedWith(d.frontend("hole").Listen)
		if dials := attempts(line); len(dials) != 1 || dials[0]["ms"].(float64) < 2500 {
			t.Errorf("with a longer connect_timeout: got %v", line)
		}
		d.mustReload(text("connect_timeout = \"1h\"\ndial_budget = \"50ms\"")) // by default it is 6 s
		line = d.refusedWith(d.frontend("hole").Listen)
		if dials := attempts(line); len(dials) != 1 || dials[0]["ms"].(float64) > 5000 {
			t.Errorf("with a shorter dial_budget: got %v", line)
		}
	})
}

// Limits of silence end sessions, for the reason that their lines give.
func TestSilenceKeysAreLive(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		silent := l4test.Serve(t, l4test.Silent(t))
		text := func(keys string) string {
			return process + head + frontendText("web", free, "p", keys) + poolText("p", "", "A="+silent.Addr)
		}
		d := startDaemon(t, text(""))
		for cause, keys := range map[string]string{"idle": `idle_timeout = "50ms"`, "half_close_timeout": `half_close_timeout = "50ms"`} {
			d.mustReload(text(keys))
			before := len(d.lines("session"))
			c, err := net.Dial("tcp", d.frontend("web").Listen)
			if err != nil {
				t.Fatal(err)
			}
			if cause != "idle" {
				c.(*net.TCPConn).CloseWrite()
			}
			c.SetDeadline(time.Now().Add(patience))
			if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("with %s the session goes on: %v", keys, err)
			}
			c.Close()
			eventually(t, "the line", func() bool { return len(d.lines("session")) > before })
			if got := d.lines("session")[before]["cause"]; got != cause {
				t.Errorf("with %s: got cause %v", keys, got)
			}
		}
	})
}

// Sessions end for their age, whoever is busy, those that began under the key and
// no others; with a jitter, sessions of one moment end at different ages.
func TestSessionAgeKeysAreLive(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		a := l4test.Serve(t, l4test.Tag("A"))
		text := func(keys ...string) string {
			return process + head + frontendText("web", free, "p", keys...) + poolText("p", "", "A="+a.Addr)
		}
		d := startDaemon(t, text())
		web := d.frontend("web").Listen
		older, _ := open(t, web)
		ages := func(n int, keys ...string) (ms []float64) {
			t.Helper()
			d.mustReload(text(keys...))
			before := len(d.lines("session"))
			var held []net.Conn
			for range n {
				c, _ := open(t, web)
				held = append(held, c)
			}
			for _, c := range held {
				wantEnd(t, c)
			}
			eventually(t, "the lines", func() bool { return len(d.lines("session")) == before+n })
			for _, line := range d.lines("session")[before:] {
				if line["cause"] != "max_age" || line["code"] != "KD" {
					t.Errorf("with %s: got line %v", keys, line)
				}
				ms = append(ms, line["total_ms"].(float64))
			}
			return ms
		}
		for _, age := range ages(3, `max_session_age = "300ms"`, "max_session_age_jitter = 0") {
			if age < 300 {
				t.Errorf("without jitter one ended at %v ms", age)
			}
		}
		if got := ages(20, `max_session_age = "2s"`, "max_session_age_jitter = 100"); slices.Min(got) > 1900 {
			t.Errorf("with all of it for jitter 20 sessions got %v ms old", got)
		}
		echoes(t, older)
	})
}

// The limits on sessions, of the process and of a frontend, hold and are live.
func TestSessionLimitKeysAreLive(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		a := l4test.Serve(t, l4test.Tag("A"))
		text := func(limit, keys string) string {
			return process + limit + "\n" + head + frontendText("web", free, "p", keys) + frontendText("other", free, "p") +
				poolText("p", "", "A="+a.Addr)
		}
		d := startDaemon(t, text("max_sessions = 1", ""))
		held, _ := open(t, d.frontend("other").Listen)
		web := d.frontend("web").Listen
		refusals := func() string {
			if name, err := visit(web); err == nil {
				t.Errorf("one too many was served by %s", name)
			}
			return fmt.Sprint(d.frontend("web").RejectedBy)
		}
		if got := refusals(); got != "map[process_limit:1]" {
			t.Errorf("beyond the limit of the process: got %s", got)
		}
		d.mustReload(text("", "max_sessions = 1"))
		open(t, web)
		if got := refusals(); got != "map[frontend_limit:1 process_limit:1]" {
			t.Errorf("beyond the limit of the frontend: got %s", got)
		}
		d.mustReload(text("", ""))
		if name, err := visit(web); name != "A" {
			t.Errorf("without limits: got %q, %v", name, err)
		}
		echoes(t, held)
	})
}

// turns visits address n times and returns who answered.
func turns(t *testing.T, address string, n int) (names string) {
	t.Helper()
	for range n {
		name, err := visit(address)
		if err != nil {
			t.Fatal(err)
		}
		names += name
	}
	return names
}

// The keys that choose a backend decide who answers, and do so live.
func TestChoiceKeysAreLive(t *testing.T) {
	t.Parallel()
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	text := func(poolName, keys, more string) string {
		return head + frontendText("web", free, poolName) +
			unprobed("p", keys, "A="+a.Addr+"\n"+more, "B="+b.Addr) + unprobed("q", "", "B="+b.Addr)
	}
	d := startDaemon(t, text("p", "", ""))
	web := d.frontend("web").Listen
	idle := func() {
		eventually(t, "nobody is there", func() bool { return d.frontend("web").Active == 0 })
	}
	calm := func(n int) (names string) { // one after the other
		for range n {
			names += turns(t, web, 1)
			idle()
		}
		return names
	}
	if got := calm(4); got != "ABAB" && got != "BABA" {
		t.Errorf("round_robin: got %s", got)
	}
	d.mustReload(text("p", "", "weight = 3"))
	if got := calm(8); strings.Count(got, "A") != 6 {
		t.Errorf("with weight 3: got %s, want A six times", got)
	}
	for ties, want := range map[string]int{"first": 4, "rotate": 2} {
		d.mustReload(text("p", fmt.Sprintf("strategy = \"least_connections\"\nties = %q", ties), ""))
		if got := calm(4); strings.Count(got, "A") != want {
			t.Errorf("ties %s: got %s, want A %d times", ties, got, want)
		}
	}
	held := map[string]net.Conn{}
	for len(held) < 2 {
		c, name := open(t, web)
		held[name] = c
	}
	held["B"].Close()
	eventually(t, "one is there", func() bool { return d.frontend("web").Active == 1 })
	for range 3 {
		if got := turns(t, web, 1); got != "B" {
			t.Errorf("least_connections: got %s, want B, which is idle", got)
		}
		eventually(t, "one is there", func() bool { return d.frontend("web").Active == 1 })
	}
	held["A"].Close()
	d.mustReload(text("q", "", ""))
	if got := turns(t, web, 4); got != "BBBB" {
		t.Errorf("with another pool: got %s", got)
	}
}

// Without probes dials that fail in a row take a backend out, and one client
// tries it again when its time is over.
func TestDialFailureKeysAreLive(t *testing.T) {
	t.Parallel()
	b := l4test.Serve(t, l4test.Tag("B"))
	dead := l4test.Refuse(t)
	text := func(keys string) string {
		return head + frontendText("web", free, "p") + unprobed("p", keys, "A="+dead, "B="+b.Addr)
	}
	d := startDaemon(t, text("max_failures = 0"))
	web := d.frontend("web").Listen
	turns(t, web, 20)
	if s := d.backend("p", "A"); s.Health == "down" || s.DialFailures < 5 {
		t.Errorf("without max_failures: %+v", s)
	}
	few := startDaemon(t, text("max_failures = 2\nretry_after = \"1h\""))
	turns(t, few.frontend("web").Listen, 20)
	if s := few.backend("p", "A"); s.Health != "down" || s.DialFailures != 2 {
		t.Errorf("with two failures allowed: %+v", s)
	}
	d.mustReload(text("max_failures = 1\nretry_after = \"50ms\""))
	began := time.Now()
	for range 5 {
		failures := d.backend("p", "A").DialFailures
		eventually(t, "a trial", func() bool {
			turns(t, web, 1)
			return d.backend("p", "A").DialFailures > failures
		})
	}
	if took := time.Since(began); took > 30*time.Second { // by default they are 10 s apart
		t.Errorf("five trials took %v", took)
	}
}

// sayName is a web server that says its name, if it says anything.
func sayName(t *testing.T, name string) *l4test.Backend {
	return l4test.Serve(t, func(c *net.TCPConn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		if strings.HasSuffix(r.URL.Path, "/silence") {
			<-t.Context().Done()
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(name), name)
	})
}

// The keys of [admin.proxy] that say whether, where to and how long are live.
func TestProxyKeysAreLive(t *testing.T) {
	t.Parallel()
	p, q := sayName(t, "P"), sayName(t, "Q")
	text := func(keys string) string {
		return head + "[admin.proxy]\n" + keys + "\n" + frontendText("web", free, "p") +
			poolText("p", "", "A="+p.Addr) + poolText("q", "", "A="+q.Addr)
	}
	d := startDaemon(t, text(`pool = "p"`))
	for _, c := range []struct {
		keys, path string
		status     int
		body       string
	}{
		{`pool = "q"`, "/proxy/", http.StatusOK, "Q"},
		{`pool = "p"`, "/proxy/", http.StatusOK, "P"},
		{"pool = \"p\"\nenabled = false", "/proxy/", http.StatusNotFound, ""},
		{"pool = \"p\"\nresponse_timeout = \"50ms\"", "/proxy/silence", http.StatusGatewayTimeout, ""},
	} {
		d.write(text(c.keys))
		if status, body := d.ask("POST", "/reload", ""); status != http.StatusOK {
			t.Fatalf("reload: %d %s", status, body)
		}
		status, body := d.ask("GET", c.path, "")
		if status != c.status || c.body != "" && body != c.body {
			t.Errorf("with %s: got %d %q, want %d %q", c.keys, status, body, c.status, c.body)
		}
	}
}

// send_proxy of one backend wins over that of its pool, and is live.
func TestSendProxyOfOneBackend(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		echo := l4test.Serve(t, l4test.Echo) // of the header as well
		text := func(ofPool, ofBackend string) string {
			return process + head + frontendText("web", free, "p") + unprobed("p", ofPool, "A="+echo.Addr+"\n"+ofBackend)
		}
		d := startDaemon(t, text("", ""))
		const v1, v2 = `send_proxy = "v1"`, `send_proxy = "v2"`
		for _, c := range []struct{ ofPool, ofBackend, begins string }{
			{v1, "", "PR"}, {v1, v2, "\r\n"}, {v2, v1, "PR"}, {v2, `send_proxy = "off"`, "x\n"}, {"", v2, "\r\n"}, {v2, "", "\r\n"},
		} {
			d.mustReload(text(c.ofPool, c.ofBackend))
			if got, err := exchange(t, d.frontend("web").Listen, "x\n", 2); got != c.begins {
				t.Errorf("pool %q, backend %q: the backend got %q, %v, want %q", c.ofPool, c.ofBackend, got, err, c.begins)
			}
		}
	})
}

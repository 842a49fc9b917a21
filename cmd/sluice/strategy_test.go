//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// openAs opens a session as a balancer in front does, for a client at an address.
func openAs(t *testing.T, client, address string) (c net.Conn, name string) {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(c, "PROXY TCP4 %s 10.9.9.9 1000 80\r\n", client); err != nil {
		t.Fatal(err)
	}
	if name, err = readLine(c); err != nil {
		t.Fatalf("greeting: %v", err)
	}
	return c, name
}

// B091: two balancers, whose files have the backends in another order, give a client
// the same backend, whatever came before; and it is the client that the header
// tells of, since here all come from one.
func TestSourceHashAgreesAcrossProcesses(t *testing.T) {
	t.Parallel()
	var backends []string
	for _, name := range []string{"A", "B", "C", "D"} {
		backends = append(backends, name+"="+l4test.Serve(t, l4test.Tag(name)).Addr)
	}
	text := func(backends ...string) string {
		return head + frontendText("web", free, "p", `proxy_protocol = "require"`, `proxy_protocol_from = ["127.0.0.0/8"]`) +
			unprobed("p", `strategy = "source_hash"`, backends...)
	}
	one := startDaemon(t, text(backends...))
	two := startDaemon(t, text(backends[2], backends[0], backends[3], backends[1]))
	seen := map[string]bool{}
	for i := range 24 {
		client := fmt.Sprintf("192.0.2.%d", i)
		_, a := openAs(t, client, one.frontend("web").Listen)
		_, b := openAs(t, client, two.frontend("web").Listen)
		_, again := openAs(t, client, one.frontend("web").Listen)
		if a != b || a != again {
			t.Errorf("%s: got %s, %s, and %s from the other", client, a, again, b)
		}
		seen[a] = true
	}
	if len(seen) < 3 {
		t.Errorf("24 clients have %d backends of 4", len(seen))
	}
}

// B092: with hash_balance_factor one client cannot fill one backend; the API's
// switch to the strategy has the file's factor.
func TestHashBalanceFactorIsLive(t *testing.T) {
	t.Parallel()
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	text := func(keys string) string {
		return head + frontendText("web", free, "p") + unprobed("p", "strategy = \"source_hash\"\n"+keys, "A="+a.Addr, "B="+b.Addr)
	}
	d := startDaemon(t, text(""))
	web := d.frontend("web").Listen
	eight := func() (names string) {
		for range 8 {
			_, name := open(t, web)
			names += name
		}
		return names
	}
	home := eight()
	if strings.Count(home, home[:1]) != 8 {
		t.Fatalf("without a factor: got %s, want one backend", home)
	}
	d.mustReload(text("hash_balance_factor = 101"))
	// 8 and 0 are evened out up to ceil(1.01*16/2) = 9 on one.
	if got := eight(); strings.Count(got, home[:1]) > 1 {
		t.Errorf("with a factor, and 8 sessions on %s: got %s", home[:1], got)
	}
	d.must("PATCH", "/pools/p", `{"strategy": "first"}`)
	if got := eight(); got != "AAAAAAAA" {
		t.Errorf("first: got %s", got)
	}
	d.must("PATCH", "/pools/p", `{"strategy": "source_hash"}`)
	if got := d.must("GET", "/status", ""); !strings.Contains(got, `"strategy_origin":"config"`) {
		t.Errorf("switched back: got %s", got)
	}
	if got := eight(); strings.Count(got, "B") < 7 {
		t.Errorf("with the factor, and 8 sessions more on A: got %s", got)
	}
}

// first fills the backends in the order of the file, random_two takes the idle one.
func TestStrategiesAreLive(t *testing.T) {
	t.Parallel()
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	text := func(keys string) string {
		return head + frontendText("web", free, "p") + unprobed("p", keys, "A="+a.Addr+"\nmax_sessions = 3", "B="+b.Addr)
	}
	d := startDaemon(t, text(`strategy = "first"`))
	web := d.frontend("web").Listen
	got, held := "", []io.Closer{}
	for range 5 {
		c, name := open(t, web)
		got, held = got+name, append(held, c)
	}
	if got != "AAABB" {
		t.Errorf("first: got %s, want AAABB", got)
	}
	held[0].Close()
	held[1].Close()
	eventually(t, "A has one session left", func() bool { return d.backend("p", "A").Active == 1 })
	d.mustReload(text(`strategy = "random_two"`))
	if _, name := open(t, web); name != "A" {
		t.Errorf("random_two, with 1 on A and 2 on B: got %s", name)
	}
}

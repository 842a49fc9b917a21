//go:build unix

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// visitors come one after the other, and wait.
func (d *daemon) visitors(address string, n int) (names chan string) {
	d.t.Helper()
	names = make(chan string, n)
	before := d.pool("p").Queued
	for i := range n {
		go func() {
			name, err := visit(address)
			names <- fmt.Sprint(name, err)
		}()
		eventually(d.t, "another waits", func() bool { return d.pool("p").Queued == before+int64(i)+1 })
	}
	return names
}

// hold_timeout and release_rate are live, for those who wait as well; the status,
// the log and the metrics say what became of them.
func TestHoldKeysAreLive(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	backend := func(weight int) string { return fmt.Sprintf("A=%s\nweight = %d", a.Addr, weight) }
	text := func(keys string, weight int) string {
		return head + frontendText("web", free, "p") + poolText("p", keys, backend(weight))
	}
	d := startDaemon(t, text("", 0))
	address := d.frontend("web").Listen
	if line := d.refusedWith(address); line["cause"] != "no_backend" || line["queue_ms"] != 0.0 {
		t.Errorf("without a hold: %v", line)
	}
	changes := d.mustReload(text("queue_max = 50\nhold_timeout = \"50ms\"", 0))
	if got := strings.Join(changes, "; "); !strings.Contains(got, "hold_timeout 0s -> 50ms") {
		t.Errorf("the reload says %s", got)
	}
	line := d.refusedWith(address)
	if ms, _ := line["queue_ms"].(float64); line["cause"] != "hold_timeout" || line["code"] != "sQ" || ms < 50 || ms > line["total_ms"].(float64) {
		t.Errorf("after hold_timeout: %v", line)
	}

	held := "queue_max = 50\nhold_timeout = \"1h\"\n"
	d.mustReload(text(held, 0))
	names := d.visitors(address, 1)
	d.mustReload(text("queue_max = 50", 0)) // who waits is refused now
	if got := <-names; !strings.Contains(got, "reset") {
		t.Errorf("who was held got %s", got)
	}
	d.mustReload(text(held, 1))
	d.mustReload(text(held, 0))
	if status, body := d.ask("GET", "/readyz/web", ""); status != http.StatusOK {
		t.Errorf("not ready while it holds: %s", body)
	}
	names = d.visitors(address, 3)
	if st := d.pool("p"); st.Held != 3 || st.HoldTimeouts != 1 || st.QueueTimeouts != 0 {
		t.Errorf("status %+v", st)
	}
	_, metrics := d.ask("GET", "/metrics", "")
	for _, want := range []string{`sluice_pool_held{pool="p"} 3`, `sluice_pool_hold_timeouts_total{pool="p"} 1`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	d.mustReload(text(held, 1))
	for range 3 {
		if got := <-names; got != "A<nil>" {
			t.Errorf("who was held got %s", got)
		}
	}

	d.mustReload(text(held+"release_rate = 1", 0))
	names = d.visitors(address, 3)
	d.mustReload(text(held+"release_rate = 1", 1))
	began := time.Now()
	for range 3 {
		if got := <-names; got != "A<nil>" {
			t.Errorf("who was held got %s", got)
		}
	}
	if took := time.Since(began); took < 1500*time.Millisecond { // the first comes at once
		t.Errorf("three were released in %v, at one a second", took)
	}
	if st := d.pool("p"); st.Held != 0 || st.HeldTotal != 8 {
		t.Errorf("status %+v", st)
	}
}

// A session that is held gets what the API adds.
func TestHoldEndsWithABackendOfTheAPI(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	d := startDaemon(t, head+frontendText("web", free, "p")+
		"[[pool]]\nname = \"p\"\nqueue_max = 5\nhold_timeout = \"1h\"\n")
	names := d.visitors(d.frontend("web").Listen, 2)
	if status, body := d.ask("POST", "/backends", fmt.Sprintf(`{"id": "A", "address": %q}`, a.Addr)); status != http.StatusCreated {
		t.Fatalf("got %d: %s", status, body)
	}
	for range 2 {
		if got := <-names; got != "A<nil>" {
			t.Errorf("who was held got %s", got)
		}
	}
}

// single is live: of two that a probe finds fit one gets sessions, or none, and
// everything says so.
func TestSingleKeyIsLive(t *testing.T) {
	t.Parallel()
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	text := func(keys string, ids ...string) string {
		backends := map[string]string{"A": "A=" + a.Addr, "B": "B=" + b.Addr}
		var list []string
		for _, id := range ids {
			list = append(list, backends[id])
		}
		return head + frontendText("web", free, "p") + poolText("p", keys, list...)
	}
	d := startDaemon(t, text("", "A", "B"))
	address := d.frontend("web").Listen
	d.awaitState("p", "A", "up")
	d.awaitState("p", "B", "up")
	if names := turns(t, address, 4); !strings.Contains(names, "A") || !strings.Contains(names, "B") {
		t.Errorf("without the key: %s", names)
	}
	eventually(t, "both were probed", func() bool { return d.backend("p", "A").Health == "up" && d.backend("p", "B").Health == "up" })
	eventually(t, "four sessions are logged", func() bool { return len(d.lines("session")) == 4 })
	d.mustReload(text("single = true", "A", "B"))
	if line := d.refusedWith(address); line["cause"] != "no_backend" {
		t.Errorf("with two that claim to be the one: %v", line)
	}
	if st := d.pool("p"); !slices.Equal(st.Conflict, []string{"A", "B"}) || st.Backends[0].KeptOut == "" {
		t.Errorf("status %+v", st)
	}
	if lines := d.lines("several backends claim to be the only one"); len(lines) != 1 || lines[0]["level"] != "warn" {
		t.Errorf("the log has %v", lines)
	}
	if _, metrics := d.ask("GET", "/metrics", ""); !strings.Contains(metrics, "sluice_pool_conflict{pool=\"p\"} 1\n") {
		t.Error("the metrics do not say it")
	}
	if status, body := d.ask("PATCH", "/backends/A", `{"state": "drain"}`); status != http.StatusOK {
		t.Fatalf("got %d: %s", status, body)
	}
	if names := turns(t, address, 3); names != "BBB" {
		t.Errorf("with one that is drained: %s", names)
	}
	d.ask("PATCH", "/backends/A", `{"state": "ready"}`)
	if names := turns(t, address, 3); names != "BBB" {
		t.Errorf("the one that was it before has %s", names)
	}
	d.mustReload(text("single = true", "A"))
	if names := turns(t, address, 3); names != "AAA" {
		t.Errorf("with one left: %s", names)
	}
	if lines := d.lines("conflict is over"); len(lines) == 0 {
		t.Error("the log does not say that it is over")
	}
}

// Requests through /proxy are held as sessions are, unless a backend may have
// acted on them.
func TestProxyIsHeld(t *testing.T) {
	t.Parallel()
	a := sayName(t, "A")
	d := startDaemon(t, head+frontendText("web", free, "p")+
		poolText("p", "queue_max = 5\nhold_timeout = \"1h\"\n", "A="+a.Addr+"\nweight = 0"))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if status, body := d.ask("GET", "/proxy/", ""); status != http.StatusOK {
				t.Errorf("who was held got %d: %s", status, body)
			}
		})
	}
	eventually(t, "two are held", func() bool { return d.pool("p").Held == 2 })
	d.ask("PATCH", "/backends/A", `{"weight": 1}`)
	wg.Wait()
	a.Stop()
	mute := l4test.Serve(t, l4test.Tag("no HTTP\r\n"))
	d.mustReload(head + frontendText("web", free, "p") +
		poolText("p", "queue_max = 5\nhold_timeout = \"1h\"\n", "B="+mute.Addr))
	if status, body := d.ask("GET", "/proxy/", ""); status != http.StatusBadGateway {
		t.Errorf("a backend that may have acted: got %d: %s", status, body)
	}
}

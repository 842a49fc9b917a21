//go:build unix

package main

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
)

func TestStartSaysWhatRuns(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	d := startDaemon(t, head+
		frontendText("one", free, "p")+frontendText("two", free, "p")+
		poolText("p", "", "A="+a.Addr)+poolText("spare", "", "A="+a.Addr))
	for i, name := range []string{"one", "two"} {
		line := d.lines("listening")[i]
		if line["frontend"] != name || line["address"] != d.frontend(name).Listen {
			t.Errorf("got line %v, want frontend %s on %s", line, name, d.frontend(name).Listen)
		}
		if got, err := visit(d.frontend(name).Listen); got != "A" || err != nil {
			t.Errorf("visit of %s: got %q, %v", name, got, err)
		}
	}
	started := d.lines("started")[0]
	for _, field := range []string{"version", "engine", "generation", "limit", "reason"} {
		if started[field] == nil || started[field] == "" {
			t.Errorf("the line has no %s: %v", field, started)
		}
	}
	if warnings := fmt.Sprint(d.lines("configuration")); !strings.Contains(warnings, "no frontend uses it") {
		t.Errorf("got warnings %s", warnings)
	}
	if _, body := d.ask("GET", "/status", ""); !strings.Contains(body, `"log_dropped":0`) {
		t.Errorf("status does not tell of dropped lines: %s", body)
	}
	engine := "copy"
	if runtime.GOOS == "linux" {
		engine = "epoll"
	}
	if v := d.view(); v.Generation != 1 || v.Engine != engine {
		t.Errorf("got generation %d, engine %q", v.Generation, v.Engine)
	}
}

// B067: a backend that is down, or whose name is unknown, does not keep the
// balancer from starting.
func TestStartWithBackendsDown(t *testing.T) {
	t.Parallel()
	up := l4test.Serve(t, l4test.Tag("up"))
	began := time.Now()
	d := startDaemon(t, head+
		frontendText("web", free, "p", `connect_timeout = "200ms"`)+
		poolText("p", "", "refuse="+l4test.Refuse(t), "nowhere=nowhere.invalid:80", "up="+up.Addr))
	// The race detector makes the start of the process slow.
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the start took %v", took)
	}
	for range 3 {
		if got, err := visit(d.frontend("web").Listen); got != "up" || err != nil {
			t.Errorf("visit: got %q, %v", got, err)
		}
	}
	d.awaitState("p", "refuse", "down")
}

// B066: what is known of a backend survives a reload of something else.
func TestReloadKeepsHealth(t *testing.T) {
	t.Parallel()
	b := l4test.Serve(t, l4test.Tag("B"))
	pool := poolText("p", "", "A="+l4test.Refuse(t), "B="+b.Addr)
	d := startDaemon(t, head+frontendText("web", free, "p")+pool)
	d.awaitState("p", "A", "down")
	address, before := d.frontend("web").Listen, d.backend("p", "A")

	load := startLoad(address, 2)
	for _, idle := range []string{"1m", "2m", "3m", "4m"} {
		d.mustReload(head + frontendText("web", free, "p", `idle_timeout = "`+idle+`"`) + pool)
	}
	load.stop(t)

	after := d.backend("p", "A")
	if after.DialFailures != before.DialFailures || after.State != "down" {
		t.Errorf("a reload sent sessions to a backend that is down: before %+v, after %+v", before, after)
	}
	if !after.LastChange.At.Equal(before.LastChange.At) {
		t.Errorf("down since %v became %v", before.LastChange.At, after.LastChange.At)
	}
}

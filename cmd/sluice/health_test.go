//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"sluice/l4/l4test"
)

// probedPool is poolText with keys of [pool.health] before those that it sets.
func probedPool(keys, health string, backends ...string) string {
	return strings.Replace(poolText("p", keys, backends...), "[pool.health]\n", "[pool.health]\n"+health+"\n", 1)
}

// B057: probes that time out take out even the last backend, but they end no
// session; all_down = "try" keeps the service up.
func TestProbesTimeOut(t *testing.T) {
	for allDown, served := range map[string]bool{"refuse": false, "try": true} {
		t.Run(allDown, func(t *testing.T) {
			t.Parallel()
			a := l4test.Serve(t, l4test.Tag("A"))
			host, port, _ := net.SplitHostPort(l4test.Hole(t))
			text := func(health string) string {
				return head + frontendText("web", free, "p") +
					probedPool(fmt.Sprintf("all_down = %q", allDown), "timeout = \"100ms\"\nfall = 2\n"+health, "A="+a.Addr)
			}
			d := startDaemon(t, text(""))
			d.awaitState("p", "A", "up")
			session, _ := open(t, d.frontend("web").Listen)
			d.mustReload(text(fmt.Sprintf("address = %q\nport = %s", host, port)))
			d.awaitState("p", "A", "down")
			if got := d.backend("p", "A").LastChange.Reason; !strings.Contains(got, "2 probes in a row failed") || !strings.Contains(got, "timeout") {
				t.Errorf("got reason %q", got)
			}
			if name, err := visit(d.frontend("web").Listen); (err == nil) != served {
				t.Errorf("a new client: got %q, %v", name, err)
			}
			echoes(t, session)
		})
	}
}

// B061: whatever changes a backend, the log and the status say what it was.
func TestEveryTransitionHasEvidence(t *testing.T) {
	t.Parallel()
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	dead := l4test.Refuse(t)
	text := func(backends ...string) string {
		return head + frontendText("web", free, "p") + probedPool("max_failures = 1", "init = \"probe\"", backends...)
	}
	d := startDaemon(t, text("A="+a.Addr, "B="+b.Addr, "C="+dead))
	reason := func(id, state, part string) {
		t.Helper()
		d.awaitState("p", id, state)
		if got := d.backend("p", id).LastChange.Reason; !strings.Contains(got, part) {
			t.Errorf("%s is %s: got reason %q, want %q in it", id, state, got, part)
		}
	}
	reason("A", "up", "first probe passed")
	reason("C", "down", "first probe failed: dial "+dead)
	for _, state := range []string{"drain", "maint", "ready"} {
		if status, body := d.ask("PATCH", "/backends/A", fmt.Sprintf(`{"state": %q}`, state)); status != http.StatusOK {
			t.Fatalf("PATCH: %d %s", status, body)
		}
		reason("A", map[string]string{"ready": "up"}[state]+strings.TrimPrefix(state, "ready"), "set to "+state+" by the API")
	}
	b.Stop()
	reason("B", "down", "connection refused")
	d.mustReload(text("A="+a.Addr, "C="+dead))
	if !strings.Contains(d.out.String(), `"backend":"C","address":"`+dead+`","from":"down","to":"down","reason":"first probe failed`) {
		t.Error("the log does not say why C is down")
	}
	for _, id := range []string{"A", "B", "C"} {
		for _, state := range []string{"up", "down", "removed"} {
			for _, line := range d.lines("backend " + state) {
				if line["backend"] == id && (line["reason"] == "" || line["reason"] == nil) {
					t.Errorf("no reason: %v", line)
				}
			}
		}
	}
	d.await("the removal", "backend removed")
	if line := d.lines("backend removed")[0]; line["reason"] != "removed from the file" {
		t.Errorf("got %v", line)
	}
}

// B064: backends that are restarted one after the other are out only while they
// are away, and have traffic afterwards.
func TestRestartsInTurn(t *testing.T) {
	t.Parallel()
	var servers []*l4test.Backend
	var named []string
	for i := range 3 {
		servers = append(servers, l4test.Serve(t, l4test.Tag(fmt.Sprint("b", i))))
		named = append(named, fmt.Sprintf("b%d=%s", i, servers[i].Addr))
	}
	d := startDaemon(t, head+frontendText("web", free, "p")+probedPool("max_failures = 1", "fall = 1", named...))
	const clients = 2
	load := startLoad(d.frontend("web").Listen, clients)
	for i, s := range servers {
		id := fmt.Sprint("b", i)
		s.Stop()
		d.awaitState("p", id, "down")
		for j := range servers {
			if other := fmt.Sprint("b", j); other != id && d.backend("p", other).State != "up" {
				t.Errorf("%s is out while %s restarts: %+v", other, id, d.backend("p", other).LastChange)
			}
		}
		l4test.ServeAt(t, s.Addr, l4test.Tag(id))
		d.awaitState("p", id, "up")
		before := d.backend("p", id).Total
		eventually(t, id+" has traffic again", func() bool { return d.backend("p", id).Total > before+5 })
	}
	if failures := load.end(); len(failures) > len(servers)*clients {
		t.Errorf("%d visits failed, more than were there when a server stopped; the first: %v", len(failures), failures[0])
	}
}

// B077: a backend that takes no new connection is down, though the open ones work.
func TestProbesAreNewConnections(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				l4test.Tag("A")(c.(*net.TCPConn))
			}()
		}
	}()
	d := startDaemon(t, head+frontendText("web", free, "p")+probedPool("", "fall = 2", "A="+ln.Addr().String()))
	session, _ := open(t, d.frontend("web").Listen)
	ln.Close()
	d.awaitState("p", "A", "down")
	echoes(t, session)
}

// B079: a backend that joins is probed at once, whoever brings it, and used as
// soon as it has passed; with slow_start only for a part of its share.
func TestNewBackendIsProbedAtOnce(t *testing.T) {
	t.Parallel()
	a, b, c := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B")), l4test.Serve(t, l4test.Tag("C"))
	text := func(backends ...string) string {
		pool := probedPool("slow_start = \"1h\"", "init = \"probe\"", backends...)
		return head + frontendText("web", free, "p") + strings.Replace(pool, `interval = "100ms"`, `interval = "1h"`, 1)
	}
	d := startDaemon(t, text("A="+a.Addr))
	d.awaitState("p", "A", "up")
	d.mustReload(text("A="+a.Addr, "B="+b.Addr))
	d.awaitState("p", "B", "up")
	if status, body := d.ask("POST", "/backends", fmt.Sprintf(`{"id": "C", "address": %q}`, c.Addr)); status != http.StatusCreated {
		t.Fatalf("POST: %d %s", status, body)
	}
	d.awaitState("p", "C", "up")
	seen := map[string]int{}
	for range 36 {
		name, err := visit(d.frontend("web").Listen)
		if err != nil {
			t.Fatal(err)
		}
		seen[name]++
	}
	if seen["A"] != 32 || seen["B"] != 2 || seen["C"] != 2 {
		t.Errorf("got %v, want a sixteenth of A's share for each of the others", seen)
	}
	if s := d.backend("p", "B"); !s.Starting || s.Effective != 1./16 {
		t.Errorf("got %+v", s)
	}
	d.mustReload(strings.Replace(text("A="+a.Addr, "B="+b.Addr), "slow_start = \"1h\"", "", 1))
	if s := d.backend("p", "B"); s.Starting || s.Effective != 1 {
		t.Errorf("without slow_start: got %+v", s)
	}
}

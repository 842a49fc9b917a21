//go:build unix

package main

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// onDaemons runs a test over every engine, each as part of the process table of
// a configuration.
func onDaemons(t *testing.T, test func(t *testing.T, process string)) {
	t.Parallel()
	engines := []string{"copy"}
	if runtime.GOOS == "linux" {
		engines = append(engines, "epoll")
	}
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			test(t, fmt.Sprintf("[process]\nengine = %q\n", engine))
		})
	}
}

// B141: what a session moved is told while it runs, both ways, and so is that it
// runs.
func TestMetricsMoveWhileASessionLives(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		a := l4test.Serve(t, l4test.Tag("A"))
		d := startDaemon(t, head+process+frontendText("web", free, "p")+poolText("p", "", "A="+a.Addr))
		c, _ := open(t, d.frontend("web").Listen)
		const question = len("still there\n")
		for round := range 3 {
			echoes(t, c)
			eventually(t, "the bytes are told", func() bool {
				s := d.scrape()
				return s.of("sluice_backend_bytes_total", `"to_backend"`) == float64((round+1)*question) &&
					s.of("sluice_backend_bytes_total", `"to_client"`) == float64((round+1)*question+len("A\n"))
			})
		}
		s := d.scrape()
		for _, name := range []string{"sluice_process_sessions_active", "sluice_frontend_sessions_active", "sluice_backend_sessions_active"} {
			if got := s.of(name); got != 1 {
				t.Errorf("%s: got %v, want 1", name, got)
			}
		}
		if n := s.of("sluice_frontend_sessions_total"); n != 0 {
			t.Errorf("%v sessions have ended, want none", n)
		}
		c.Close()
		eventually(t, "the end is told", func() bool { return d.scrape().of("sluice_frontend_sessions_total", `"client_closed"`) == 1 })
	})
}

// watch checks what holds for any two scrapes of one process.
type watch struct {
	t    *testing.T
	last map[string]float64 // counters, by series, of those that vanished too
}

func (w *watch) see(s *scrape) {
	w.t.Helper()
	for series, v := range s.gauges() {
		if v < 0 {
			w.t.Errorf("%s is %v", series, v)
		}
	}
	now := s.counters()
	for series, v := range now {
		if v < w.last[series] {
			w.t.Errorf("%s went from %v back to %v", series, w.last[series], v)
		}
	}
	maps.Copy(w.last, now)
}

// B142: no gauge is ever negative and no counter goes back, whatever clients do,
// while the API and reloads change everything; and in the end nothing is left.
func TestMetricsUnderChurn(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		backends := map[string]string{
			"A": l4test.Serve(t, l4test.Tag("A")).Addr, "B": l4test.Serve(t, l4test.Tag("B")).Addr,
			"C": l4test.Serve(t, l4test.Tag("C")).Addr, "X": l4test.Serve(t, l4test.Reset).Addr, "R": l4test.Refuse(t),
		}
		text := head + process + frontendText("web", free, "p") + frontendText("few", free, "p", "max_sessions = 2") +
			frontendText("bad", free, "x") + frontendText("gone", free, "x") +
			poolText("p", "", "A="+backends["A"], "B="+backends["B"]+"\nmax_sessions = 3", "R="+backends["R"]) +
			poolText("x", "max_failures = 0", "X="+backends["X"])
		d := startDaemon(t, strings.Replace(text, "[log]\n", "[log]\naccess = \"off\"\n", 1))
		var clients sync.WaitGroup
		for i, name := range []string{"web", "web", "few", "few", "few", "bad", "gone", "web"} {
			address := d.frontend(name).Listen
			clients.Go(func() { misbehave(address, i) })
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			clients.Wait()
		}()
		w := watch{t, map[string]float64{}}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for step, over := 0, false; !over || step < 24; step++ {
			churn(d, text, backends["C"], step)
			w.see(d.scrape())
			select {
			case <-done:
				over = true
			case <-tick.C:
			}
		}
		wantQuiet(d, &w)
	})
}

// misbehave is a client that ends its sessions in every way that there is.
func misbehave(address string, seed int) {
	for i := range 50 {
		c, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			continue
		}
		c.SetDeadline(time.Now().Add(patience))
		tcp := c.(*net.TCPConn)
		switch (i + seed) % 5 {
		case 0:
			l4test.Abort(tcp)
		case 1:
			io.WriteString(c, "half\n")
			tcp.CloseWrite()
			io.Copy(io.Discard, c)
		case 2:
			io.WriteString(c, "whole\n")
			readLine(c)
		case 3:
			io.WriteString(c, "torn\n")
			readLine(c)
			l4test.Abort(tcp)
		}
		c.Close()
	}
}

// churn is one change by the API or a reload, a round of which comes back to
// where it began.
func churn(d *daemon, text, address string, step int) {
	d.t.Helper()
	steps := []func() (int, string){
		func() (int, string) {
			return d.ask("POST", "/backends", fmt.Sprintf(`{"pool": "p", "id": "C", "address": %q}`, address))
		},
		func() (int, string) { return d.ask("PATCH", "/backends/A?pool=p", `{"state": "drain"}`) },
		func() (int, string) { return d.ask("PATCH", "/backends/B?pool=p", `{"weight": 0}`) },
		func() (int, string) {
			less := strings.Replace(text, frontendText("gone", free, "x"), "", 1)
			d.write(strings.Replace(less, "attempts", "# attempts", 1))
			return d.ask("POST", "/reload", "")
		},
		func() (int, string) { return d.ask("PATCH", "/backends/A?pool=p", `{"state": "ready"}`) },
		func() (int, string) { return d.ask("PATCH", "/backends/B?pool=p", `{"weight": 1}`) },
		func() (int, string) {
			d.write(text)
			return d.ask("POST", "/reload", "")
		},
		func() (int, string) { return d.ask("DELETE", "/backends/C?pool=p", "") },
	}
	if status, answer := steps[step%len(steps)](); status >= 300 {
		d.t.Errorf("step %d: got %d: %s", step%len(steps), status, answer)
	}
}

// wantQuiet waits until nothing runs, and then wants every session counted.
func wantQuiet(d *daemon, w *watch) {
	d.t.Helper()
	gauges := []string{
		"sluice_process_sessions_active", "sluice_frontend_sessions_active", "sluice_frontend_half_closed",
		"sluice_backend_sessions_active", "sluice_pool_queue_length",
	}
	for _, name := range gauges {
		eventually(d.t, name+" is 0", func() bool { return d.scrape().of(name) == 0 })
	}
	s := d.scrape()
	w.see(s)
	for _, f := range d.view().Frontends {
		pair := fmt.Sprintf("frontend=%q", f.Name)
		ended, timed := s.of("sluice_frontend_sessions_total", pair), s.of("sluice_session_seconds_count", pair)
		if ended != float64(f.Total) || timed != ended {
			d.t.Errorf("%s: %v sessions began, %v ended, of %v the duration is told", f.Name, f.Total, ended, timed)
		}
	}
	for _, line := range d.lines("") {
		if line["level"] == "error" {
			d.t.Errorf("an error line: %v", line) // B146
		}
	}
}

// B144: neither backends that come and go nor what clients ask for leaves a
// series behind.
func TestMetricsDoNotGrowWithChurn(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		a := l4test.Serve(t, l4test.Tag("A"))
		d := startDaemon(t, head+process+frontendText("web", free, "p")+poolText("p", "max_failures = 0"))
		listen := d.frontend("web").Listen
		before := d.scrape()
		const n = 200
		for i := range n {
			id := fmt.Sprintf("c%d", i)
			if status, answer := d.ask("POST", "/backends", fmt.Sprintf(`{"id": %q, "address": %q}`, id, a.Addr)); status != http.StatusCreated {
				t.Fatalf("got %d: %s", status, answer)
			}
			if name, err := visit(listen); name != "A" || err != nil {
				t.Fatalf("a client got %q, %v", name, err)
			}
			d.ask("GET", "/proxy/"+id, "")
			if s := d.scrape(); i == 0 && s.series["sluice_backend_up"] == nil {
				t.Error("a backend is not told of while it is there")
			}
			d.ask("DELETE", "/backends/"+id, "")
		}
		eventually(t, "all sessions have ended", func() bool { return d.scrape().of("sluice_frontend_sessions_active") == 0 })
		after := d.scrape()
		// Of what the process says of itself some series come with the first event.
		for name := range after.series {
			if strings.HasPrefix(name, "sluice_") && len(after.series[name]) != len(before.series[name]) {
				t.Errorf("%s: %d series, and %d after %d backends", name, len(before.series[name]), len(after.series[name]), n)
			}
		}
		if len(after.text) > len(before.text)*105/100 {
			t.Errorf("a scrape grew from %d to %d bytes", len(before.text), len(after.text))
		}
	})
}

// What a reload did, good or bad, is told, and none sets a counter back.
func TestMetricsTellOfReloads(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	if _, err := visit(d.frontend("web").Listen); err != nil {
		t.Fatal(err)
	}
	w := watch{t, map[string]float64{}}
	check := func(what string, successful, generation float64) (at float64) {
		t.Helper()
		s := d.scrape()
		w.see(s)
		if got := s.of("sluice_config_last_reload_successful"); got != successful {
			t.Errorf("%s: successful is %v, want %v", what, got, successful)
		}
		if got := s.of("sluice_config_generation"); got != generation {
			t.Errorf("%s: got generation %v, want %v", what, got, generation)
		}
		return s.of("sluice_config_last_reload_timestamp_seconds")
	}
	start := check("the start", 1, 1)
	d.reload("nonsense")
	broken := check("a broken file", 0, 1)
	d.mustReload(strings.Replace(good, `pool = "p"`, "pool = \"p\"\nattempts = 2", 1))
	mended := check("a good file", 1, 2)
	if start <= 0 || broken < start || mended < broken {
		t.Errorf("got times %v, %v and %v, want them in order", start, broken, mended)
	}
}

// What a reload removed is told of until its last session has ended, and goes on
// from where it was if it comes back.
func TestMetricsOfWhatAReloadRemoved(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
		stays := head + process + frontendText("web", free, "p") + poolText("p", "", "A="+a.Addr)
		goes := stays + frontendText("old", free, "q") + poolText("q", "", "B="+b.Addr)
		d := startDaemon(t, goes)
		c, _ := open(t, d.frontend("old").Listen)
		d.mustReload(stays)
		w := watch{t, map[string]float64{}}
		echoes(t, c)
		eventually(t, "its bytes are told", func() bool {
			return d.scrape().of("sluice_backend_bytes_total", `"to_backend"`, `"q"`) == float64(len("still there\n"))
		})
		s := d.scrape()
		w.see(s)
		if f, b := s.of("sluice_frontend_sessions_active", `"old"`), s.of("sluice_backend_sessions_active", `"q"`); f != 1 || b != 1 {
			t.Errorf("got %v sessions of the frontend and %v of the backend, want 1", f, b)
		}
		if s.of("sluice_backend_draining", `"q"`) != 1 || strings.Contains(s.text, `eligible{pool="q"}`) {
			t.Error("the pool is not told of as one that was removed")
		}
		c.Close()
		eventually(t, "they vanish", func() bool {
			text := d.scrape().text
			return !strings.Contains(text, `"old"`) && !strings.Contains(text, `"q"`)
		})
		d.mustReload(goes)
		s = d.scrape()
		w.see(s)
		if n := s.of("sluice_frontend_sessions_total", `"old"`); n != 1 {
			t.Errorf("back again, %v of its sessions have ended, want 1", n)
		}
	})
}

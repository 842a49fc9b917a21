//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/pool"
)

// resets takes a connection and resets it at once.
func resets(c *net.TCPConn) { c.SetLinger(0) }

// hangsUp reads a line and closes without a word.
func hangsUp(c *net.TCPConn) { bufio.NewReader(c).ReadString('\n') }

// resetsLater greets, and resets after a moment.
func resetsLater(c *net.TCPConn) {
	io.WriteString(c, "B\n")
	<-time.After(20 * time.Millisecond)
	c.SetLinger(0)
}

// quickly are the keys of [pool.outliers] that make it fast. So few dials take long
// on a busy machine, whosever they are.
const quickly = "detect = true\ninterval = \"100ms\"\nmin_sessions = 2\ndial_factor = 0\neject_for = \"1h\"\neject_max = \"2h\"\n"

// outlierText is a pool of A, which is well, and B, with these keys of
// [pool.outliers], of which a later one replaces an earlier one.
func outlierText(process, a, b, keys string) string {
	var last []string
	for line := range strings.Lines(quickly + keys) {
		key, _, _ := strings.Cut(line, " ")
		for i, before := range last {
			if strings.HasPrefix(before, key+" ") {
				last = append(last[:i], last[i+1:]...)
				break
			}
		}
		last = append(last, strings.TrimSpace(line))
	}
	return process + head + frontendText("web", free, "p", `connect_timeout = "50ms"`) +
		strings.Replace(unprobed("p", "max_failures = 0", "A="+a, "B="+b), "[pool.health]\n",
			"[pool.outliers]\n"+strings.Join(last, "\n")+"\n[pool.health]\n", 1)
}

// isEjected reports whether B is.
func (d *daemon) isEjected() bool { return !d.backend("p", "B").EjectedUntil.IsZero() }

// enough waits until B has had so much trouble that it would be ejected if that
// counted.
func (d *daemon) enough() {
	d.t.Helper()
	sum := func(b pool.BackendStatus) int64 { return b.Total + b.DialFailures }
	before := sum(d.backend("p", "B"))
	eventually(d.t, "B has had many sessions", func() bool { return sum(d.backend("p", "B")) >= before+60 })
}

// Each key of [pool.outliers] decides, by a reload, whether a backend is ejected
// that resets its sessions, closes them without a byte, or lets dials hang.
func TestOutlierKeysAreLive(t *testing.T) {
	hole := "HOLE"
	habits := map[string]func(*net.TCPConn){"resets": resets, "hangs up": hangsUp, "resets later": resetsLater}
	onDaemons(t, func(t *testing.T, process string) {
		for _, c := range []struct{ key, b, no, yes, reason string }{
			{"detect", "resets", "detect = false", "detect = true", " reset early, 0 empty) where "},
			{"interval", "resets", `interval = "24h"`, `interval = "101ms"`, "sessions failed in 101ms"},
			{"min_sessions", "hangs up", "min_sessions = 1000000", "min_sessions = 2", "(0 reset early, "},
			{"failure_share", "hangs up", "failure_share = 0", "failure_share = 50", "usual among the others is 0%"},
			{"early", "resets later", `early = "1ms"`, `early = "10s"`, " reset early, 0 empty)"},
			{"dial_factor", hole, "dial_factor = 0", "dial_factor = 5", " dials in 100ms took "},
			{"max_ejected", "resets", "max_ejected = 0", "max_ejected = 1", "ejected for 1h0m0s"},
		} {
			t.Run(c.key, func(t *testing.T) {
				t.Parallel()
				a := l4test.Serve(t, l4test.Tag("A")).Addr
				var b string
				if c.b == hole {
					b = l4test.Hole(t)
				} else {
					b = l4test.Serve(t, habits[c.b]).Addr
				}
				d := startDaemon(t, outlierText(process, a, b, c.no))
				load := startLoad(d.frontend("web").Listen, 2)
				defer load.end()
				d.enough()
				if d.isEjected() {
					t.Fatalf("with %s B is ejected: %+v", c.no, d.backend("p", "B").LastChange)
				}
				if got := d.mustReload(outlierText(process, a, b, c.yes)); len(got) != 1 || !strings.Contains(got[0], "outliers."+c.key) {
					t.Errorf("the reload changed %q", got)
				}
				eventually(t, "B is ejected", d.isEjected)
				is := d.backend("p", "B")
				if is.State != "down" || is.Ejections != 1 || !strings.Contains(is.LastChange.Reason, c.reason) {
					t.Errorf("got %+v, want %q as the reason", is, c.reason)
				}
				d.await("the line", "backend down")
				if line := d.lines("backend down"); len(line) != 1 || line[0]["reason"] != is.LastChange.Reason || line[0]["level"] != "warn" {
					t.Errorf("the log says %v", line)
				}
				if name, err := visit(d.frontend("web").Listen); name != "A" {
					t.Errorf("a new client got %q, %v", name, err)
				}
			})
		}
	})
}

// How long an ejection lasts: each time in a row longer, up to the most, and until
// an operator lets the backend back in, or the detection is switched off.
func TestEjectionKeysAreLive(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		a, b := l4test.Serve(t, l4test.Tag("A")).Addr, l4test.Serve(t, resets).Addr
		text := func(keys string) string { return outlierText(process, a, b, keys) }
		d := startDaemon(t, text("eject_for = \"20ms\"\neject_max = \"20ms\""))
		load := startLoad(d.frontend("web").Listen, 2)
		defer load.end()
		eventually(t, "four ejections", func() bool { return d.backend("p", "B").Ejections >= 4 })
		for _, line := range d.lines("backend down") {
			if reason, _ := line["reason"].(string); !strings.Contains(reason, "; ejected for 20ms") {
				t.Errorf("with eject_max as long as eject_for: %s", reason)
			}
		}
		said := func(text string) func() bool {
			return func() bool { return strings.Contains(d.out.String(), text) }
		}
		d.mustReload(text("eject_for = \"20ms\"\neject_max = \"1h\""))
		eventually(t, "the time grows", said("; ejected for 60ms, since it is the 3rd time in a row"))
		d.mustReload(text("eject_for = \"1h\"\neject_max = \"1h\""))
		eventually(t, "the time is an hour", said("; ejected for 1h0m0s"))

		let := func(body string) (int, string) { return d.ask("PATCH", "/backends/B?pool=p", body) }
		if status, body := let(`{"ejected": true}`); status != http.StatusBadRequest || !strings.Contains(body, "must be false") {
			t.Errorf("to eject by the API: got %d %s", status, body)
		}
		if status, body := let(`{"ejected": false}`); status != http.StatusOK || !strings.Contains(body, `"state":"up"`) {
			t.Errorf("to let it back in: got %d %s", status, body)
		}
		d.await("the line of the change", "backend changed")
		if line := d.lines("backend changed"); len(line) != 1 || line[0]["change"] != "ejected true -\u003e false" {
			t.Errorf("the log says %v", line)
		}
		eventually(t, "it is ejected again", d.isEjected)
		if got := d.backend("p", "B").LastChange.Reason; strings.Contains(got, "in a row") {
			t.Errorf("got reason %q, though it was let back in", got)
		}
		s := d.scrape()
		if s.of("sluice_backend_ejected", `"B"`) != 1 || s.of("sluice_backend_ejected", `"A"`) != 0 ||
			s.of("sluice_backend_ejections_total", `"B"`) < 6 || s.of("sluice_backend_failed_sessions_total", `"B"`, `"early_reset"`) < 6 {
			t.Error("the metrics do not say so")
		}
		d.mustReload(text("detect = false"))
		if is := d.backend("p", "B"); is.State != "up" || is.LastChange.Reason != "the detection of outliers was switched off" {
			t.Errorf("without detection: got %+v", is)
		}
	})
}

// Clients that connect and leave are nobody's failure, however they leave.
func TestLookersCountNothing(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		servers := map[string]func(*net.TCPConn){"echo": l4test.Echo, "tag": l4test.Tag("A"), "sink": l4test.Sink, "reset": l4test.Reset}
		text := process + head
		for name, habit := range servers {
			text += frontendText(name, free, name) + unprobed(name, "", "A="+l4test.Serve(t, habit).Addr)
		}
		d := startDaemon(t, text)
		const n = 20
		for name := range servers {
			for i := range n {
				c, err := net.Dial("tcp", d.frontend(name).Listen)
				if err != nil {
					t.Fatal(err)
				}
				switch i % 3 {
				case 0:
					c.(*net.TCPConn).SetLinger(0)
				case 1: // once it is served; the others may be gone before
					eventually(t, "it has a backend", func() bool { return d.frontend(name).Active > 0 && d.backend(name, "A").Active > 0 })
				}
				c.Close()
			}
		}
		for name := range servers {
			eventually(t, "all have ended", func() bool { return d.frontend(name).Active == 0 && d.frontend(name).Total >= n })
			if is := d.backend(name, "A"); is.EarlyResets != 0 || is.Empty != 0 {
				t.Errorf("%s: got %d early resets and %d empty sessions of %d", name, is.EarlyResets, is.Empty, is.Total)
			}
		}
	})
}

// Where all backends do the same nobody is ejected.
func TestAllAreBad(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		d := startDaemon(t, outlierText(process, l4test.Serve(t, resets).Addr, l4test.Serve(t, resets).Addr,
			"interval = \"500ms\"\nmin_sessions = 20"))
		load := startLoad(d.frontend("web").Listen, 2)
		defer load.end()
		for range 3 {
			d.enough()
		}
		for _, b := range d.view().Pools[0].Backends {
			if b.State != "up" || b.EarlyResets == 0 {
				t.Errorf("got %+v", b)
			}
		}
	})
}

// A pool with fewer up than the threshold uses all, says so, and ends it.
func TestPanicThresholdIsLive(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
		dead := l4test.Refuse(t)
		text := func(threshold int) string {
			return process + head + frontendText("web", free, "p") +
				probedPool(fmt.Sprintf("all_down = \"try\"\nmax_failures = 0\npanic_threshold = %d", threshold), "fall = 1\nrise = 1",
					"A="+a.Addr, "B="+b.Addr, "C="+dead)
		}
		d := startDaemon(t, text(33))
		b.Stop()
		d.awaitState("p", "B", "down")
		d.awaitState("p", "C", "down")
		is := func(panics bool, eligible int) {
			t.Helper()
			eventually(t, fmt.Sprint("panic: ", panics), func() bool {
				p := d.view().Pools[0]
				return p.Panic == panics && p.Eligible == eligible
			})
			if got := d.scrape().of("sluice_pool_panic"); got != map[bool]float64{true: 1}[panics] {
				t.Errorf("panic %v: the metric is %v", panics, got)
			}
		}
		is(false, 1)
		d.mustReload(text(34))
		is(true, 3)
		d.await("the line", "pool in panic, all backends are used")
		if line := d.lines("pool in panic, all backends are used")[0]; line["pool"] != "p" || line["reason"] != "1 of 3 backends up" || line["level"] != "warn" {
			t.Errorf("got line %v", line)
		}
		l4test.ServeAt(t, b.Addr, l4test.Tag("B"))
		is(false, 2)
		d.await("the line", "pool out of panic")
	})
}

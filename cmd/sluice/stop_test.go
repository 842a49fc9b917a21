//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// draining starts a balancer with that drain timeout in front of a tagged
// backend, with n sessions open.
func draining(t *testing.T, timeout string, n int) (d *daemon, sessions []*net.TCPConn) {
	t.Helper()
	a := l4test.Serve(t, l4test.Tag("A"))
	d = startDaemon(t, head+"[process]\ndrain_timeout = \""+timeout+"\"\n"+
		frontendText("web", free, "p")+poolText("p", "", "A="+a.Addr))
	for range n {
		c, _ := open(t, d.frontend("web").Listen)
		sessions = append(sessions, c)
	}
	return d, sessions
}

// exit returns the exit status once the program has ended.
func (d *daemon) exit() int {
	d.t.Helper()
	select {
	case <-d.done:
	case <-time.After(patience):
		d.t.Fatalf("the program has not ended after %v", patience)
	}
	var failed *exec.ExitError
	if errors.As(d.err, &failed) {
		return failed.ExitCode()
	}
	return 0
}

// tookBetween fails the test unless took lies between least and most.
func tookBetween(t *testing.T, what string, took, least, most time.Duration) {
	t.Helper()
	if took < least || took > most {
		t.Errorf("%s took %v, want %v to %v", what, took, least, most)
	}
}

// B131: sessions that do not end are cut when the drain timeout is over.
func TestStopCutsAtDrainTimeout(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			d, sessions := draining(t, "2s", 10)
			web := d.frontend("web").Listen
			began := time.Now()
			d.signal(sig)
			d.await("the drain", "draining")
			if status, _ := d.ask("GET", "/readyz", ""); status != http.StatusServiceUnavailable {
				t.Errorf("readyz while draining: got %d, want 503", status)
			}
			if status, _ := d.ask("GET", "/healthz", ""); status != http.StatusOK {
				t.Errorf("healthz while draining: got %d, want 200", status)
			}
			eventually(t, "new clients are refused", func() bool { _, err := visit(web); return err != nil })
			echoes(t, sessions[0])
			if status := d.exit(); status != 0 {
				t.Errorf("got exit status %d, want 0", status)
			}
			// The upper bound is for a machine that is busy with other tests.
			tookBetween(t, "the exit", time.Since(began), 1900*time.Millisecond, 12*time.Second)
			if got := d.lines("stopped")[0]["cut"]; got != 10.0 {
				t.Errorf("got cut %v, want 10", got)
			}
			for _, line := range d.lines("session")[:10] {
				if line["cause"] != "shutdown" || line["code"] != "KD" {
					t.Errorf("got line %v, want cause shutdown, code KD", line)
				}
			}
		})
	}
}

// B131: a second signal does not wait.
func TestStopSecondSignal(t *testing.T) {
	t.Parallel()
	d, _ := draining(t, "60s", 10)
	d.signal(syscall.SIGTERM)
	d.await("the drain", "draining")
	began := time.Now()
	eventually(t, "the exit", func() bool {
		_ = d.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
		return d.ended()
	})
	if status := d.exit(); status != 1 {
		t.Errorf("got exit status %d, want 1", status)
	}
	for line := range strings.Lines(d.out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the log is JSON, and has the line %s", line)
		}
	}
	if lines := d.lines("ended by a second signal: sessions were cut"); len(lines) != 1 || lines[0]["level"] != "error" {
		t.Errorf("got lines %v of the second signal, want one of level error", lines)
	}
	// The program needs 50 ms; the rest is for a machine that is busy.
	tookBetween(t, "the exit", time.Since(began), 0, 5*time.Second)
}

// timeout(1) and some supervisors signal a process and then its group: that is
// one order to stop.
func TestStopDoubledSignal(t *testing.T) {
	t.Parallel()
	d, sessions := draining(t, "60s", 1)
	d.signal(syscall.SIGTERM)
	d.signal(syscall.SIGTERM)
	d.await("the drain", "draining")
	echoes(t, sessions[0])
	sessions[0].Close()
	if status := d.exit(); status != 0 {
		t.Errorf("got exit status %d, want 0", status)
	}
}

func TestStopCutsAtOnce(t *testing.T) {
	t.Parallel()
	d, _ := draining(t, "0s", 3)
	began := time.Now()
	d.signal(syscall.SIGTERM)
	if status := d.exit(); status != 0 {
		t.Errorf("got exit status %d, want 0", status)
	}
	tookBetween(t, "the exit", time.Since(began), 0, 10*time.Second)
	if got := d.lines("stopped")[0]["cut"]; got != 3.0 {
		t.Errorf("got cut %v, want 3", got)
	}
}

// The sessions of a frontend that a reload removed count as well.
func TestStopWaitsForRemovedFrontend(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	text := func(name string) string {
		return head + "[process]\ndrain_timeout = \"60s\"\n" + frontendText(name, free, "p") + poolText("p", "", "A="+a.Addr)
	}
	d := startDaemon(t, text("old"))
	session, _ := open(t, d.frontend("old").Listen)
	d.mustReload(text("new"))
	d.signal(syscall.SIGTERM)
	d.await("the drain", "draining")
	echoes(t, session)
	session.Close()
	if status := d.exit(); status != 0 {
		t.Errorf("got exit status %d, want 0", status)
	}
	if got := d.lines("stopped")[0]["cut"]; got != 0.0 {
		t.Errorf("got cut %v, want 0", got)
	}
}

// B132: the drain waits for the last session, and no longer: of TCP, and of an
// upgraded connection through /proxy.
func TestStopWaitsForLastSession(t *testing.T) {
	t.Parallel()
	tcp, web := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, upgrade)
	d := startDaemon(t, head+"[admin.proxy]\npool = \"h\"\n[process]\ndrain_timeout = \"60s\"\n"+
		frontendText("web", free, "p")+poolText("p", "", "A="+tcp.Addr)+poolText("h", "", "W="+web.Addr))
	session, _ := open(t, d.frontend("web").Listen)
	upgraded := openUpgraded(t, d.admin)
	d.signal(syscall.SIGTERM)
	d.await("the drain", "draining")
	for range 10 {
		echoes(t, session)
		echoes(t, upgraded)
	}
	session.CloseWrite()
	if rest, err := io.ReadAll(session); len(rest) != 0 || err != nil {
		t.Errorf("the TCP session ended with %q, %v", rest, err)
	}
	for range 10 {
		echoes(t, upgraded)
	}
	if d.ended() {
		t.Error("the program ended before the last session")
	}
	began := time.Now()
	upgraded.CloseWrite()
	if rest, err := io.ReadAll(upgraded); len(rest) != 0 || err != nil {
		t.Errorf("the upgraded session ended with %q, %v", rest, err)
	}
	upgraded.Close()
	if status := d.exit(); status != 0 {
		t.Errorf("got exit status %d, want 0", status)
	}
	tookBetween(t, "the exit after the last session", time.Since(began), 0, 10*time.Second)
}

// Once the drain begins nobody new gets through /proxy, whatever else still
// runs; a request that is under way is answered, and the API goes on.
func TestStopRefusesNewProxyRequests(t *testing.T) {
	t.Parallel()
	here, goOn := make(chan bool, 1), make(chan bool)
	tcp, web := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, func(c *net.TCPConn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		select {
		case here <- true:
		default: // only the first is waited for
		}
		<-goOn
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole")
	})
	d := startDaemon(t, head+"[admin.proxy]\npool = \"h\"\n[process]\ndrain_timeout = \"60s\"\n"+
		frontendText("web", free, "p")+poolText("p", "", "A="+tcp.Addr)+
		"[[pool]]\nname = \"h\"\n[pool.health]\nprobe = \"none\"\n[[pool.backend]]\naddress = \""+web.Addr+"\"\n")
	session, _ := open(t, d.frontend("web").Listen)
	answers := make(chan string, 1)
	go func() {
		r, err := adminClient.Get("http://" + d.admin + "/proxy/slow")
		if err != nil {
			answers <- err.Error()
			return
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		answers <- fmt.Sprint(string(text), err)
	}()
	<-here
	d.signal(syscall.SIGTERM)
	d.await("the drain", "draining")
	if got := d.lines("draining")[0]["sessions"]; got != 2.0 {
		t.Errorf("draining: got %v sessions, want 2, one of /proxy", got)
	}
	eventually(t, "the refusal", d.refusesProxy)
	if status, body := d.ask("GET", "/status", ""); status != http.StatusOK {
		t.Errorf("status while draining: got %d %s, want 200", status, body)
	}
	echoes(t, session)
	close(goOn)
	if got := <-answers; got != "whole<nil>" {
		t.Errorf("the request under way got %s, want its whole response", got)
	}
	echoes(t, session)
	session.Close()
	if status := d.exit(); status != 0 {
		t.Errorf("got exit status %d, want 0", status)
	}
	if got := d.lines("stopped")[0]["cut"]; got != 0.0 {
		t.Errorf("got cut %v, want 0", got)
	}
}

// refusesProxy reports whether a request through /proxy is told that the program
// shuts down, and to go elsewhere with the next one. One that is not refused is
// given up.
func (d *daemon) refusesProxy() bool {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+d.admin+"/proxy/new", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	a, err := (&http.Transport{}).RoundTrip(r) // adminClient would ask for the close itself
	if err != nil {
		return false
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return err == nil && a.StatusCode == http.StatusServiceUnavailable && a.Close &&
		strings.Contains(string(text), "shutting down")
}

// Sessions and requests through /proxy share one drain timeout.
func TestStopCutsSessionsAndRequestsTogether(t *testing.T) {
	t.Parallel()
	tcp, web := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, upgrade)
	d := startDaemon(t, head+"[admin.proxy]\npool = \"h\"\n[process]\ndrain_timeout = \"2s\"\n"+
		frontendText("web", free, "p")+poolText("p", "", "A="+tcp.Addr)+poolText("h", "", "W="+web.Addr))
	open(t, d.frontend("web").Listen)
	openUpgraded(t, d.admin)
	began := time.Now()
	d.signal(syscall.SIGTERM)
	if status := d.exit(); status != 0 {
		t.Errorf("got exit status %d, want 0", status)
	}
	// The upper bound is for a machine that is busy with other tests.
	tookBetween(t, "the exit", time.Since(began), 1900*time.Millisecond, 12*time.Second)
	if got := d.lines("stopped")[0]["cut"]; got != 2.0 {
		t.Errorf("got cut %v, want 2", got)
	}
}

// upgrade is an HTTP server that switches to an echo.
func upgrade(c *net.TCPConn) {
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	l4test.Echo(c)
}

// openUpgraded opens a connection through /proxy and upgrades it.
func openUpgraded(t *testing.T, admin string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", admin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "GET /proxy/x HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", admin)
	for first := ""; ; {
		line, err := readLine(c)
		if err != nil {
			t.Fatalf("answer to the upgrade: %q, %v", line, err)
		}
		if first == "" {
			first = line
			if first != "HTTP/1.1 101 Switching Protocols\r" {
				t.Fatalf("answer to the upgrade: %q", line)
			}
		}
		if line == "\r" {
			return c.(*net.TCPConn)
		}
	}
}

// B134: a stop in the middle of traffic is as clean as any.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	d, _ := draining(t, "5s", 0)
	load := startLoad(d.frontend("web").Listen, 4)
	eventually(t, "some load", func() bool { return load.visits.Load() > 50 })
	d.signal(syscall.SIGTERM)
	if status := d.exit(); status != 0 {
		t.Errorf("got exit status %d, want 0", status)
	}
	load.end() // once the listener was closed, clients were refused
	if got := d.lines("stopped")[0]["cut"]; got != 0.0 {
		t.Errorf("got cut %v, want 0", got)
	}
}

// A reload that comes too late is told so, and changes nothing.
func TestReloadWhileStopping(t *testing.T) {
	t.Parallel()
	d, sessions := draining(t, "60s", 1)
	d.signal(syscall.SIGTERM)
	d.await("the drain", "draining")
	status, body := d.ask("POST", "/reload", "")
	if status < 400 {
		t.Errorf("got %d %s, want a refusal", status, body)
	}
	d.signal(syscall.SIGHUP)
	echoes(t, sessions[0])
	sessions[0].Close()
	if status := d.exit(); status != 0 {
		t.Errorf("got exit status %d, want 0", status)
	}
}

// B136: before the listeners close an outer balancer can learn of it. All that
// while clients are served, and a second signal ends it at once.
func TestStopPreDrainDelay(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	text := head + "[process]\ndrain_timeout = \"60s\"\npre_drain_delay = \"4s\"\n" + frontendText("web", free, "p") + poolText("p", "", "A="+a.Addr)
	d := startDaemon(t, text)
	web := d.frontend("web").Listen
	held, _ := open(t, web)
	began := time.Now()
	d.signal(syscall.SIGTERM)
	d.await("the drain", "draining")
	for _, path := range []string{"/readyz", "/readyz/web"} {
		if status, body := d.ask("GET", path, ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
			t.Errorf("%s in the delay: got %d %s", path, status, body)
		}
	}
	var status struct {
		Draining bool
		Drain    struct {
			Since, Until time.Time
			Accepts      time.Time `json:"accepts_until"`
			Sessions     int
		}
	}
	_, body := d.ask("GET", "/status", "")
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatal(err)
	}
	if s := status.Drain; !status.Draining || s.Sessions < 1 || s.Accepts.Sub(s.Since) != 4*time.Second || s.Until.Sub(s.Accepts) != time.Minute {
		t.Errorf("status in the delay: %+v", status)
	}
	if status, body := d.ask("POST", "/reload", ""); status != http.StatusUnprocessableEntity || !strings.Contains(body, "draining") {
		t.Errorf("reload in the delay: got %d %s", status, body)
	}
	d.signal(syscall.SIGHUP)
	d.await("the refusal", "reload refused, nothing changed")
	served := 0
	eventually(t, "the listener closes", func() bool {
		tag, err := visit(web)
		if err == nil && tag == "A" {
			served++
		}
		return err != nil
	})
	if took := time.Since(began); served == 0 || took < 4*time.Second {
		t.Errorf("%d clients were served, and the first was refused after %v", served, took)
	}
	echoes(t, held)
	held.Close()
	if status := d.exit(); status != 0 {
		t.Errorf("got exit status %d, want 0", status)
	}
}

func TestStopSecondSignalInTheDelay(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	d := startDaemon(t, head+"[process]\npre_drain_delay = \"60s\"\n"+frontendText("web", free, "p")+poolText("p", "", "A="+a.Addr))
	d.signal(syscall.SIGTERM)
	d.await("the drain", "draining")
	eventually(t, "the exit", func() bool {
		_ = d.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
		return d.ended()
	})
	if status := d.exit(); status != 1 {
		t.Errorf("got exit status %d, want 1", status)
	}
}

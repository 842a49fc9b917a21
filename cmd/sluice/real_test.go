//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/pool"
)

// The tests with real servers run whole programs, and none of them in parallel:
// they would measure each other.

// patience bounds every wait for something that takes milliseconds on a
// machine with nothing else to do. Chosen, not measured.
const patience = 20 * time.Second

// output collects what a process prints. Safe for concurrent use.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process is a program that a test started.
type process struct {
	cmd  *exec.Cmd
	out  output        // standard output and error
	done chan struct{} // closed when it has ended and was waited for
	err  error         // of Wait; read it after done
}

// startProcess starts cmd. What still runs at the end of the test is killed,
// and what it printed is shown if the test failed.
func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s printed:\n%s", filepath.Base(cmd.Path), tail(p.out.String(), 8<<10))
		}
	})
	return p
}

// tail returns the last n bytes of s.
func tail(s string, n int) string {
	if len(s) > n {
		return "...\n" + s[len(s)-n:]
	}
	return s
}

// end sends sig and waits until the process is gone; one that stays for too
// long is killed.
func (p *process) end(sig os.Signal) error {
	if !p.ended() {
		// An error means that it ends at this moment.
		_ = p.cmd.Process.Signal(sig)
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s did not end within %v of %v", filepath.Base(p.cmd.Path), patience, sig)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// eventually waits until f is true; what says what did not come true in time.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	eventuallyIn(t, patience, what, f)
}

// eventuallyIn is eventually for what takes seconds on a machine with nothing else to do.
func eventuallyIn(t *testing.T, bound time.Duration, what string, f func() bool) {
	t.Helper()
	late := time.After(bound)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("after %v: %s has not come true", bound, what)
		}
	}
}

// onFreePort calls start with a port until it finds one free, and returns its
// address. A server of somebody else takes no bound socket, so a port is free
// when the server could bind it. The ports are below those that the system
// gives to connections, so that one stays free while its server restarts.
func onFreePort(t *testing.T, start func(port string) (bound bool)) string {
	t.Helper()
	for range 20 {
		port := fmt.Sprint(10_000 + rand.IntN(20_000))
		if start(port) {
			return net.JoinHostPort("127.0.0.1", port)
		}
	}
	t.Fatal("no free port was found")
	return ""
}

// program returns the path of a program that a package of the system brings.
// Without it the test is skipped.
func program(t *testing.T, name string, elsewhere ...string) string {
	t.Helper()
	for _, pattern := range elsewhere {
		if found, err := filepath.Glob(filepath.Join(pattern, name)); err == nil && len(found) > 0 {
			return found[len(found)-1]
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIPPED: %s is not installed", name)
	}
	return found
}

// sluice is a running balancer of one frontend and one pool.
type sluice struct {
	*daemon
	address string // of the frontend
}

// startSluice starts a balancer in front of backends, with those keys in its
// frontend and its pool. At the end of the test no session may be left, and it
// must shut down as it should.
func startSluice(t *testing.T, frontendKeys, poolKeys string, backends ...string) *sluice {
	t.Helper()
	var named []string
	for i, address := range backends {
		named = append(named, fmt.Sprintf("b%d=%s", i, address))
	}
	b := &sluice{daemon: startDaemon(t, head+frontendText("front", free, "real", frontendKeys)+poolText("real", poolKeys, named...))}
	b.address = b.frontend("front").Listen
	t.Cleanup(func() {
		b.quiet()
		if err := b.end(syscall.SIGTERM); err != nil {
			t.Errorf("sluice ended with %v", err)
		}
	})
	return b
}

// quiet waits until no session is active.
func (b *sluice) quiet() {
	b.t.Helper()
	eventually(b.t, "no session is active", func() bool {
		v := b.view()
		active := v.Frontends[0].Active
		for _, k := range v.Pools[0].Backends {
			active += k.Active
		}
		return active == 0
	})
}

// backend returns the status of the i-th backend.
func (b *sluice) backend(i int) pool.BackendStatus {
	b.t.Helper()
	return b.daemon.backend("real", fmt.Sprintf("b%d", i))
}

// A client that waits for an answer that no backend can give is told so in
// time: it never hangs.
func TestRealAllBackendsDown(t *testing.T) {
	const budget = time.Second
	for name, c := range map[string]struct {
		address func(testing.TB) string
		code    string // of the session
	}{
		"refused": {l4test.Refuse, "SC"},
		"silent":  {l4test.Hole, "sC"},
	} {
		t.Run(name, func(t *testing.T) {
			keys := fmt.Sprintf("connect_timeout = \"400ms\"\ndial_budget = %q", budget)
			b := startSluice(t, keys, "", c.address(t), c.address(t), c.address(t))
			start := time.Now()
			err := askForTLS(b.address)
			took := time.Since(start)
			if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				t.Errorf("got %v, want a reset: nothing may pass for an answer", err)
			}
			// The race detector makes everything slower than the budget allows for.
			if most := budget + 500*time.Millisecond; took > most {
				t.Errorf("it took %v, want at most %v", took, most)
			}
			b.await("the record of the session", "session")
			if r := b.lines("session")[0]; r["code"] != c.code {
				t.Errorf("got record %v, want code %s", r, c.code)
			}
		})
	}
}

// askForTLS begins as a PostgreSQL client does: it asks for TLS, and waits for
// an answer of one byte.
func askForTLS(address string) error {
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

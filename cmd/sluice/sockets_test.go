//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// onFixedPort starts a balancer with a frontend on a port that stays the same
// when it is closed and bound again.
func onFixedPort(t *testing.T, text func(address string) string) (d *daemon, address string) {
	t.Helper()
	address = onFreePort(t, func(port string) bool {
		at := net.JoinHostPort("127.0.0.1", port)
		if ln, err := net.Listen("tcp", at); err != nil {
			return false
		} else {
			ln.Close()
		}
		d = startDaemon(t, text(at))
		return true
	})
	return d, address
}

// listening counts the sockets that listen on a port, as the kernel tells.
func listening(t *testing.T, address string) (n int) {
	t.Helper()
	_, port, _ := net.SplitHostPort(address)
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			t.Skip("SKIPPED: no " + table)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			// Field 3 is the state; 0A is LISTEN.
			if strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", number)) && fields[3] == "0A" {
				n++
			}
		}
	}
	return n
}

// B121: a listener that goes and comes back does so every time, and never has
// two sockets.
func TestReloadListenerComesBack(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	without := head + frontendText("other", free, "p") + poolText("p", "", "A="+a.Addr)
	with := func(at string) string { return without + frontendText("web", at, "p") }
	d, address := onFixedPort(t, with)
	load := startLoad(address, 3)
	for i := range 50 {
		d.mustReload(without)
		// To ask the kernel takes long on a machine with many sockets.
		if i%10 == 0 && listening(t, address) != 0 {
			t.Fatalf("round %d: a socket listens after the removal", i)
		}
		d.mustReload(with(address))
		if i%10 == 0 && listening(t, address) != 1 {
			t.Fatalf("round %d: want one socket that listens", i)
		}
		if got, err := visit(address); got != "A" || err != nil {
			t.Fatalf("round %d: got %q, %v", i, got, err)
		}
	}
	load.end() // while the listener was away, clients were refused
	// The bound is for a machine that is busy: a client that hangs does so for good.
	if slowest := time.Duration(load.slowest.Load()); slowest > patience/2 {
		t.Errorf("a client hung for %v", slowest)
	}
}

// B122: no client notices a reload, whatever it changes, nor one that is refused
// because an address is taken.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	a, b, c := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B")), l4test.Serve(t, l4test.Tag("C"))
	engines := []string{"copy"}
	if runtime.GOOS == "linux" {
		engines = append(engines, "epoll")
	}
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			text := func(i int) string {
				backends := []string{fmt.Sprintf("A=%s\nweight = %d", a.Addr, 1+i%3), "B=" + b.Addr}
				if i%2 == 1 {
					backends[1] = "C=" + c.Addr
				}
				keys := fmt.Sprintf("strategy = %q", []string{"round_robin", "least_connections"}[i/2%2])
				s := fmt.Sprintf("[process]\nengine = %q\n", engine) + terse +
					frontendText("web", free, "p", fmt.Sprintf("idle_timeout = \"%dm\"", 1+i)) + poolText("p", keys, backends...)
				if i%4 == 3 {
					s += frontendText("now-and-then", free, "p")
				}
				return s
			}
			d := startDaemon(t, text(0))
			load := startLoad(d.frontend("web").Listen, 3)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			const reloads, busy = 200, 117
			for i := 1; i <= reloads; i++ {
				<-tick.C
				if i != busy {
					d.mustReload(text(i))
				} else if status, answer := d.reload(text(i) + frontendText("new", a.Addr, "p")); status != http.StatusUnprocessableEntity {
					t.Errorf("a frontend on a busy port: got %d %+v", status, answer)
				}
			}
			load.stop(t)
			if v := d.view(); v.Generation != reloads || v.Engine != engine {
				t.Errorf("got generation %d of engine %s after %d reloads, one of them refused", v.Generation, v.Engine, reloads)
			}
		})
	}
}

// A frontend that moves to another address keeps its counters and sessions.
func TestReloadMovesFrontend(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	text := func(at string) string { return head + frontendText("web", at, "p") + poolText("p", "", "A="+a.Addr) }
	d, old := onFixedPort(t, text)
	session, _ := open(t, old)
	changes := d.mustReload(text(free))
	if len(changes) != 1 || !strings.Contains(changes[0], "frontend web: listen "+old+" -> "+free) {
		t.Errorf("got changes %q", changes)
	}
	f := d.frontend("web")
	if got, err := visit(f.Listen); got != "A" || err != nil || f.Listen == old {
		t.Errorf("visit of %s: got %q, %v", f.Listen, got, err)
	}
	if _, err := visit(old); err == nil {
		t.Errorf("%s still answers", old)
	}
	eventually(t, "1 session active, 2 in total", func() bool {
		f := d.frontend("web")
		return f.Active == 1 && f.Total == 2
	})
	echoes(t, session)
}

// A frontend that gets another name keeps its socket: no client is refused.
func TestReloadRenamesFrontend(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	text := func(name, at string) string {
		return head + frontendText(name, at, "p") + poolText("p", "", "A="+a.Addr)
	}
	d, address := onFixedPort(t, func(at string) string { return text("one", at) })
	session, _ := open(t, address)
	load := startLoad(address, 2)
	for range 5 {
		d.mustReload(text("two", address))
		d.mustReload(text("one", address))
	}
	d.mustReload(text("two", address))
	load.stop(t)
	eventually(t, "the session is all that the old name has", func() bool { return d.frontend("one").Active == 1 })
	if one, two := d.frontend("one"), d.frontend("two"); one.Listen != "" || two.Listen != address {
		t.Errorf("got %+v and %+v, want the address at the new name", one, two)
	}
	echoes(t, session)
	session.Close()
	eventually(t, "the old frontend is gone", func() bool { return !d.has("one") })
}

// Two frontends may swap their addresses.
func TestReloadSwapsAddresses(t *testing.T) {
	t.Parallel()
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	pools := poolText("a", "", "A="+a.Addr) + poolText("b", "", "B="+b.Addr)
	var second string
	d, first := onFixedPort(t, func(at string) string {
		second = strings.Replace(at, "127.0.0.1", "127.0.0.2", 1)
		return head + frontendText("a", at, "a") + frontendText("b", second, "b") + pools
	})
	d.mustReload(head + frontendText("a", second, "a") + frontendText("b", first, "b") + pools)
	for address, want := range map[string]string{first: "B", second: "A"} {
		if got, err := visit(address); got != want || err != nil {
			t.Errorf("visit of %s: got %q, %v, want %s", address, got, err, want)
		}
	}
}

// A removed frontend's sessions stay, and it comes back with its counters.
func TestReloadRemovedFrontendKeepsSessions(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	session, _ := open(t, d.frontend("web").Listen)
	other := strings.Replace(good, `name = "web"`, `name = "other"`, 1)
	d.mustReload(other)
	echoes(t, session)
	if f := d.frontend("web"); f.Active != 1 || f.Listen != "" {
		t.Errorf("got %+v, want 1 session and no address", f)
	}
	d.mustReload(good)
	if f := d.frontend("web"); f.Active != 1 || f.Total != 1 || f.Listen == "" {
		t.Errorf("got %+v, want its session, its counters and an address", f)
	}
	echoes(t, session)
}

// An address that overlaps one which is removed takes its place.
func TestReloadOverlappingAddress(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	text := func(at string) string { return head + frontendText("web", at, "p") + poolText("p", "", "A="+a.Addr) }
	wide := func(at string) string { return strings.TrimPrefix(at, "127.0.0.1") }
	d, narrow := onFixedPort(t, func(at string) string { return text(wide(at)) })
	for range 3 {
		for _, at := range []string{narrow, wide(narrow)} {
			d.mustReload(text(at))
			if got, err := visit(narrow); got != "A" || err != nil {
				t.Fatalf("after the reload to %s: got %q, %v", at, got, err)
			}
			if n := listening(t, narrow); n != 1 {
				t.Fatalf("after the reload to %s: %d sockets listen", at, n)
			}
		}
	}
}

// If the address that takes the place of another cannot be bound, the old one
// serves again.
func TestReloadOverlappingAddressBusy(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	text := func(at string) string { return head + frontendText("web", at, "p") + poolText("p", "", "A="+a.Addr) }
	d, narrow := onFixedPort(t, text)
	// Somebody else has the port on another address, so on all of them it is taken.
	busy, err := net.Listen("tcp", strings.Replace(narrow, "127.0.0.1", "127.0.0.2", 1))
	if err != nil {
		t.Skip("SKIPPED: the port is not free on 127.0.0.2")
	}
	defer busy.Close()
	session, _ := open(t, narrow)
	_, port, _ := net.SplitHostPort(narrow)
	status, answer := d.reload(text(":" + port))
	if status != http.StatusUnprocessableEntity || !strings.Contains(answer.Error, ":"+port) {
		t.Errorf("got %d %+v, want 422 and the port named", status, answer)
	}
	if got, err := visit(narrow); got != "A" || err != nil {
		t.Errorf("the old address: got %q, %v", got, err)
	}
	echoes(t, session)
	if v := d.view(); v.Generation != 1 {
		t.Errorf("got generation %d, want 1", v.Generation)
	}
}

// The admin side can move: the request that asks for it is still answered.
func TestReloadMovesAdmin(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	rest := jsonLog + frontendText("web", free, "p") + poolText("p", "", "A="+a.Addr)
	at := func(address string) string { return fmt.Sprintf("[admin]\nlisten = %q\n%s", address, rest) }
	d := startDaemon(t, at("127.0.0.1:0"))
	old := d.admin
	var next string
	onFreePort(t, func(port string) bool {
		next = net.JoinHostPort("127.0.0.1", port)
		status, _ := d.reload(at(next))
		return status == http.StatusOK
	})
	d.admin = next
	if v := d.view(); v.Generation != 2 {
		t.Errorf("got generation %d at the new address, want 2", v.Generation)
	}
	if c, err := net.Dial("tcp", old); err == nil {
		c.Close()
		t.Error("the old address still accepts")
	}
	d.mustReload(at(""))
	if _, err := net.Dial("tcp", next); err == nil {
		t.Error("the admin side is off and still accepts")
	}
	d.write(at(next))
	d.hangUp(reloaded)
	d.view()
}

func TestReloadUnixSocket(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	path := filepath.Join(t.TempDir(), "s")
	text := func(mode string) string {
		return head + frontendText("web", "unix:"+path, "p", "mode = \""+mode+"\"") + poolText("p", "", "A="+a.Addr)
	}
	wantMode := func(mode os.FileMode) {
		t.Helper()
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("got %v, %v, want mode %o", info, err, mode)
		}
	}
	d := startDaemon(t, text("0600"))
	wantMode(0o600)
	d.mustReload(text("0640"))
	wantMode(0o640)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if line, err := readLine(c); line != "A" || err != nil {
		t.Errorf("got %q, %v", line, err)
	}
}

//go:build unix

package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// manager is a service manager, as far as a service sees one.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &manager{t: t, path: filepath.Join(dir, "notify")}
	m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.conn.Close() })
	return m
}

// hears waits for a message that has all the parts, whatever comes before, and
// returns it.
func (m *manager) hears(parts ...string) string {
	m.t.Helper()
	m.conn.SetReadDeadline(time.Now().Add(patience))
	for buffer := make([]byte, 4096); ; {
		n, err := m.conn.Read(buffer)
		if err != nil {
			m.t.Fatalf("no message with %q: %v", parts, err)
		}
		text, all := string(buffer[:n]), true
		for _, p := range parts {
			all = all && strings.Contains(text, p)
		}
		if all {
			return text
		}
	}
}

func (m *manager) start(text string, env ...string) *daemon {
	return startDaemonAs(m.t, text, func(file string) *exec.Cmd {
		cmd := command("run", "-c", file)
		cmd.Env = append(append(cmd.Env, "NOTIFY_SOCKET="+m.path), env...)
		return cmd
	})
}

func TestServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	a := l4test.Serve(t, l4test.Tag("A"))
	text := "[process]\ndrain_timeout = \"1m\"\n" + head + frontendText("web", free, "p") + poolText("p", "", "A="+a.Addr)
	d := m.start(text, "WATCHDOG_USEC=100000")
	m.hears("READY=1", "STATUS=generation 1, frontends: 1, pools: 1")
	m.hears("WATCHDOG=1")
	m.hears("WATCHDOG=1")

	d.write(text + poolText("q", "", "A="+a.Addr))
	d.signal(syscall.SIGHUP)
	clock := m.hears("RELOADING=1", "MONOTONIC_USEC=")
	if strings.HasSuffix(clock, "=0") == (runtime.GOOS == "linux") {
		t.Errorf("got %q", clock)
	}
	m.hears("READY=1", "STATUS=generation 2, frontends: 1, pools: 2")
	d.write("colour = 1\n")
	if status, _ := d.ask("POST", "/reload", ""); status != 422 {
		t.Errorf("got %d, want 422", status)
	}
	m.hears("RELOADING=1")
	m.hears("READY=1", "STATUS=generation 2", "the last reload was refused", "colour")

	session, _ := open(t, d.frontend("web").Listen)
	d.signal(syscall.SIGTERM)
	m.hears("STOPPING=1", "STATUS=draining, sessions left: 1")
	m.hears("WATCHDOG=1")
	m.hears("STATUS=draining, sessions left: 1", "EXTEND_TIMEOUT_USEC=10000000")
	session.Close()
	<-d.done
	if d.err != nil {
		t.Errorf("got %v, want status 0", d.err)
	}
}

// A manager that is not there costs a line of the log, and nothing else.
func TestServiceManagerIsGone(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	m.conn.Close()
	os.Remove(m.path)
	d := m.start(head + frontendText("web", free, "p") + poolText("p", "", "A=127.0.0.1:9"))
	d.await("the complaint", "service manager not told")
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("got %v, want status 0", err)
	}
}

// A manager that does not read, from the start on, holds up neither reloads nor
// the end.
func TestServiceManagerDoesNotRead(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	full, err := net.Dial("unixgram", m.path)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	full.SetWriteDeadline(time.Now().Add(time.Second))
	for err == nil {
		_, err = full.Write([]byte("X_NOTHING=1"))
	}
	text := head + frontendText("web", free, "p") + poolText("p", "", "A=127.0.0.1:9")
	d := m.start(text)
	if status, answer := d.reload(text + poolText("q", "", "A=127.0.0.1:9")); status != 200 {
		t.Errorf("got %d %+v, want 200", status, answer)
	}
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("got %v, want status 0", err)
	}
}

// activated starts the program with sockets, as systemd does.
func activated(t *testing.T, text string, sockets ...net.Listener) *daemon {
	t.Helper()
	return startDaemonAs(t, text, func(file string) *exec.Cmd {
		run := command("run", "-c", file)
		// Only the child knows its number.
		cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`}, run.Args...)...)
		cmd.Env = append(run.Env, "LISTEN_FDS="+string(rune('0'+len(sockets))))
		for _, s := range sockets {
			f, err := s.(interface{ File() (*os.File, error) }).File()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			cmd.ExtraFiles = append(cmd.ExtraFiles, f)
		}
		return cmd
	})
}

func TestSocketActivation(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	path := filepath.Join(t.TempDir(), "s")
	bind := func(network, address string) net.Listener {
		t.Helper()
		ln, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		return ln
	}
	web, sock, api, spare := bind("tcp", free), bind("unix", path), bind("tcp", free), bind("tcp", free)
	at := web.Addr().String()
	_, port, _ := net.SplitHostPort(at)
	text := func(listen string) string {
		return jsonLog + "[admin]\nlisten = \"" + api.Addr().String() + "\"\n" + frontendText("web", listen, "p") +
			frontendText("sock", "unix:"+path, "p") + poolText("p", "", "A="+a.Addr)
	}
	d := activated(t, text(at), spare, sock, web, api)
	if got, err := visit(at); got != "A" || err != nil {
		t.Errorf("by TCP: got %q, %v", got, err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := readLine(c); got != "A" || err != nil {
		t.Errorf("by a unix socket: got %q, %v", got, err)
	}
	warned := d.lines("a socket that the process was started with is closed: no frontend listens on its address")
	if len(warned) != 1 || warned[0]["listen"] != spare.Addr().String() {
		t.Errorf("got %v, want a line about %s", warned, spare.Addr())
	}

	// To close ours would not make room: the other copy still has the port.
	if status, answer := d.reload(text(":" + port)); status != http.StatusUnprocessableEntity {
		t.Errorf("got %d %+v, want 422", status, answer)
	}
	if got, err := visit(at); got != "A" || err != nil {
		t.Errorf("after a reload that was refused: got %q, %v", got, err)
	}
	if status, answer := d.reload(text(free)); status != 200 {
		t.Errorf("got %d %+v, want 200", status, answer)
	}
	if got, err := visit(d.frontend("web").Listen); got != "A" || err != nil {
		t.Errorf("at its own port: got %q, %v", got, err)
	}
	c.Close()
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("got %v, want status 0", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file of a socket that is not ours: %v", err)
	}
}

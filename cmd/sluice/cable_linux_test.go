package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// inNetwork gives this goroutine, and what it starts, a network of its own, until
// the goroutine ends.
func inNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // for ever: the thread ends with the goroutine
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Skipf("SKIPPED: no network of its own: %v", err)
	}
}

// ip runs ip(8) in the network of this goroutine.
func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: ip %v: %v: %s", args, err, out)
	}
}

// behindACable starts a backend in another network, at the other end of a cable
// from the one of this goroutine, and returns its address and what pulls the
// cable at its end: no packet arrives any more, and none says so.
func behindACable(t *testing.T) (address string, pull func()) {
	t.Helper()
	inNetwork(t)
	thread, laid, pulled := make(chan int), make(chan bool), make(chan bool)
	at := make(chan string)
	go func() {
		defer close(at) // also where it cannot go on
		defer close(pulled)
		inNetwork(t)
		thread <- syscall.Gettid()
		<-laid
		ip(t, "addr", "add", "192.0.2.2/24", "dev", "far")
		ip(t, "link", "set", "far", "up")
		b := l4test.ServeAt(t, "192.0.2.2:0", l4test.Tag("A"))
		at <- b.Addr
		<-laid
		ip(t, "link", "set", "far", "down")
	}()
	ip(t, "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", fmt.Sprint(<-thread))
	laid <- true
	ip(t, "addr", "add", "192.0.2.1/24", "dev", "near")
	ip(t, "link", "set", "near", "up")
	address, ok := <-at
	if !ok {
		t.SkipNow()
	}
	return address, func() {
		laid <- true
		<-pulled
	}
}

// reached opens a session through a unix socket, as soon as the cable lets it: a
// link needs a moment after it was set up.
func reached(t *testing.T, path string) (client net.Conn) {
	t.Helper()
	eventually(t, "a session", func() bool {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		client = c
		name, _ := readLine(c)
		return name == "A"
	})
	return client
}

// B076: the cable of a backend is pulled. Keepalive ends a session that is idle,
// user_timeout one with data under way, and on_down both; without them the session
// would outlast this test by far.
func TestCableIsPulled(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: a network of its own needs root")
	}
	const down = "fall = 2\ntimeout = \"100ms\""
	for _, c := range []struct{ name, frontend, pool, health, says, cause string }{
		{"idle", `keepalive = { idle = "1s", interval = "1s", count = 2 }`, "", "", "", "backend_reset"},
		{"data", `user_timeout = "1s"`, "", "", "anybody there?", "backend_reset"},
		{"down", "", `on_down = "close"`, down, "", "on_down"},
		{"down-data", "", `on_down = "close"`, down, "anybody there?", "on_down"},
		{"down-full", "", `on_down = "close"`, down, strings.Repeat("anybody there?", 1<<20), "on_down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onDaemons(t, func(t *testing.T, process string) {
				address, pull := behindACable(t)
				path := filepath.Join(t.TempDir(), "s")
				pool := unprobed("p", c.pool, "A="+address)
				if c.health != "" {
					pool = probedPool(c.pool, c.health, "A="+address)
				}
				d := startDaemon(t, jsonLog+process+"[admin]\nlisten = \"\"\n"+frontendText("web", "unix:"+path, "p", c.frontend)+pool)
				client := reached(t, path)
				pull()
				go fmt.Fprint(client, c.says) // more than buffers hold waits for the end
				eventually(t, "the session ends", func() bool {
					return slices.ContainsFunc(d.lines("session"), func(line map[string]any) bool { return line["cause"] == c.cause })
				})
				client.SetReadDeadline(time.Now().Add(patience))
				if _, err := io.Copy(io.Discard, client); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("the client does not hear of it") // a unix socket has no reset
				}
			})
		})
	}
}

package systemd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// started returns a manager whose messages the connection gets, and its log.
func started(t *testing.T) (*Manager, *net.UnixConn, *observer.ObservedLogs) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: no unixgram sockets")
	}
	dir, err := os.MkdirTemp("", "n") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	t.Setenv("NOTIFY_SOCKET", at.Name)
	core, logs := observer.New(zapcore.InfoLevel)
	return New(zap.New(core)), conn, logs
}

func next(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	p := make([]byte, 4096)
	n, err := conn.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(p[:n])
}

func TestMessages(t *testing.T) {
	m, conn, _ := started(t)
	for _, c := range []struct {
		tell func()
		want string
	}{
		{func() { m.Ready("one\ntwo") }, "READY=1\nSTATUS=one; two"},
		{func() { m.Stopping("bye") }, "STOPPING=1\nSTATUS=bye"},
		{func() { m.Draining("3 left") }, "EXTEND_TIMEOUT_USEC=10000000\nSTATUS=3 left"},
	} {
		if c.tell(); next(t, conn) != c.want {
			t.Errorf("want %q", c.want)
		}
	}
}

// A manager that does not read holds nobody up, and learns in the end how things
// are.
func TestManagerThatDoesNotRead(t *testing.T) {
	m, conn, logs := started(t)
	const last = 2000 // far more than a socket holds
	for i := range last + 1 {
		m.Reloading()
		m.Ready(strconv.Itoa(i))
	}
	m.Stopping("bye")
	before := ""
	for text := ""; text != "STOPPING=1\nSTATUS=bye"; text = next(t, conn) {
		before = text
	}
	if want := "READY=1\nSTATUS=" + strconv.Itoa(last); before != want {
		t.Errorf("got %q last before the stop, want %q", before, want)
	}
	if n := logs.Len(); n == 0 || n > last/10 {
		t.Errorf("got %d complaints, want few", n)
	}
}

// A manager that is gone is complained of once.
func TestManagerThatIsGone(t *testing.T) {
	m, conn, logs := started(t)
	conn.Close()
	for range 10 {
		m.Ready("")
	}
	if n := logs.FilterMessage("service manager not told").Len(); n != 1 {
		t.Errorf("got %d complaints, want 1", n)
	}
}

// What does not answer is not said to work: the manager has to notice.
func TestWatchdogHearsNothingOfWhatHangs(t *testing.T) {
	m, conn, logs := started(t)
	t.Setenv("WATCHDOG_USEC", "20000")
	ctx, cancel := context.WithCancel(t.Context())
	asked, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		m.Watch(ctx, func(short context.Context) bool {
			if <-asked {
				return true
			}
			<-short.Done()
			return false
		})
	}()
	asked <- false
	asked <- false
	asked <- true
	if got := next(t, conn); got != "WATCHDOG=1" {
		t.Errorf("got %q", got)
	}
	cancel()
	select {
	case asked <- true: // it was asking as the context ended
	case <-done:
	}
	<-done
	if n := logs.FilterMessage("watchdog: an event loop does not answer").Len(); n != 2 {
		t.Errorf("got %d complaints, want 2", n)
	}
}

// Without a manager nothing is said and nothing is watched.
func TestNoManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "")
	core, logs := observer.New(zapcore.InfoLevel)
	m := New(zap.New(core))
	m.Ready("")
	m.Reloading()
	m.Watch(t.Context(), func(context.Context) bool {
		t.Error("asked though nobody wants to know")
		return true
	})
	if got := Listeners(); len(got) != 0 || logs.Len() != 0 {
		t.Errorf("got %v and %v, want nothing", got, logs.All())
	}
}

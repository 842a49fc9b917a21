package l4

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"

	"golang.org/x/sys/unix"
)

// options reads back what a socket has: keepalive, its three numbers, user
// timeout in ms, no delay.
func options(t *testing.T, c syscall.Conn) (got [6]int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { got = optionsOf(t, int(fd)) })
	return got
}

func optionsOf(t *testing.T, fd int) (got [6]int) {
	for i, o := range [][2]int{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}, {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, {unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT}, {unix.IPPROTO_TCP, unix.TCP_NODELAY},
	} {
		var err error
		if got[i], err = unix.GetsockoptInt(fd, o[0], o[1]); err != nil {
			t.Error(err)
		}
	}
	return got
}

// sides returns the options of both sockets of the sessions of f.
func sides(t *testing.T, f *Frontend) (got [][6]int) {
	switch d := f.driver.(type) {
	case *copying:
		for _, c := range d.all() {
			c.mu.Lock()
			got = append(got, options(t, c.socks[session.Client]), options(t, c.socks[session.Backend]))
			c.mu.Unlock()
		}
	case *looping:
		for _, l := range d.loops {
			<-d.visit(l, func(_ *loop, s *duplex) {
				got = append(got, optionsOf(t, int(s.socks[session.Client].fd)), optionsOf(t, int(s.socks[session.Backend].fd)))
			}).done
		}
	}
	return got
}

// B101, B102, B021: the options of both sockets of a session.
func TestSocketOptions(t *testing.T) {
	for _, engine := range []string{"copy", "epoll"} {
		for _, c := range []struct {
			keep session.KeepAlive
			user time.Duration
			want [6]int
		}{
			{session.KeepAlive{Idle: 7 * time.Second, Interval: 3 * time.Second, Count: 2}, 5 * time.Second, [6]int{1, 7, 3, 2, 5000, 1}},
			{session.KeepAlive{Idle: time.Minute, Interval: 10 * time.Second, Count: 6}, 0, [6]int{1, 60, 10, 6, 0, 1}},
		} {
			t.Run(engine, func(t *testing.T) {
				t.Parallel()
				f := oneSession(t, engine, session.Settings{
					Attempts: 1, ConnectTimeout: time.Second, DialBudget: time.Second, KeepAlive: c.keep, UserTimeout: c.user,
				})
				for side, got := range sides(t, f) {
					if got[5] != 1 {
						t.Errorf("side %d: small messages are delayed from the start", side)
					}
				}
				// An engine may leave the rest to sessions that last.
				want := [][6]int{c.want, c.want}
				got := sides(t, f)
				for end := time.Now().Add(10 * time.Second); !slices.Equal(got, want) && time.Now().Before(end); got = sides(t, f) {
					<-time.After(10 * time.Millisecond)
				}
				if !slices.Equal(got, want) {
					t.Errorf("got options %v, want %v", got, want)
				}
			})
		}
	}
}

// oneSession returns a frontend with a session that relays.
func oneSession(t *testing.T, engine string, set session.Settings) *Frontend {
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := balance.ByName("round_robin", "")
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(engine, 0)
	if err != nil {
		t.Fatal(err)
	}
	specs := []pool.Spec{{ID: "A", Address: backend.Addr().String(), Weight: 1}}
	f := e.NewFrontend(Config{
		Name: "f", Names: resolve.New(nil, nil), Settings: set,
		Pool: pool.New("p", pool.Config{Strategy: strategy, Backends: specs}, pool.Hooks{}),
	})
	ln, err := e.Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	ln.Assign(f)
	go ln.Serve()
	client, err := net.Dial("tcp", ln.Addr())
	if err != nil {
		t.Fatal(err)
	}
	served, err := backend.Accept()
	if err != nil {
		t.Fatal(err)
	}
	// A byte from the backend proves that the session relays.
	served.Write([]byte("!"))
	client.Read(make([]byte, 1))
	t.Cleanup(func() {
		client.Close()
		served.Close()
		backend.Close()
		ln.Close()
		f.Shutdown(context.Background())
		e.Close()
	})
	return f
}

func TestKeepAliveOff(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := dialOne(context.Background(), &session.Settings{}, ln.Addr().String(), time.Now().Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tune(c, &session.Settings{})
	if got := options(t, c); got[0] != 0 {
		t.Errorf("keepalive is on: %v", got)
	}
}

// Go listens with MPTCP where it can, unless it is told not to.
func TestListenersAreNoMPTCP(t *testing.T) {
	ln, err := Bind(t.Context(), net.ListenConfig{}, "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		if p, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || p != unix.IPPROTO_TCP {
			t.Errorf("protocol %d, %v; want TCP", p, err)
		}
	})
}

// A dial to a free port of the ephemeral range can end in itself.
func TestSelfConnectIsRefused(t *testing.T) {
	port := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	d := net.Dialer{LocalAddr: port, Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	}}
	// A port that was ours a moment ago: nobody listens on it.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port.Port = ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	c, err := d.Dial("tcp", port.String())
	if err != nil {
		t.Skip(err)
	}
	_, err = accepted(c, &session.Settings{})
	if f := session.FaultOf(err); f.Word != "refused" || f.Blame != session.OnBackend {
		t.Errorf("got %v, %+v; want refused", err, f)
	}
}

// The side of a failed splice is told by the sockets' states, also when the
// other one is closed by then in an orderly way.
func TestFailedSpliceIsHeldAgainstTheRightSide(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	pair := func() (ours stream, theirs *net.TCPConn) {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(); s.Close() })
		return s.(stream), c.(*net.TCPConn)
	}
	abort := func(c *net.TCPConn) {
		c.SetLinger(0)
		c.Close()
	}
	spliceError := &net.OpError{Op: "readfrom", Err: fmt.Errorf("splice: %w", syscall.ECONNRESET)}
	for _, from := range []session.Side{session.Client, session.Backend} {
		for _, failed := range []session.Side{session.Client, session.Backend} {
			for _, closing := range []bool{false, true} {
				if closing && failed == from {
					continue
				}
				var c conn
				var theirs [2]*net.TCPConn
				c.socks[0], theirs[0] = pair()
				c.socks[1], theirs[1] = pair()
				if closing { // failed ended, and from ended after it
					c.ended[failed] = true
					c.socks[from].CloseWrite()
					theirs[from].CloseWrite()
					waitClosed(t, c.socks[from])
				}
				abort(theirs[failed])
				if err := waitReset(c.socks[failed]); err != nil {
					t.Fatal(err)
				}
				if at := c.failedAt(from, spliceError); at != failed {
					t.Errorf("from %d, failed %d, closing %v: got %d", from, failed, closing, at)
				}
				if at := c.failedAt(from, &net.OpError{Op: "readfrom", Err: syscall.EPIPE}); at != from.Other() {
					t.Errorf("EPIPE from %d: got %d", from, at)
				}
			}
		}
	}
	if errors.Is(spliceError, syscall.EPIPE) {
		t.Error("the errors are mixed up")
	}
}

// waitClosed waits until both ends of s have ended.
func waitClosed(t *testing.T, s stream) {
	for end := time.Now().Add(10 * time.Second); !isReset(s); {
		if time.Now().After(end) {
			t.Fatal("the socket is not closed")
		}
		<-time.After(time.Millisecond)
	}
}

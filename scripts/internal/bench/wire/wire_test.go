//go:build linux

package wire_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/scripts/internal/bench/wire"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// poller is closed at the end of the test.
func poller(t *testing.T) *wire.Poller {
	t.Helper()
	p, err := wire.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// ready waits until a socket has one of the events.
func ready(t *testing.T, fd int, events uint32) {
	t.Helper()
	p := poller(t)
	if err := p.Watch(fd, events, 7); err != nil {
		t.Fatal(err)
	}
	got := int32(0)
	for late := time.Now().Add(20 * time.Second); got == 0 && time.Now().Before(late); {
		if err := p.Wait(time.Second, func(token int32, _ uint32) { got = token }); err != nil {
			t.Fatal(err)
		}
	}
	if got != 7 {
		t.Fatalf("got token %d", got)
	}
}

func TestConnection(t *testing.T) {
	t.Parallel()
	listener, at, err := wire.Listen(loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(listener)
	source := netip.MustParseAddr("127.0.1.9")
	client, err := wire.Connect(at, source)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(client)
	ready(t, client, unix.EPOLLOUT)
	if err := wire.Failure(client); err != nil {
		t.Fatal(err)
	}
	ready(t, listener, unix.EPOLLIN)
	server, err := wire.Accept(listener)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := unix.Getpeername(server)
	if err != nil {
		t.Fatal(err)
	}
	if got := netip.AddrFrom4(peer.(*unix.SockaddrInet4).Addr); got != source {
		t.Errorf("the connection came from %v, want %v", got, source)
	}
	buf := make([]byte, 100)
	if _, err := wire.Receive(client, buf); err != unix.EAGAIN {
		t.Errorf("nothing was sent yet: got %v", err)
	}
	if n, err := wire.Send(server, []byte("hello")); n != 5 || err != nil {
		t.Errorf("send: %d, %v", n, err)
	}
	unix.Close(server)
	ready(t, client, unix.EPOLLIN)
	if n, err := wire.Receive(client, buf); !bytes.Equal(buf[:n], []byte("hello")) || err != nil {
		t.Errorf("got %q, %v", buf[:n], err)
	}
	if n, err := wire.Receive(client, buf); n != 0 || err != nil {
		t.Errorf("end of stream: got %d, %v", n, err)
	}
	if _, err := wire.Accept(listener); err != unix.EAGAIN {
		t.Errorf("nobody else connects: got %v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(l.Addr().String())
	l.Close()
	fd, err := wire.Connect(at, netip.Addr{})
	if err == nil {
		defer unix.Close(fd)
		ready(t, fd, unix.EPOLLOUT)
		err = wire.Failure(fd)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
}

// An open loop needs waits far below a millisecond; one in a hundred has to show
// that they are possible, whatever else the machine does.
func TestWaitBelowAMillisecond(t *testing.T) {
	t.Parallel()
	const wait = 100 * time.Microsecond
	p := poller(t)
	shortest := time.Hour
	for range 100 {
		begun := time.Now()
		if err := p.Wait(wait, func(int32, uint32) { t.Error("an event of nothing") }); err != nil {
			t.Fatal(err)
		}
		shortest = min(shortest, time.Since(begun))
	}
	if shortest < wait || shortest > time.Millisecond {
		t.Errorf("the shortest wait for %v took %v", wait, shortest)
	}
}

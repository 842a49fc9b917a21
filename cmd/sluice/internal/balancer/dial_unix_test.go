//go:build unix

package balancer

import (
	"net"
	"syscall"
	"testing"

	"sluice/l4/l4test"
)

// A connection of /proxy to a backend that vanishes does not stay for ever.
func TestProxyDialsWithKeepalive(t *testing.T) {
	a := l4test.Serve(t, l4test.Echo)
	b, _, stop := started(t, frontendText("one", "p")+poolText("p", "none", a.Addr))
	defer stop()
	c, err := b.dial(t.Context(), a.Addr) // without a deadline of its own
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	on := 0
	if err := raw.Control(func(fd uintptr) { on, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE) }); err != nil {
		t.Fatal(err)
	}
	if err != nil || on == 0 {
		t.Errorf("got SO_KEEPALIVE %d, %v, want it on", on, err)
	}
}

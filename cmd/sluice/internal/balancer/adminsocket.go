package balancer

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strings"
)

// adminMode is the mode of a unix socket of the admin side: who may use it may
// steer the process, so the group is the most that is let in.
const adminMode = 0o660

// listenAdmin binds the address of the admin side, "host:port" or "unix:/path".
func listenAdmin(address string) (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		return c.Listen(context.Background(), family(address), address)
	}
	ln, err := c.Listen(context.Background(), "unix", path)
	if inUse(err) && stale(path) {
		os.Remove(path)
		ln, err = c.Listen(context.Background(), "unix", path)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, adminMode); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// family returns the network to listen in: that of a literal address, for which
// package net would otherwise take 0.0.0.0 for every address of both families.
// Without a host, and with [::], it is both.
func family(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "tcp"
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil || ip == netip.IPv6Unspecified():
		return "tcp"
	case ip.Unmap().Is4():
		return "tcp4"
	}
	return "tcp6"
}

// stale reports whether path is a socket that a dead process left behind.
func stale(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		return true
	}
	c.Close()
	return false
}

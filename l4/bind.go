package l4

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// Bind listens on address, "host:port" or "unix:/path", as every socket of the
// process does: without Multipath TCP, a literal address in its own family
// alone, and a unix socket with the permission bits mode and in the place of a
// file that a dead process left behind. ctx bounds the look-up of a name. The
// caller closes the listener.
func Bind(ctx context.Context, lc net.ListenConfig, address string, mode fs.FileMode) (net.Listener, error) {
	lc.SetMultipathTCP(false)
	network, rest := listenNetwork(address)
	if network != "unix" {
		return lc.Listen(ctx, network, rest)
	}
	if err := removeStale(rest); err != nil {
		return nil, err
	}
	lc.Control = guarded(lc.Control, mode)
	ln, err := lc.Listen(ctx, network, rest)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(rest, mode); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// guarded gives a unix socket its mode before it has a file: Linux then makes the
// file with no more than that, so that nobody else gets in before the chmod.
// Elsewhere it does nothing.
func guarded(control func(network, address string, raw syscall.RawConn) error, mode fs.FileMode) func(string, string, syscall.RawConn) error {
	return func(network, address string, raw syscall.RawConn) error {
		if err := raw.Control(func(fd uintptr) { restrict(fd, mode) }); err != nil || control == nil {
			return err
		}
		return control(network, address, raw)
	}
}

// listenNetwork is network for a listen address. Package net listens on both
// families for "0.0.0.0"; here that is for "::" and for no host.
func listenNetwork(address string) (string, string) {
	ap, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || ap.Addr() == netip.IPv6Unspecified():
		return network(address)
	case ap.Addr().Unmap().Is4():
		return "tcp4", address
	}
	return "tcp6", address
}

// removeStale removes the socket file that an earlier process left at path, but
// never one that still answers, and nothing that is no socket.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return err
	}
	if answers(path) {
		return &net.OpError{Op: "listen", Net: "unix", Err: syscall.EADDRINUSE}
	}
	return os.Remove(path)
}

// answers reports whether somebody listens at a unix socket, or may. Only this one
// error says that nobody does: a full queue, for one, does not.
func answers(path string) bool {
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}

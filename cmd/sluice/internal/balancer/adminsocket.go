package balancer

import (
	"context"
	"net"
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
		return c.Listen(context.Background(), "tcp", address)
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

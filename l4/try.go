package l4

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// ErrUntried is the answer of Try where only listening itself tells.
var ErrUntried = errors.New("only listening tells")

// errOver ends a listen before it begins.
var errOver = errors.New("tried")

// Try returns the error that listening on address would end with now, as far as
// can be told without listening: nobody can connect meanwhile, and no file is
// touched. It is nil, or wraps ErrUntried, where nothing speaks against it. ctx
// bounds the look-up of a name.
func Try(ctx context.Context, address string) error {
	network, rest := listenNetwork(address)
	if network == "unix" {
		return tryUnix(rest)
	}
	var bound error
	lc := net.ListenConfig{Control: func(network, address string, raw syscall.RawConn) error {
		if err := raw.Control(func(fd uintptr) { bound = bindOnly(fd, network, address) }); err != nil {
			bound = err
		}
		return errOver // the socket is closed without ever listening
	}}
	lc.SetMultipathTCP(false)
	_, err := lc.Listen(ctx, network, rest)
	if errors.Is(err, errOver) {
		return bound
	}
	return err
}

// tryUnix looks at what stands in the place of a unix socket.
func tryUnix(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return err
		}
		return ErrUntried
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket || answers(path):
		return syscall.EADDRINUSE
	}
	return ErrUntried
}

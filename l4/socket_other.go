//go:build !unix

package l4

import (
	"io/fs"
	"net"
	"os"
	"time"

	"sluice/l4/session"
)

const splices = false

// waitReadable does not wait: the read that follows does.
func waitReadable(stream) error { return nil }

// waitReset cannot tell here, and gives up at once.
func waitReset(stream) error { return os.ErrDeadlineExceeded }

// waitLeft cannot tell here either.
func waitLeft(stream, func() bool) error { return os.ErrDeadlineExceeded }

func hasFailed(stream) bool { return false }

func hasEnded(stream) bool { return false }

func unsent(stream) int { return 0 }

func setUserTimeout(*net.TCPConn, time.Duration) {}

func isReset(stream) bool { return false }

func selfConnected(c net.Conn) bool {
	return c.LocalAddr().Network() == "tcp" && c.LocalAddr().String() == c.RemoteAddr().String()
}

// endReceived believes the read that met the end.
func endReceived(stream, int64) bool { return true }

func restrict(uintptr, fs.FileMode) {}

// linkOf knows nothing here.
func linkOf(stream) session.Link { return session.Link{} }

//go:build unix && !linux

package l4

import (
	"net"
	"time"

	"sluice/l4/session"

	"golang.org/x/sys/unix"
)

// pollHangUp asks for nothing more: POLLIN tells of the end as well.
const pollHangUp = 0

// splices says that io.Copy between sockets goes through a buffer of ours.
const splices = false

// sendQueue returns the length of the output queue (TIOCOUTQ, tty(4), which
// sockets answer as well).
func sendQueue(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// setUserTimeout does nothing: the option is Linux's.
func setUserTimeout(*net.TCPConn, time.Duration) {}

// isReset cannot look without touching: io.Copy's error names the side here.
func isReset(stream) bool { return false }

// endReceived believes the read that met the end.
func endReceived(stream, int64) bool { return true }

// linkOf knows nothing here.
func linkOf(stream) session.Link { return session.Link{} }

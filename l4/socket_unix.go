//go:build unix

package l4

import (
	"io/fs"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// waitReadable waits until s has something to read, an end or an error
// included, without reading it and without holding a buffer or a pipe. It ends
// with os.ErrDeadlineExceeded at s's read deadline.
func waitReadable(s stream) error {
	return waitPoll(s, func(events int16) bool { return events != 0 })
}

// waitReset waits until s's connection has failed, and takes nothing of what
// the peer sent before. It ends as waitReadable does. A hang-up alone is none:
// a unix socket shows it for a peer that sent its bytes and closed.
func waitReset(s stream) error {
	return waitPoll(s, func(events int16) bool { return events&unix.POLLERR != 0 })
}

// waitLeft waits as waitReset does. While queued says so, it also ends, with
// errEnded, when the peer ends its stream with nothing left to read before.
func waitLeft(s stream, queued func() bool) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	ended := false
	err = raw.Read(func(fd uintptr) bool {
		events := poll(fd)
		reset := events&unix.POLLERR != 0
		ended = !reset && events != 0 && queued() && atEnd(fd)
		return ended || reset
	})
	if err == nil && ended {
		return errEnded
	}
	return err
}

// hasEnded reports whether s's peer ended its stream, with nothing left to read
// before.
func hasEnded(s stream) bool {
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	ended := false
	raw.Control(func(fd uintptr) { ended = poll(fd)&unix.POLLERR == 0 && atEnd(fd) })
	return ended
}

// atEnd looks whether the end of a stream is next, and takes no byte off it. A
// failure that it meets is one too: it is told once.
func atEnd(fd uintptr) bool {
	var one [1]byte
	for {
		n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return n <= 0 && err != syscall.EAGAIN
		}
	}
}

// waitPoll waits for events on s that satisfy enough. The callback must ask the
// kernel itself each time: the runtime's poller is edge-triggered.
func waitPoll(s stream, enough func(events int16) bool) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool { return enough(poll(fd)) })
}

// poll returns what is ready on fd now.
func poll(fd uintptr) int16 {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | pollHangUp}}
	for {
		_, err := unix.Poll(fds[:], 0)
		if err != syscall.EINTR {
			return fds[0].Revents
		}
	}
}

// hasFailed reports whether s's connection has failed by now.
func hasFailed(s stream) bool {
	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}
	failed := false
	err = raw.Control(func(fd uintptr) { failed = poll(fd)&unix.POLLERR != 0 })
	return failed || err != nil
}

// unsent returns the bytes in s's send queue that the peer has not taken, or 0
// where the system does not say.
func unsent(s stream) int {
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	raw.Control(func(fd uintptr) { n = sendQueue(int(fd)) })
	return n
}

// selfConnected reports whether c is connected to itself, as a dial to a free
// port in the ephemeral range can end up.
func selfConnected(c net.Conn) bool {
	return c.LocalAddr().Network() == "tcp" && c.LocalAddr().String() == c.RemoteAddr().String()
}

// restrict sets the mode of a socket that has no file yet. Where that means
// nothing it fails, without harm.
func restrict(fd uintptr, mode fs.FileMode) { _ = unix.Fchmod(int(fd), uint32(mode.Perm())) }

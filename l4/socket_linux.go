package l4

import (
	"net"
	"time"

	"sluice/l4/session"

	"golang.org/x/sys/unix"
)

// pollHangUp is the event of a peer that shut its writing side, which Linux
// tells apart.
const pollHangUp = unix.POLLRDHUP

// splices says that io.Copy between two sockets moves the bytes in the kernel.
const splices = true

// sendQueue returns SIOCOUTQ (tcp(7), unix(7)).
func sendQueue(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// setUserTimeout bounds how long sent data may stay unacknowledged (RFC 5482).
func setUserTimeout(c *net.TCPConn, d time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
}

// isReset reports whether s's connection is over because of an error, or closed
// in both directions. It looks at the state and leaves the socket's error alone,
// which is reported once.
func isReset(s stream) bool {
	const tcpClose = 7 // TCP_CLOSE of net/tcp_states.h
	info, ok := tcpInfo(s)
	return ok && info.State == tcpClose
}

// endReceived reports whether the end of the stream arrived behind the read
// bytes of s. The kernel counts what it received in sequence numbers
// (RFC 4898, tcpEStatsAppHCThruOctetsReceived), of which a FIN takes one.
func endReceived(s stream, read int64) bool {
	info, ok := tcpInfo(s)
	return !ok || info.Bytes_received > uint64(read)
}

// linkOf returns what the kernel says of s, which may be nil.
func linkOf(s stream) session.Link {
	if s == nil {
		return session.Link{}
	}
	info, ok := tcpInfo(s)
	if !ok {
		return session.Link{}
	}
	rtt := time.Duration(info.Rtt) * time.Microsecond
	return session.Link{Known: true, RTT: rtt, Retransmits: int(info.Total_retrans)}
}

// tcpInfo returns TCP_INFO of s; ok is false for a unix socket.
func tcpInfo(s stream) (info *unix.TCPInfo, ok bool) {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, false
	}
	raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	return info, err == nil && info != nil
}

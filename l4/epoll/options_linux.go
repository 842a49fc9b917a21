package epoll

import (
	"math"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options are what can be set on a TCP socket, or on a listener for all that it
// accepts.
type Options struct {
	KeepAliveIdle     time.Duration // 0: no keepalive; rounded up to seconds, as the next
	KeepAliveInterval time.Duration // 0: as it is
	KeepAliveCount    int           // 0: as it is
	UserTimeout       time.Duration // 0: off; rounded up to milliseconds
}

// The most that the kernel takes (MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL,
// MAX_TCP_KEEPCNT of net/tcp.h): it would refuse more.
const (
	maxKeepAlive      = 32767 * time.Second
	maxKeepAliveCount = 127
	maxUserTimeout    = math.MaxInt32 * time.Millisecond
)

// SetOptions sets o on a TCP socket. Nothing can be done about an error: a
// socket that is gone fails here, and its next receive tells.
func (k *Kernel) SetOptions(fd int, o Options) {
	on := 0
	if o.KeepAliveIdle > 0 { // the values first: each would restart a timer that runs
		on = 1
		k.setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, units(o.KeepAliveIdle, maxKeepAlive, time.Second))
		if o.KeepAliveInterval > 0 {
			k.setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, units(o.KeepAliveInterval, maxKeepAlive, time.Second))
		}
		if o.KeepAliveCount > 0 {
			k.setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, min(o.KeepAliveCount, maxKeepAliveCount))
		}
	}
	k.setInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, on)
	k.setInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, units(o.UserTimeout, maxUserTimeout, time.Millisecond))
}

// SetNoDelay has a TCP socket send small segments at once.
func (k *Kernel) SetNoDelay(fd int) { k.setInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) }

func (k *Kernel) setInt(fd, level, option, value int) {
	errno := syscall.EINTR
	for errno == syscall.EINTR {
		errno = k.calls.SetInt(fd, level, option, value)
	}
}

// units returns how many units d has, rounded up, and at most those of most.
func units(d, most, unit time.Duration) int {
	d = min(max(d, 0), most)
	return int((d + unit - 1) / unit)
}

// Unsent returns the bytes in a socket's send queue that the peer has not taken
// (SIOCOUTQ: tcp(7), unix(7)); 0 if the kernel does not say.
func (k *Kernel) Unsent(fd int) int {
	n, errno := 0, syscall.EINTR
	for errno == syscall.EINTR {
		n, errno = k.calls.Unsent(fd)
	}
	if errno != 0 {
		return 0
	}
	return n
}

// Info looks at a TCP connection without touching it. closed: it is over, because
// of an error or because both directions ended; the error stays for who receives
// or sends. received is what arrived since it began, in sequence numbers
// (tcpEStatsAppHCThruOctetsReceived of RFC 4898): each byte is one and so is the
// end of the stream. ok is false for a unix socket.
func (k *Kernel) Info(fd int) (closed bool, received uint64, ok bool) {
	const tcpClose = 7 // TCP_CLOSE of net/tcp_states.h
	if !k.tcpInfo(fd) {
		return false, 0, false
	}
	return k.info.State == tcpClose, k.info.Bytes_received, true
}

// tcpInfo reads TCP_INFO into k.info, at least up to Bytes_received.
func (k *Kernel) tcpInfo(fd int) bool {
	size, errno := 0, syscall.EINTR
	for errno == syscall.EINTR {
		size, errno = k.calls.Info(fd, &k.info)
	}
	return errno == 0 && size >= int(unsafe.Offsetof(k.info.Segs_out))
}

// Quality returns the smoothed round trip time of a TCP connection, and how many
// segments were sent again since it began. ok is false for a unix socket.
func (k *Kernel) Quality(fd int) (rtt time.Duration, retransmits int, ok bool) {
	if !k.tcpInfo(fd) {
		return 0, 0, false
	}
	return time.Duration(k.info.Rtt) * time.Microsecond, int(k.info.Total_retrans), true
}

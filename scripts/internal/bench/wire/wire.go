//go:build linux

// Package wire has the sockets of the load generator and of its backends: raw,
// non-blocking, and told of by epoll.
//
// Both share two cores with what they measure, so they must cost little. Package
// net costs a goroutine switch a message; this is one system call to receive and
// one to send, without the scheduler's entry and exit, which non-blocking calls
// do not need. Addresses are IPv4, and only loopback is ever used.
package wire

import (
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// backlog is what the kernel allows by default (net.core.somaxconn).
const backlog = 4096

func address(a netip.AddrPort) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

// socket makes a TCP socket that does not wait to send small messages.
func socket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make a socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("set TCP_NODELAY: %w", err)
	}
	return fd, nil
}

// Listen returns a socket that listens at host on a free port.
func Listen(host netip.Addr) (fd int, bound netip.AddrPort, err error) {
	if fd, err = socket(); err != nil {
		return -1, bound, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err = unix.Bind(fd, address(netip.AddrPortFrom(host, 0))); err != nil {
		return -1, bound, fmt.Errorf("bind %v: %w", host, err)
	}
	if err = unix.Listen(fd, backlog); err != nil {
		return -1, bound, fmt.Errorf("listen at %v: %w", host, err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return -1, bound, fmt.Errorf("name of the socket at %v: %w", host, err)
	}
	return fd, netip.AddrPortFrom(host, uint16(name.(*unix.SockaddrInet4).Port)), nil
}

// Accept takes one connection, unix.EAGAIN if there is none. What the listener
// has set, the connection inherits.
func Accept(listener int) (int, error) {
	fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	return fd, err
}

// Connect begins a connection to an address, from source if that is valid. The
// socket is writable when the connection is established or has failed; then
// Failure tells which.
func Connect(to netip.AddrPort, source netip.Addr) (int, error) {
	fd, err := socket()
	if err != nil {
		return -1, err
	}
	if source.IsValid() {
		err = bindSource(fd, source)
	}
	if err == nil {
		if err = unix.Connect(fd, address(to)); err == unix.EINPROGRESS {
			err = nil
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("connect to %v: %w", to, err)
	}
	return fd, nil
}

// bindSource leaves the port to the connect, which may then use one port for
// several destinations.
func bindSource(fd int, source netip.Addr) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return err
	}
	return unix.Bind(fd, address(netip.AddrPortFrom(source, 0)))
}

// Failure returns why a connection has failed, nil if it has not.
func Failure(fd int) error {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	return err
}

// Receive reads what there is: 0 at the end of the stream, unix.EAGAIN if there
// is nothing now. The buffer must not be empty.
func Receive(fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Send writes what there is room for, and returns unix.EAGAIN if there is none.
// The data must not be empty.
func Send(fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Poller tells which sockets are ready. One goroutine uses it.
type Poller struct {
	fd     int
	events []unix.EpollEvent
}

// NewPoller returns a poller that must be closed.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an epoll: %w", err)
	}
	return &Poller{fd, make([]unix.EpollEvent, 256)}, nil
}

// Watch begins to tell of events of a socket, as token.
func (p *Poller) Watch(fd int, events uint32, token int32) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: token})
}

// Change changes the events that Watch asked for.
func (p *Poller) Change(fd int, events uint32, token int32) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: events, Fd: token})
}

// Wait waits until something is ready, at most for the time given, and calls f
// for each. Times below a millisecond hold (Linux 5.11).
func (p *Poller) Wait(most time.Duration, f func(token int32, events uint32)) error {
	limit := unix.NsecToTimespec(int64(max(most, 0)))
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
		uintptr(len(p.events)), uintptr(unsafe.Pointer(&limit)), 0, 0)
	switch errno {
	case 0:
	case unix.EINTR:
		return nil
	default:
		return fmt.Errorf("wait for sockets: %w", errno)
	}
	for _, e := range p.events[:n] {
		f(e.Fd, e.Events)
	}
	return nil
}

// Close ends the poller, not the sockets.
func (p *Poller) Close() { unix.Close(p.fd) }

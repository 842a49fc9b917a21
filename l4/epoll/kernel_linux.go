package epoll

import (
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kernel makes system calls for one loop, on descriptors that do not block. It
// makes a call again that a signal broke off, all but close, and does nothing
// else about an error. Not safe for concurrent use.
type Kernel struct {
	calls Calls

	// What the calls are given pointers to. It is here because an argument of a
	// func value escapes: each call would allocate it.
	addr  Address
	event unix.EpollEvent
	info  unix.TCPInfo
	one   [1]byte
}

// NewKernel returns a Kernel that makes the calls of c.
func NewKernel(c Calls) *Kernel { return &Kernel{calls: c} }

// Accept takes the next connection off the queue of a listener. EAGAIN: there is
// none. The new socket is the caller's to close. from is where it comes from,
// IPv4 in IPv6 unmapped and a link-local address with its zone; it is invalid
// for a unix socket.
func (k *Kernel) Accept(fd int) (nfd int, from netip.AddrPort, errno syscall.Errno) {
	errno = syscall.EINTR
	for errno == syscall.EINTR {
		k.addr.empty()
		nfd, errno = k.calls.Accept(fd, &k.addr)
	}
	if errno != 0 {
		return -1, netip.AddrPort{}, errno
	}
	return nfd, k.withZone(nfd), 0
}

// Socket opens a stream socket of the family of a, for the caller to close.
func (k *Kernel) Socket(a *Address) (fd int, errno syscall.Errno) {
	errno = syscall.EINTR
	for errno == syscall.EINTR {
		fd, errno = k.calls.Socket(int(a.family()))
	}
	return fd, errno
}

// Connect begins to connect a socket. 0: it is connected. EINPROGRESS: the
// socket becomes writable when it is decided, and SocketError then tells.
// EAGAIN, of a unix socket: the queue of the listener is full and no event will
// tell; connect again later.
func (k *Kernel) Connect(fd int, a *Address) syscall.Errno {
	k.addr = *a
	errno := k.calls.Connect(fd, &k.addr)
	if errno == syscall.EINTR { // it goes on without us (connect(2))
		return syscall.EINPROGRESS
	}
	return errno
}

// SocketError takes the error of a socket, 0 for none. It takes it away from
// the next receive or send, so that it is only for the end of a connect.
func (k *Kernel) SocketError(fd int) syscall.Errno {
	value, errno := 0, syscall.EINTR
	for errno == syscall.EINTR {
		value, errno = k.calls.GetInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	}
	if errno != 0 {
		return errno
	}
	return syscall.Errno(value)
}

// Recv receives into p, which is not empty. 0 without an error is the end of
// the stream. A short receive means that nothing is left only if no event told
// of more than readability since the last EAGAIN.
func (k *Kernel) Recv(fd int, p []byte) (n int, errno syscall.Errno) {
	errno = syscall.EINTR
	for errno == syscall.EINTR {
		n, errno = k.calls.Recv(fd, p)
	}
	return n, errno
}

// Ended looks whether the end of a stream is next, and takes no byte off it. A
// failure that it meets is an end too: it is told once.
func (k *Kernel) Ended(fd int) bool {
	n, errno := 0, syscall.EINTR
	for errno == syscall.EINTR {
		n, errno = k.calls.Peek(fd, k.one[:])
	}
	return n == 0 && errno != syscall.EAGAIN
}

// Send sends of p what fits into the send queue; EPIPE raises no signal.
func (k *Kernel) Send(fd int, p []byte) (n int, errno syscall.Errno) {
	errno = syscall.EINTR
	for errno == syscall.EINTR {
		n, errno = k.calls.Send(fd, p)
	}
	return n, errno
}

// Splice moves at most max bytes from a socket into a pipe, or out of one. 0
// without an error is the end of the stream. EAGAIN: the source has nothing or
// the sink has no room. EINVAL: this cannot be spliced. EPIPE comes with a
// SIGPIPE, unlike that of Send; the Go runtime drops it unless the program asks
// for the signal (os/signal).
func (k *Kernel) Splice(from, to, max int) (n int, errno syscall.Errno) {
	errno = syscall.EINTR
	for errno == syscall.EINTR {
		n, errno = k.calls.Splice(from, to, max)
	}
	return n, errno
}

// ShutdownWrite sends the end of the stream behind what is queued.
func (k *Kernel) ShutdownWrite(fd int) syscall.Errno {
	errno := syscall.EINTR
	for errno == syscall.EINTR {
		errno = k.calls.Shutdown(fd, unix.SHUT_WR)
	}
	return errno
}

// Close closes a descriptor. The peer of a TCP socket gets what is queued and
// the end of the stream, but RST if something it sent was not received.
func (k *Kernel) Close(fd int) {
	k.calls.Close(fd) // whatever it answers, EINTR too, the descriptor is free (close(2))
}

// Reset closes a socket so that its peer gets RST at once; what is queued is
// lost. A unix socket knows no RST and is just closed.
func (k *Kernel) Reset(fd int) {
	errno := syscall.EINTR
	for errno == syscall.EINTR {
		errno = k.calls.SetLinger(fd, 0)
	}
	k.Close(fd)
}

// LocalAddr returns a socket's own address, IPv4 in IPv6 unmapped. It is invalid
// for a unix socket.
func (k *Kernel) LocalAddr(fd int) netip.AddrPort { return k.ask(fd, k.calls.LocalAddr) }

// SelfConnected reports whether a TCP socket is connected to itself, as a dial
// to a free port in the ephemeral range can end up.
func (k *Kernel) SelfConnected(fd int) bool {
	local := k.ask(fd, k.calls.LocalAddr)
	return local.IsValid() && local == k.ask(fd, k.calls.RemoteAddr)
}

// ask returns the address that call gives.
func (k *Kernel) ask(fd int, call func(int, *Address) syscall.Errno) netip.AddrPort {
	errno := syscall.EINTR
	for errno == syscall.EINTR {
		k.addr.empty()
		errno = call(fd, &k.addr)
	}
	if errno != 0 {
		return netip.AddrPort{}
	}
	return k.withZone(fd)
}

// withZone returns the address that the kernel gave last, with the name of its
// zone, or its number if it has no name any more.
func (k *Kernel) withZone(fd int) netip.AddrPort {
	ap, index := k.addr.addrPort()
	if index == 0 {
		return ap
	}
	name, errno := "", syscall.EINTR
	for errno == syscall.EINTR {
		name, errno = k.calls.Zone(fd, int(index))
	}
	if errno != 0 {
		name = strconv.Itoa(int(index))
	}
	return netip.AddrPortFrom(ap.Addr().WithZone(name), ap.Port())
}

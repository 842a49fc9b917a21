package epoll_test

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/l4/epoll"
)

func TestUnixSocketsHaveNoAddressAndNoInfo(t *testing.T) {
	r := newRig(t)
	a, b := r.unixPair()
	r.later(a)
	r.later(b)
	if _, _, ok := r.Info(a); ok {
		t.Error("there is TCP_INFO")
	}
	if ap := r.LocalAddr(a); ap.IsValid() {
		t.Errorf("address %v", ap)
	}
	if r.SelfConnected(a) {
		t.Error("connected to itself")
	}
	r.SetOptions(a, epoll.Options{}) // and it is harmless
	r.SetNoDelay(a)
}

func TestDialThatMeetsItself(t *testing.T) {
	r := newRig(t)
	a, b := r.pair()
	r.later(a)
	r.later(b)
	if r.SelfConnected(a) || r.SelfConnected(b) {
		t.Error("two sockets are taken for one")
	}
	any := r.parse("127.0.0.1:1")
	fd, errno := r.Socket(&any)
	r.ok("socket", errno)
	r.later(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	own := r.parse(r.LocalAddr(fd).String())
	if errno := r.Connect(fd, &own); errno != 0 && errno != syscall.EINPROGRESS {
		t.Fatal(errno)
	}
	r.await(fd, unix.POLLOUT)
	r.ok("connect", r.SocketError(fd))
	if !r.SelfConnected(fd) {
		t.Error("not seen")
	}
}

func TestAcceptSaysWhoCame(t *testing.T) {
	for listen, from := range map[string]string{
		"127.0.0.1:0": "127.0.0.1",
		"[::1]:0":     "::1",
		"[::]:0":      "127.0.0.1", // arrives as ::ffff:127.0.0.1
	} {
		t.Run(listen, func(t *testing.T) {
			r := newRig(t)
			ln, _ := r.listen(listen, 1)
			if _, _, errno := r.Accept(ln); errno != syscall.EAGAIN {
				t.Errorf("an empty queue: %v", errno)
			}
			port := r.LocalAddr(ln).Port()
			at := r.parse(netip.AddrPortFrom(netip.MustParseAddr(from), port).String())
			a := r.later(r.connect(at))
			b, who := r.accept(ln)
			r.later(b)
			if who != r.LocalAddr(a) || who.Addr().String() != from {
				t.Errorf("from %v, the client is %v", who, r.LocalAddr(a))
			}
			if own := r.LocalAddr(b); own != netip.AddrPortFrom(who.Addr(), port) {
				t.Errorf("to %v, port %d", own, port)
			}
			for _, fd := range []int{a, b} {
				status, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
				flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				if status&unix.O_NONBLOCK == 0 || flags&unix.FD_CLOEXEC == 0 {
					t.Errorf("flags %#x and %#x", status, flags)
				}
			}
		})
	}
}

// A unix socket's peer has no address. Its queue can be full, of which no event
// tells, and its path can be as long as it may.
func TestUnixSockets(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir() + "/"
	if len(dir) > 100 {
		dir = "/tmp/"
	}
	path := dir + strings.Repeat("s", 107-len(dir))
	ln, at := r.listen("unix:"+path, 0)
	defer unix.Unlink(path)
	var connected []int
	errno := syscall.Errno(0)
	for len(connected) < 100 && errno == 0 {
		fd, e := r.Socket(&at)
		r.ok("socket", e)
		errno = r.Connect(fd, &at)
		connected = append(connected, r.later(fd))
	}
	if errno != syscall.EAGAIN {
		t.Errorf("the %dth: %v, want %v", len(connected), errno, syscall.EAGAIN)
	}
	fd, from := r.accept(ln)
	r.later(fd)
	if from.IsValid() || at.TCP() {
		t.Errorf("from %v", from)
	}
	r.ok("again", r.Connect(connected[len(connected)-1], &at))
	none := r.parse("unix:" + path[:106])
	if errno := r.Connect(fd, &none); errno != syscall.EISCONN && errno != syscall.ENOENT {
		t.Errorf("to nobody: %v", errno)
	}
}

func TestConnectThatIsRefused(t *testing.T) {
	r := newRig(t)
	bound, errno := r.Socket(new(r.parse("127.0.0.1:1")))
	r.ok("socket", errno)
	r.later(bound)
	if err := unix.Bind(bound, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at := r.parse(r.LocalAddr(bound).String()) // bound, but nobody listens
	fd, errno := r.Socket(&at)
	r.ok("socket", errno)
	r.later(fd)
	if errno = r.Connect(fd, &at); errno == syscall.EINPROGRESS {
		r.await(fd, unix.POLLOUT)
		errno = r.SocketError(fd)
	}
	if errno != syscall.ECONNREFUSED {
		t.Errorf("%v, want %v", errno, syscall.ECONNREFUSED)
	}
}

package epoll_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/l4/epoll"
)

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// rig is a kernel and what a test opens with it, and finds what is left open.
// The tests here share the process's descriptors: none runs in parallel.
type rig struct {
	*testing.T
	*epoll.Kernel
}

func newRig(t *testing.T) rig { return newRigOf(t, epoll.System()) }

func newRigOf(t *testing.T, c epoll.Calls) rig {
	t.Helper()
	before := descriptors(t)
	t.Cleanup(func() {
		if after := descriptors(t); after != before {
			t.Errorf("%d descriptors are open, %d were before", after, before)
		}
	})
	return rig{t, epoll.NewKernel(c)}
}

// descriptors counts this process's open descriptors.
func descriptors(t testing.TB) int {
	t.Helper()
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(names) == 0 {
		t.Skip("no /proc/self/fd")
	}
	return len(names)
}

// later closes fd as the test ends.
func (r rig) later(fd int) int {
	r.Cleanup(func() { r.Close(fd) })
	return fd
}

func (r rig) ok(what string, errno syscall.Errno) {
	r.Helper()
	if errno != 0 {
		r.Fatalf("%s: %v", what, errno)
	}
}

func (r rig) parse(s string) epoll.Address {
	r.Helper()
	a, err := epoll.ParseAddress(s)
	if err != nil {
		r.Fatal(err)
	}
	return a
}

// poller returns a new poller.
func (r rig) poller() *epoll.Poller {
	r.Helper()
	p, err := epoll.NewPoller(r.Kernel)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(p.Close)
	return p
}

// listen listens on "ip:0" or "unix:/path" and returns the address to connect to.
func (r rig) listen(address string, backlog int) (fd int, at epoll.Address) {
	r.Helper()
	family, sa := unix.AF_UNIX, unix.Sockaddr(nil)
	if ap, err := netip.ParseAddrPort(address); err != nil {
		sa = &unix.SockaddrUnix{Name: address[len("unix:"):]}
	} else if ap.Addr().Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Addr: ap.Addr().As4()}
	} else {
		family, sa = unix.AF_INET6, &unix.SockaddrInet6{Addr: ap.Addr().As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		r.Skip(err)
	}
	r.later(fd)
	if err := unix.Bind(fd, sa); err != nil {
		r.Skip(err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		r.Fatal(err)
	}
	if ap := r.LocalAddr(fd); ap.IsValid() {
		address = ap.String()
	}
	return fd, r.parse(address)
}

// accept waits for the next connection of a listener.
func (r rig) accept(ln int) (fd int, from netip.AddrPort) {
	r.Helper()
	r.await(ln, unix.POLLIN)
	fd, from, errno := r.Accept(ln)
	r.ok("accept", errno)
	return fd, from
}

// connect connects a new socket.
func (r rig) connect(a epoll.Address) int {
	r.Helper()
	fd, errno := r.Socket(&a)
	r.ok("socket", errno)
	if errno := r.Connect(fd, &a); errno == syscall.EINPROGRESS {
		r.await(fd, unix.POLLOUT)
		r.ok("connect", r.SocketError(fd))
	} else {
		r.ok("connect", errno)
	}
	return fd
}

// pair returns the two ends of a TCP connection, for the caller to close.
func (r rig) pair() (a, b int) {
	r.Helper()
	ln, at := r.listen("127.0.0.1:0", 1)
	a = r.connect(at)
	b, _ = r.accept(ln)
	return a, b
}

// unixPair returns two unix sockets that are connected, for the caller to close.
func (r rig) unixPair() (a, b int) {
	r.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		r.Fatal(err)
	}
	return fds[0], fds[1]
}

// await waits until fd shows one of the events to poll, which takes nothing from
// it and no edge from a poller.
func (r rig) await(fd int, events int16) {
	r.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if n, err := unix.Poll(fds, int(patience.Milliseconds())); n > 0 && err == nil {
			if fds[0].Revents&events != 0 {
				return
			}
		}
	}
	r.Fatalf("events %#x, want one of %#x", fds[0].Revents, events)
}

// arrived waits until fd received n, an end counted as one, without reading.
func (r rig) arrived(fd int, n uint64) {
	r.Helper()
	var got uint64
	r.eventually("all arrived", func() bool {
		_, got, _ = r.Info(fd)
		return got >= n
	})
	if got != n {
		r.Fatalf("received %d, want %d", got, n)
	}
}

func (r rig) eventually(what string, holds func() bool) {
	r.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			r.Fatalf("not in %v: %s", patience, what)
		}
	}
}

func (r rig) send(fd int, s string) {
	r.Helper()
	if n, errno := r.Send(fd, []byte(s)); n != len(s) || errno != 0 {
		r.Fatalf("send %q: %d, %v", s, n, errno)
	}
}

// wantRecv receives once and wants these bytes or this error; "" and 0 is the
// end.
func (r rig) wantRecv(fd int, want string, wantErrno syscall.Errno) {
	r.Helper()
	p := make([]byte, 100)
	n, errno := r.Recv(fd, p)
	if string(p[:n]) != want || errno != wantErrno {
		r.Errorf("received %q, %v, want %q, %v", p[:n], errno, want, wantErrno)
	}
}

// wantInt wants this value of a socket's option.
func (r rig) wantInt(fd, level, option, want int) {
	r.Helper()
	if got, err := unix.GetsockoptInt(fd, level, option); got != want || err != nil {
		r.Errorf("option %d of level %d: %d, %v, want %d", option, level, got, err, want)
	}
}

// interrupted returns the system's calls, each of which a signal breaks off
// every other time, and how often that was by the name of the call. As in the
// kernel, a connect that is broken off goes on and a close has closed.
func interrupted() (epoll.Calls, map[string]int) {
	c, broken := epoll.System(), map[string]int{}
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		name, system := v.Type().Field(i).Name, reflect.ValueOf(v.Field(i).Interface())
		again, done := false, name == "Connect" || name == "Close"
		v.Field(i).Set(reflect.MakeFunc(system.Type(), func(in []reflect.Value) (out []reflect.Value) {
			if again = !again; !again {
				return system.Call(in)
			}
			broken[name]++
			if done {
				system.Call(in)
			}
			for result := range system.Type().Outs() {
				out = append(out, reflect.Zero(result))
			}
			out[len(out)-1] = reflect.ValueOf(syscall.EINTR)
			return out
		}))
	}
	return c, broken
}

func TestMain(m *testing.M) {
	// What the runtime opens for its own poller is not ours to count.
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
	os.Exit(m.Run())
}

package epoll_test

import (
	"fmt"
	"reflect"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/l4/epoll"
)

// What splice says of an empty source, of a full sink and of the end.
func TestSpliceMovesBytes(t *testing.T) {
	r := newRig(t)
	a, b := r.pair()
	r.later(a)
	r.later(b)
	pipes := epoll.NewPipes(r.Kernel, epoll.NewPipeBudget())
	defer pipes.Close()
	p := pipes.Take()
	defer pipes.Give(p)
	want := func(what string, n int, errno syscall.Errno, wantN int, wantErrno syscall.Errno) {
		t.Helper()
		if n != wantN || errno != wantErrno {
			t.Fatalf("%s: %d, %v, want %d, %v", what, n, errno, wantN, wantErrno)
		}
	}
	n, errno := r.Splice(a, p.W, p.Size)
	want("nothing there", n, errno, 0, syscall.EAGAIN)
	r.send(b, "hello")
	r.arrived(a, 5)
	n, errno = r.Splice(a, p.W, 3)
	want("some", n, errno, 3, 0)
	n, errno = r.Splice(a, p.W, p.Size)
	want("the rest", n, errno, 2, 0)
	n, errno = r.Splice(p.R, a, 5)
	want("out again", n, errno, 5, 0)
	r.arrived(b, 5)
	r.wantRecv(b, "hello", 0)
	r.ok("shutdown", r.ShutdownWrite(b))
	r.arrived(a, 6)
	n, errno = r.Splice(a, p.W, p.Size)
	want("the end", n, errno, 0, 0)
	n, errno = r.Splice(a, b, 1)
	want("no pipe", n, errno, 0, syscall.EINVAL)
}

// A signal breaks off each call every other time. Nothing is lost, and nothing
// is done twice.
func TestSignalsAreNotSeen(t *testing.T) {
	calls, broken := interrupted()
	r := newRigOf(t, calls)
	p := r.poller()
	ln, at := r.listen("127.0.0.1:0", 1)
	r.ok("add", p.AddListener(ln, epoll.Token{Slot: 1}))
	a, errno := r.Socket(&at)
	r.ok("socket", errno)
	r.later(a)
	if errno := r.Connect(a, &at); errno != syscall.EINPROGRESS {
		t.Errorf("connect: %v, want %v", errno, syscall.EINPROGRESS)
	}
	r.await(a, unix.POLLOUT)
	r.ok("connect", r.SocketError(a))
	b, from := r.accept(ln)
	if from != r.LocalAddr(a) || r.SelfConnected(a) {
		t.Errorf("from %v", from)
	}
	r.send(a, "hello")
	r.arrived(b, 5)
	pipes := epoll.NewPipes(r.Kernel, epoll.NewPipeBudget())
	defer pipes.Close()
	pipe := pipes.Take()
	if n, errno := r.Splice(b, pipe.W, 2); n != 2 || errno != 0 {
		t.Errorf("splice: %d, %v", n, errno)
	}
	pipe.Held = 2
	pipes.Give(pipe)
	if r.Ended(b) {
		t.Error("what has bytes to read is at its end")
	}
	r.wantRecv(b, "llo", 0)
	if r.Ended(b) {
		t.Error("what has nothing to read is at its end")
	}
	r.SetOptions(b, epoll.Options{KeepAliveIdle: 1})
	r.wantInt(b, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	r.eventually("nothing is unsent", func() bool { return r.Unsent(a) == 0 })
	p.Wake()
	p.Wait(0)
	r.ok("remove", p.Remove(ln))
	r.ok("shutdown", r.ShutdownWrite(a))
	r.eventually("the end is seen", func() bool { return r.Ended(b) })
	r.Reset(b)
	for field := range reflect.TypeFor[epoll.Calls]().Fields() {
		// These two have tests of their own.
		if name := field.Name; broken[name] == 0 && name != "PipeSize" && name != "Zone" {
			t.Errorf("%s was not broken off", name)
		}
	}
}

// A close that a signal broke off has closed: the descriptor may be another's.
func TestCloseIsNotRepeated(t *testing.T) {
	calls := epoll.System()
	closes := 0
	system := calls.Close
	calls.Close = func(fd int) syscall.Errno {
		closes++
		system(fd)
		return syscall.EINTR
	}
	r := newRigOf(t, calls)
	a, b := r.unixPair()
	r.Close(a)
	r.Reset(b)
	if closes != 2 {
		t.Errorf("%d closes of 2 sockets", closes)
	}
}

func TestErrorsComeBackAsTheyAre(t *testing.T) {
	r := newRig(t)
	a := r.parse("127.0.0.1:1")
	fd, from, accept := r.Accept(-1)
	_, recv := r.Recv(-1, make([]byte, 1))
	_, send := r.Send(-1, make([]byte, 1))
	_, splice := r.Splice(-1, -1, 1)
	for name, errno := range map[string]syscall.Errno{
		"accept": accept, "recv": recv, "send": send, "splice": splice, "connect": r.Connect(-1, &a),
		"SO_ERROR": r.SocketError(-1), "shutdown": r.ShutdownWrite(-1),
	} {
		if errno != syscall.EBADF {
			t.Errorf("%s: %v", name, errno)
		}
	}
	if _, _, ok := r.Info(-1); ok || r.LocalAddr(-1).IsValid() || from.IsValid() || fd != -1 {
		t.Errorf("what is no descriptor answers: %v, %v, %d", ok, from, fd)
	}
}

// What a loop does for each connection and each chunk allocates nothing.
func TestCallsAllocateNothing(t *testing.T) {
	r := newRig(t)
	p := r.poller()
	ln, at := r.listen("127.0.0.1:0", 1)
	a, b := r.unixPair()
	r.later(a)
	r.later(b)
	buf := make([]byte, 10)
	for name, f := range map[string]func(){
		"a dial": func() {
			fd, _ := r.Socket(&at)
			r.Connect(fd, &at)
			p.Add(fd, epoll.Token{})
			p.Wait(-1)
			r.SelfConnected(fd)
			r.Info(fd)
			p.Remove(fd)
			peer, _, _ := r.Accept(ln)
			r.SetOptions(peer, epoll.Options{KeepAliveIdle: 1})
			r.Reset(peer)
			r.Close(fd)
		},
		"a byte": func() {
			r.Send(a, buf[:1])
			r.Recv(b, buf)
			r.Unsent(a)
		},
		"a wake": func() {
			p.Wake()
			p.Wait(-1)
		},
	} {
		if n := testing.AllocsPerRun(20, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkRecvSend(b *testing.B) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	k := epoll.NewKernel(epoll.System())
	for _, size := range []int{1, 16 << 10} {
		p := make([]byte, size)
		b.Run(fmt.Sprintf("kernel/%d", size), func(b *testing.B) {
			for b.Loop() {
				k.Send(fds[0], p)
				k.Recv(fds[1], p)
			}
		})
		b.Run(fmt.Sprintf("syscall/%d", size), func(b *testing.B) {
			for b.Loop() {
				syscall.Write(fds[0], p)
				syscall.Read(fds[1], p)
			}
		})
	}
}

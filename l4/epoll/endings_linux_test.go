package epoll_test

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/l4/epoll"
)

// An error is taken once, by whatever comes first: what follows is told of an
// end that nobody sent.
func TestErrorOfASocketIsTakenOnce(t *testing.T) {
	send := func(r rig, fd int) syscall.Errno {
		_, errno := r.Send(fd, []byte("x"))
		return errno
	}
	recv := func(r rig, fd int) syscall.Errno {
		_, errno := r.Recv(fd, make([]byte, 1))
		return errno
	}
	ask := func(r rig, fd int) syscall.Errno { return r.SocketError(fd) }
	for _, c := range []struct {
		name         string
		first        func(rig, int) syscall.Errno
		recvs, sends syscall.Errno // after the first
	}{
		{"receive", recv, 0, syscall.EPIPE},
		{"send", send, 0, syscall.EPIPE},
		{"SO_ERROR", ask, 0, syscall.EPIPE},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			a, b := r.pair()
			r.later(a)
			r.Reset(b)
			r.await(a, unix.POLLERR)
			if closed, _, ok := r.Info(a); !closed || !ok {
				t.Errorf("Info: closed %v, %v", closed, ok)
			}
			if errno := c.first(r, a); errno != syscall.ECONNRESET {
				t.Errorf("first %v, want %v", errno, syscall.ECONNRESET)
			}
			r.wantRecv(a, "", c.recvs)
			if errno := send(r, a); errno != c.sends {
				t.Errorf("then send: %v, want %v", errno, c.sends)
			}
			r.wantRecv(a, "", 0)
		})
	}
}

// What came before a reset is received before it.
func TestDataComesBeforeTheReset(t *testing.T) {
	r := newRig(t)
	a, b := r.pair()
	r.later(a)
	r.send(b, "last words")
	r.arrived(a, 10)
	r.Reset(b)
	r.await(a, unix.POLLERR)
	r.wantRecv(a, "last words", 0)
	r.wantRecv(a, "", syscall.ECONNRESET)
	r.wantRecv(a, "", 0)
}

func TestCloseAndReset(t *testing.T) {
	for _, c := range []struct {
		name  string
		heard string // by the side that is closed, which does not receive it
		close func(rig, int)
		want  syscall.Errno
	}{
		{"close", "", func(r rig, fd int) { r.Close(fd) }, 0},
		{"close unread", "x", func(r rig, fd int) { r.Close(fd) }, syscall.ECONNRESET},
		{"reset", "", func(r rig, fd int) { r.Reset(fd) }, syscall.ECONNRESET},
		{"shut", "x", func(r rig, fd int) {
			r.ok("shutdown", r.ShutdownWrite(fd))
			r.later(fd)
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			a, b := r.pair()
			r.later(a)
			if c.heard != "" {
				r.send(a, c.heard)
				r.arrived(b, uint64(len(c.heard)))
			}
			c.close(r, b)
			r.await(a, unix.POLLIN|unix.POLLERR)
			r.wantRecv(a, "", c.want)
		})
	}
}

// A send to a side that is gone fails and raises no signal. A splice raises one,
// which is the caller's to ignore, as the Go runtime does.
func TestNoSignalOfABrokenPipe(t *testing.T) {
	r := newRig(t)
	a, b := r.pair()
	r.later(a)
	pipes := epoll.NewPipes(r.Kernel, epoll.NewPipeBudget())
	p := pipes.Take()
	defer pipes.Close()
	defer pipes.Give(p)
	r.ok("shutdown", r.ShutdownWrite(a))
	r.Close(b)
	if n, err := unix.Write(p.W, []byte("x")); n != 1 {
		t.Fatal(err)
	}
	p.Held = 1
	if _, errno := r.Splice(p.R, a, 1); errno != syscall.EPIPE {
		t.Errorf("splice: %v, want %v", errno, syscall.EPIPE)
	}
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, syscall.SIGPIPE, syscall.SIGWINCH)
	defer signal.Stop(signals)
	if _, errno := r.Send(a, []byte("x")); errno != syscall.EPIPE {
		t.Errorf("send: %v, want %v", errno, syscall.EPIPE)
	}
	unix.Kill(unix.Getpid(), syscall.SIGWINCH) // which comes behind the other
	if got := <-signals; got != syscall.SIGWINCH {
		t.Errorf("signal %v", got)
	}
}

// The count of a connection is of bytes, and one for the end.
func TestInfoCountsWhatArrived(t *testing.T) {
	r := newRig(t)
	a, b := r.pair()
	r.later(a)
	r.later(b)
	if closed, n, ok := r.Info(a); closed || n != 0 || !ok {
		t.Errorf("new: %v, %d, %v", closed, n, ok)
	}
	r.send(b, "hello")
	r.arrived(a, 5)
	r.ok("shutdown", r.ShutdownWrite(b))
	r.arrived(a, 6)
	r.wantRecv(a, "hello", 0)
	r.wantRecv(a, "", 0)
	if closed, n, ok := r.Info(a); closed || n != 6 || !ok {
		t.Errorf("half closed: %v, %d, %v", closed, n, ok)
	}
}

func TestUnsentIsWhatThePeerHasNotTaken(t *testing.T) {
	for name, pair := range map[string]func(rig) (int, int){"tcp": rig.pair, "unix": rig.unixPair} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a, b := pair(r)
			r.later(a)
			r.later(b)
			if n := r.Unsent(a); n != 0 {
				t.Errorf("%d before anything", n)
			}
			chunk, sent := make([]byte, 64<<10), 0
			for {
				n, errno := r.Send(a, chunk)
				if sent += n; errno == syscall.EAGAIN {
					break
				}
				r.ok("send", errno)
			}
			if n := r.Unsent(a); n == 0 {
				t.Errorf("%d after %d that nobody received", n, sent)
			}
			for sent > 0 {
				r.await(b, unix.POLLIN)
				n, errno := r.Recv(b, chunk)
				r.ok("recv", errno)
				sent -= n
			}
			r.eventually("nothing is unsent", func() bool { return r.Unsent(a) == 0 })
		})
	}
	r := newRig(t)
	if n := r.Unsent(-1); n != 0 {
		t.Errorf("%d of no socket", n)
	}
}

package l4

import (
	"net"
	"syscall"
	"testing"

	"sluice/l4/epoll"

	"golang.org/x/sys/unix"
)

// A splice at an urgent mark says that there is nothing, whatever is behind it,
// and no event comes for what was there already: the byte has to be received
// over.
func TestSpliceAtAnUrgentMarkIsNotTheLastWord(t *testing.T) {
	t.Parallel()
	from, to := urgentPair(t)
	if _, err := unix.SendmsgN(to, []byte{'!'}, nil, nil, unix.MSG_OOB); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(to, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	k := epoll.NewKernel(epoll.System())
	l := &loop{kernel: k, pipes: epoll.NewPipes(k, epoll.NewPipeBudget())}
	f := &flow{by: bySplice}
	src := &sock{fd: int32(from), readable: true, sticky: true}
	l.fill(f, src)
	if !src.readable || f.by != byCopy {
		t.Errorf("readable %t, mode %d; want true and to receive", src.readable, f.by)
	}
	n, errno := k.Recv(from, make([]byte, 200))
	if n != 100 || errno != 0 {
		t.Errorf("the receive got %d bytes, %v; want 100", n, errno)
	}
	l.pipes.Give(f.pipe)
	l.pipes.Close()
}

// At an urgent mark a signal makes a receive say so too: it is asked once more.
func TestReceiveThatSaysNothingAtAnUrgentMarkIsRepeated(t *testing.T) {
	t.Parallel()
	f, src := &flow{}, &sock{readable: true, sticky: true}
	for _, readable := range []bool{true, false} {
		if f.received(src, -1, syscall.EAGAIN, 10) || src.readable != readable {
			t.Errorf("readable is %t, want %t", src.readable, readable)
		}
	}
}

// urgentPair returns the descriptors of a TCP connection: of the end that
// receives, which never blocks, and of the one that sends.
func urgentPair(t *testing.T) (from, to int) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	sender, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sender.Close() })
	receiver, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { receiver.Close() })
	fd := func(c net.Conn) (fd int) {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(u uintptr) { fd = int(u) })
		return fd
	}
	return fd(receiver), fd(sender)
}

package l4

import (
	"syscall"
	"time"

	"sluice/l4/epoll"

	"golang.org/x/sys/unix"
)

// calls returns the calls of k.
func (k *faulty) calls() epoll.Calls {
	real := k.real
	c := real // Zone, the addresses and what only asks stay as they are, but for signals
	c.EpollCreate = func() (int, syscall.Errno) { return k.open("epoll_create1", real.EpollCreate) }
	c.Eventfd = func() (int, syscall.Errno) { return k.open("eventfd2", real.Eventfd) }
	c.Socket = func(family int) (int, syscall.Errno) {
		return k.open("socket", func() (int, syscall.Errno) { return real.Socket(family) })
	}
	c.Accept = func(fd int, from *epoll.Address) (int, syscall.Errno) {
		return k.open("accept4", func() (int, syscall.Errno) { return real.Accept(fd, from) }, fd)
	}
	c.EpollWait = k.epollWait
	c.EpollCtl = k.epollCtl
	c.Connect = func(fd int, to *epoll.Address) syscall.Errno {
		f := k.fateOf("connect", fd)
		if f.errno != 0 && f.errno != syscall.EINTR {
			return f.errno
		}
		errno := real.Connect(fd, to)
		if f.errno == syscall.EINTR && (errno == 0 || errno == syscall.EINPROGRESS) {
			return f.errno
		}
		return errno
	}
	c.Write = func(fd int, p []byte) (int, syscall.Errno) {
		return k.count("write", func(int) (int, syscall.Errno) { return real.Write(fd, p) }, len(p), fd)
	}
	c.Recv = func(fd int, p []byte) (int, syscall.Errno) {
		return k.count("recv", func(max int) (int, syscall.Errno) { return real.Recv(fd, p[:max]) }, len(p), fd)
	}
	c.Peek = func(fd int, p []byte) (int, syscall.Errno) {
		if f := k.fateOf("peek", fd); f.errno != 0 {
			return 0, f.errno
		}
		return real.Peek(fd, p)
	}
	c.Send = func(fd int, p []byte) (int, syscall.Errno) {
		return k.count("send", func(max int) (int, syscall.Errno) { return real.Send(fd, p[:max]) }, len(p), fd)
	}
	c.Splice = func(from, to, max int) (int, syscall.Errno) {
		call := "fill"
		if k.watches(to) {
			call = "empty"
		}
		return k.count(call, func(max int) (int, syscall.Errno) { return real.Splice(from, to, max) }, max, from, to)
	}
	c.Shutdown = func(fd, how int) syscall.Errno {
		if f := k.fateOf("shutdown", fd); f.errno != 0 {
			return f.errno
		}
		k.moved()
		return real.Shutdown(fd, how)
	}
	c.Close = func(fd int) syscall.Errno {
		k.close(fd)
		return syscall.EINTR // which says nothing: it is closed
	}
	c.Pipe = func() (r, w int, errno syscall.Errno) {
		if f := k.fateOf("pipe2"); f.errno != 0 {
			return -1, -1, f.errno
		}
		if r, w, errno = real.Pipe(); errno == 0 {
			k.opened("pipe2", r, w)
		}
		return r, w, errno
	}
	c.SetPipeSize = k.setPipeSize
	c.RemoteAddr = func(fd int, a *epoll.Address) syscall.Errno {
		k.fateOf("getpeername", fd)
		if k.self {
			return real.LocalAddr(fd, a)
		}
		return real.RemoteAddr(fd, a)
	}
	c.SetInt = func(fd, level, option, value int) syscall.Errno {
		if f := k.fateOf("setsockopt", fd); f.errno != 0 {
			return f.errno
		}
		return real.SetInt(fd, level, option, value)
	}
	c.GetInt = func(fd, level, option int) (int, syscall.Errno) {
		if f := k.fateOf("getsockopt", fd); f.errno != 0 {
			return 0, f.errno
		}
		return real.GetInt(fd, level, option)
	}
	c.SetLinger = func(fd, seconds int) syscall.Errno {
		if f := k.fateOf("linger", fd); f.errno != 0 {
			return f.errno
		}
		return real.SetLinger(fd, seconds)
	}
	c.Unsent = func(fd int) (int, syscall.Errno) {
		if f := k.fateOf("unsent", fd); f.errno != 0 {
			return 0, f.errno
		}
		return real.Unsent(fd)
	}
	c.Info = func(fd int, info *unix.TCPInfo) (int, syscall.Errno) {
		if f := k.fateOf("info", fd); f.errno != 0 {
			return 0, f.errno
		}
		return real.Info(fd, info)
	}
	return c
}

// open makes a call that opens a descriptor.
func (k *faulty) open(call string, real func() (int, syscall.Errno), fds ...int) (int, syscall.Errno) {
	if f := k.fateOf(call, fds...); f.errno != 0 {
		return -1, f.errno
	}
	fd, errno := real()
	if errno == 0 {
		k.opened(call, fd)
		if k.tight {
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1) // no matter what fd is
		}
	}
	return fd, errno
}

// count makes a call that counts bytes, of at most max.
func (k *faulty) count(call string, real func(max int) (int, syscall.Errno), max int, fds ...int) (int, syscall.Errno) {
	f := k.fateOf(call, fds...)
	if f.short && max > 1 {
		max = k.part(max - 1)
	}
	if n := k.flood(call, max, fds...); n > 0 {
		return n, 0
	}
	if f.errno == 0 {
		n, errno := real(max)
		if f.short && call == "recv" {
			k.again(fds...)
		}
		if errno == 0 { // 0 bytes are an end
			k.moved()
		}
		return n, errno
	}
	if f.errno == syscall.EAGAIN {
		k.again(fds...)
	}
	return 0, f.errno
}

func (k *faulty) epollWait(epfd int, events []unix.EpollEvent, ms int) (int, syscall.Errno) {
	f := k.fateOf("epoll_pwait", epfd)
	if f.errno != 0 {
		return 0, f.errno
	}
	if f.short {
		events = events[:1]
	}
	began := time.Now()
	n, errno := k.real.EpollWait(epfd, events, ms)
	k.waited(epfd, n, time.Since(began))
	return n, errno
}

func (k *faulty) epollCtl(epfd, op, fd int, event *unix.EpollEvent) syscall.Errno {
	call := map[int]string{unix.EPOLL_CTL_ADD: "epoll_add", unix.EPOLL_CTL_DEL: "epoll_del"}[op]
	if f := k.fateOf(call, epfd, fd); f.errno != 0 {
		return f.errno
	}
	errno := k.real.EpollCtl(epfd, op, fd, event)
	if errno == 0 && op == unix.EPOLL_CTL_ADD && event.Events&unix.EPOLLEXCLUSIVE == 0 {
		k.mu.Lock()
		k.watched[fd] = watch{epfd, *event}
		k.mu.Unlock()
	}
	return errno
}

// setPipeSize can say that a pipe is large and make it small.
func (k *faulty) setPipeSize(fd, size int) (int, syscall.Errno) {
	if f := k.fateOf("pipe_size", fd); f.errno != 0 {
		return 0, f.errno
	}
	if k.shrink == 0 {
		return k.real.SetPipeSize(fd, size)
	}
	k.real.SetPipeSize(fd, k.shrink)
	return size, 0
}

// calledSoFar returns how many calls of a kind there were.
func (k *faulty) calledSoFar(call string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.made[call]
}

// stillOpen returns how many descriptors of a call are open.
func (k *faulty) stillOpen(call string) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.owned {
		if c == call {
			n++
		}
	}
	return n
}

package epoll

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Calls are the system calls of a loop, one attempt each: EINTR comes back as
// any other error. They are funcs so that a test can wrap them and make them
// fail. A descriptor is -1 and a count 0 where there is an error. All but Write
// are called by the loop alone; Write also by who wakes it.
type Calls struct {
	EpollCreate func() (fd int, errno syscall.Errno)
	EpollCtl    func(epfd, op, fd int, event *unix.EpollEvent) syscall.Errno
	EpollWait   func(epfd int, events []unix.EpollEvent, ms int) (n int, errno syscall.Errno) // ms < 0: no end
	Eventfd     func() (fd int, errno syscall.Errno)
	Write       func(fd int, p []byte) (n int, errno syscall.Errno) // to the eventfd

	Accept     func(fd int, from *Address) (nfd int, errno syscall.Errno)
	Socket     func(family int) (fd int, errno syscall.Errno)
	Connect    func(fd int, to *Address) syscall.Errno
	LocalAddr  func(fd int, a *Address) syscall.Errno
	RemoteAddr func(fd int, a *Address) syscall.Errno
	Recv       func(fd int, p []byte) (n int, errno syscall.Errno)
	Peek       func(fd int, p []byte) (n int, errno syscall.Errno) // Recv that leaves the bytes
	Send       func(fd int, p []byte) (n int, errno syscall.Errno)
	Splice     func(from, to, max int) (n int, errno syscall.Errno)
	Shutdown   func(fd, how int) syscall.Errno
	Close      func(fd int) syscall.Errno

	Pipe        func() (r, w int, errno syscall.Errno)
	PipeSize    func(fd int) (size int, errno syscall.Errno)
	SetPipeSize func(fd, size int) (got int, errno syscall.Errno) // got may be more than size

	GetInt    func(fd, level, option int) (value int, errno syscall.Errno)
	SetInt    func(fd, level, option, value int) syscall.Errno
	SetLinger func(fd, seconds int) syscall.Errno // SO_LINGER on
	Unsent    func(fd int) (n int, errno syscall.Errno)
	Info      func(fd int, info *unix.TCPInfo) (size int, errno syscall.Errno) // bytes of info that are filled
	Zone      func(fd, index int) (name string, errno syscall.Errno)
}

// System returns the real calls. All keep hold of the scheduler's P, which is
// right for what never waits; only EpollWait with a timeout lets go of it.
func System() Calls {
	return Calls{
		EpollCreate: epollCreate,
		EpollCtl:    epollCtl,
		EpollWait:   epollWait,
		Eventfd:     eventfd,
		Write:       write,
		Accept:      accept,
		Socket:      socket,
		Connect:     connect,
		LocalAddr:   localAddr,
		RemoteAddr:  remoteAddr,
		Recv:        recv,
		Peek:        peek,
		Send:        send,
		Splice:      splice,
		Shutdown:    shutdown,
		Close:       closeFD,
		Pipe:        pipe,
		PipeSize:    pipeSize,
		SetPipeSize: setPipeSize,
		GetInt:      getInt,
		SetInt:      setInt,
		SetLinger:   setLinger,
		Unsent:      unsent,
		Info:        info,
		Zone:        zone,
	}
}

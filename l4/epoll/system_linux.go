package epoll

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The pointers below are converted in the argument list of the call, where the
// compiler keeps what they point to alive and in place (unsafe.Pointer, rule 4).

func epollCreate() (int, syscall.Errno) {
	return descriptor(syscall.RawSyscall(unix.SYS_EPOLL_CREATE1, unix.EPOLL_CLOEXEC, 0, 0))
}

func epollCtl(epfd, op, fd int, event *unix.EpollEvent) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epfd), uintptr(op), uintptr(fd),
		uintptr(unsafe.Pointer(event)), 0, 0)
	return errno
}

// epollWait is epoll_pwait without a mask, because newer architectures have no
// epoll_wait. What may wait has to tell the scheduler.
func epollWait(epfd int, events []unix.EpollEvent, ms int) (int, syscall.Errno) {
	if ms == 0 {
		return count(syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd),
			uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0))
	}
	return count(syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), uintptr(ms), 0, 0))
}

func eventfd() (int, syscall.Errno) {
	return descriptor(syscall.RawSyscall(unix.SYS_EVENTFD2, 0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC, 0))
}

func write(fd int, p []byte) (int, syscall.Errno) {
	return count(syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

func accept(fd int, from *Address) (int, syscall.Errno) {
	return descriptor(syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&from.raw)),
		uintptr(unsafe.Pointer(&from.size)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0))
}

func socket(family int) (int, syscall.Errno) {
	return descriptor(syscall.RawSyscall(unix.SYS_SOCKET, uintptr(family),
		unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))
}

func connect(fd int, to *Address) syscall.Errno {
	_, _, errno := syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), uintptr(to.size))
	return errno
}

func localAddr(fd int, a *Address) syscall.Errno {
	_, _, errno := syscall.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)),
		uintptr(unsafe.Pointer(&a.size)))
	return errno
}

func remoteAddr(fd int, a *Address) syscall.Errno {
	_, _, errno := syscall.RawSyscall(unix.SYS_GETPEERNAME, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)),
		uintptr(unsafe.Pointer(&a.size)))
	return errno
}

func recv(fd int, p []byte) (int, syscall.Errno) {
	return count(syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), 0, 0, 0))
}

func peek(fd int, p []byte) (int, syscall.Errno) {
	return count(syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), unix.MSG_PEEK, 0, 0))
}

func send(fd int, p []byte) (int, syscall.Errno) {
	return count(syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0))
}

// splice never says MORE, which holds the tail back for up to 200 ms.
func splice(from, to, max int) (int, syscall.Errno) {
	return count(syscall.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(max),
		unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK))
}

func shutdown(fd, how int) syscall.Errno {
	_, _, errno := syscall.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), uintptr(how), 0)
	return errno
}

func closeFD(fd int) syscall.Errno {
	_, _, errno := syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	return errno
}

func pipe() (r, w int, errno syscall.Errno) {
	var fds [2]int32
	_, _, errno = syscall.RawSyscall(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&fds)), unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errno != 0 {
		return -1, -1, errno
	}
	return int(fds[0]), int(fds[1]), 0
}

func pipeSize(fd int) (int, syscall.Errno) {
	return count(syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_GETPIPE_SZ, 0))
}

func setPipeSize(fd, size int) (int, syscall.Errno) {
	return count(syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETPIPE_SZ, uintptr(size)))
}

func getInt(fd, level, option int) (int, syscall.Errno) {
	var value int32
	size := uint32(unsafe.Sizeof(value))
	_, _, errno := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&value)), uintptr(unsafe.Pointer(&size)), 0)
	return int(value), errno
}

func setInt(fd, level, option, value int) syscall.Errno {
	v := int32(value)
	_, _, errno := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
	return errno
}

func setLinger(fd, seconds int) syscall.Errno {
	l := unix.Linger{Onoff: 1, Linger: int32(seconds)}
	_, _, errno := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER,
		uintptr(unsafe.Pointer(&l)), unsafe.Sizeof(l), 0)
	return errno
}

func unsent(fd int) (int, syscall.Errno) {
	var n int32
	_, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCOUTQ, uintptr(unsafe.Pointer(&n)))
	return int(n), errno
}

func info(fd int, info *unix.TCPInfo) (int, syscall.Errno) {
	size := uint32(unsafe.Sizeof(*info))
	_, _, errno := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(size), 0
}

// zone returns the name of the network interface with that index, as the
// socket's own network namespace has it (SIOCGIFNAME, netdevice(7)).
func zone(fd, index int) (string, syscall.Errno) {
	var request [40]byte // struct ifreq: the name, and a union that the index is in
	binary.NativeEndian.PutUint32(request[unix.IFNAMSIZ:], uint32(index))
	_, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGIFNAME, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return "", errno
	}
	name, _, _ := bytes.Cut(request[:unix.IFNAMSIZ], []byte{0})
	return string(name), 0
}

// descriptor is the result of a call that opens one.
func descriptor(r, _ uintptr, errno syscall.Errno) (int, syscall.Errno) {
	if errno != 0 {
		return -1, errno
	}
	return int(r), 0
}

// count is the result of a call that counts.
func count(r, _ uintptr, errno syscall.Errno) (int, syscall.Errno) {
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}

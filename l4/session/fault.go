package session

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
)

// Fault is one failed dial as a balancer sees it.
type Fault struct {
	Word  string // refused, timeout, reset, unreachable, resolve, local or canceled
	Blame Blame
}

// Blame is who a failed dial is held against.
type Blame int

// Whom a dial may be held against, and what to do next.
const (
	OnBackend Blame = iota // counts against the backend; try another
	OnNobody               // says nothing about the backend; try another
	OnUs                   // would fail with any backend; end the session
)

// faultOf holds the class of each error number. What is not listed is the
// backend's fault: a backend that keeps failing has to leave the rotation.
var faultOf = map[syscall.Errno]Fault{
	syscall.ECONNREFUSED: {"refused", OnBackend},
	syscall.ENOENT:       {"refused", OnBackend}, // a unix socket that is missing
	syscall.EAGAIN:       {"timeout", OnBackend}, // a unix socket whose queue stayed full
	syscall.ETIMEDOUT:    {"timeout", OnBackend},
	syscall.ECONNRESET:   {"reset", OnBackend},
	syscall.ECONNABORTED: {"reset", OnBackend},
	syscall.EPIPE:        {"reset", OnBackend},
	syscall.EHOSTUNREACH: {"unreachable", OnBackend},
	syscall.ENETUNREACH:  {"unreachable", OnNobody},
	syscall.ENETDOWN:     {"unreachable", OnNobody},
	syscall.EAFNOSUPPORT: {"unreachable", OnNobody}, // an IPv6 address where IPv6 is off
	// No free local port: another backend has ports of its own.
	syscall.EADDRNOTAVAIL: {"local", OnNobody},
	syscall.EMFILE:        {"local", OnUs},
	syscall.ENFILE:        {"local", OnUs},
	syscall.ENOBUFS:       {"local", OnUs},
	syscall.ENOMEM:        {"local", OnUs},
	syscall.ENOSPC:        {"local", OnUs}, // epoll_ctl(2): fs.epoll.max_user_watches
	syscall.EACCES:        {"local", OnUs},
	syscall.EPERM:         {"local", OnUs},
}

// unresolved is the fault of a name without an address.
var unresolved = Fault{"resolve", OnNobody}

// FaultOf classes the error of a dial.
func FaultOf(err error) Fault {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return unresolved
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return Fault{"timeout", OnBackend}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if f, ok := faultOf[errno]; ok {
			return f
		}
	}
	if errors.Is(err, context.Canceled) {
		return Fault{"canceled", OnNobody}
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return Fault{"timeout", OnBackend}
	}
	return Fault{"unreachable", OnBackend}
}

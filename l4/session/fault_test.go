package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"sluice/l4/session"
)

func TestFaultOfEachErrorNumber(t *testing.T) {
	for _, c := range []struct {
		errno syscall.Errno
		word  string
		blame session.Blame
	}{
		{syscall.ECONNREFUSED, "refused", session.OnBackend},
		{syscall.ENOENT, "refused", session.OnBackend},
		{syscall.EAGAIN, "timeout", session.OnBackend},
		{syscall.ETIMEDOUT, "timeout", session.OnBackend},
		{syscall.ECONNRESET, "reset", session.OnBackend},
		{syscall.ECONNABORTED, "reset", session.OnBackend},
		{syscall.EPIPE, "reset", session.OnBackend},
		{syscall.EHOSTUNREACH, "unreachable", session.OnBackend},
		{syscall.ENETUNREACH, "unreachable", session.OnNobody},
		{syscall.ENETDOWN, "unreachable", session.OnNobody},
		{syscall.EAFNOSUPPORT, "unreachable", session.OnNobody},
		{syscall.EADDRNOTAVAIL, "local", session.OnNobody},
		{syscall.EMFILE, "local", session.OnUs},
		{syscall.ENFILE, "local", session.OnUs},
		{syscall.ENOBUFS, "local", session.OnUs},
		{syscall.ENOMEM, "local", session.OnUs},
		{syscall.EACCES, "local", session.OnUs},
		{syscall.EPERM, "local", session.OnUs},
		{syscall.EINVAL, "unreachable", session.OnBackend}, // one that no list has
	} {
		sys := os.NewSyscallError("connect", c.errno)
		for _, err := range []error{
			c.errno,
			sys,
			&net.OpError{Op: "dial", Net: "tcp", Err: sys},
			fmt.Errorf("dial 10.0.0.1:80: %w", &net.OpError{Op: "dial", Net: "tcp", Err: sys}),
		} {
			want := session.Fault{Word: c.word, Blame: c.blame}
			if got := session.FaultOf(err); got != want {
				t.Errorf("%v (%T): got %+v, want %+v", err, err, got, want)
			}
		}
	}
}

func TestFaultOfOtherErrors(t *testing.T) {
	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	var slow net.Dialer
	_, dialTimeout := slow.DialContext(expired, "tcp", "127.0.0.1:1")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, dialCanceled := slow.DialContext(canceled, "tcp", "127.0.0.1:1")

	for _, c := range []struct {
		name  string
		err   error
		word  string
		blame session.Blame
	}{
		{"deadline of a socket", os.ErrDeadlineExceeded, "timeout", session.OnBackend},
		{"deadline of a context", context.DeadlineExceeded, "timeout", session.OnBackend},
		{"a dial whose context timed out", dialTimeout, "timeout", session.OnBackend},
		{"an error that says it is a timeout", timeoutError{}, "timeout", session.OnBackend},
		{"context canceled", context.Canceled, "canceled", session.OnNobody},
		{"a dial whose context was canceled", dialCanceled, "canceled", session.OnNobody},
		{"no such name", &net.DNSError{Err: "no such host", IsNotFound: true}, "resolve", session.OnNobody},
		{"a resolver that timed out", &net.DNSError{Err: "i/o timeout", IsTimeout: true}, "resolve", session.OnNobody},
		{"a resolver that was refused", &net.OpError{Op: "dial", Err: &net.DNSError{UnwrapErr: syscall.ECONNREFUSED}}, "resolve", session.OnNobody},
		{"a reset that came with a cancellation", errors.Join(context.Canceled, syscall.ECONNRESET), "reset", session.OnBackend},
		{"end of the stream", io.EOF, "unreachable", session.OnBackend},
		{"anything else", errors.New("x"), "unreachable", session.OnBackend},
	} {
		want := session.Fault{Word: c.word, Blame: c.blame}
		for _, err := range []error{c.err, fmt.Errorf("dial x: %w", c.err)} {
			if got := session.FaultOf(err); got != want {
				t.Errorf("%s: %v: got %+v, want %+v", c.name, err, got, want)
			}
		}
	}
}

type timeoutError struct{}

func (timeoutError) Error() string { return "too late" }
func (timeoutError) Timeout() bool { return true }

package epoll

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Token is what an event brings back: who it is for. Slot is where the loop
// keeps it, 0 or more; Gen tells it from who was there before. Together they
// are the 64 bits that epoll keeps for a descriptor, so that both are whole.
type Token struct {
	Slot int32
	Gen  uint32
}

// waker is the token of a poller's own eventfd.
var waker = Token{Slot: -1}

// Event says what a descriptor is ready for.
type Event struct {
	Token Token
	Bits  uint32 // unix.EPOLLIN and so on
}

const (
	// streamEvents are told of as edges. EPOLLPRI is among them because a receive
	// stops short at an urgent byte: its event says that a short one is not the
	// last.
	streamEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET

	// listenerEvents wake one of the loops that share a listener, and again as
	// long as its queue is not empty.
	listenerEvents = unix.EPOLLIN | unix.EPOLLEXCLUSIVE

	// batch is how many events one Wait returns at most. Chosen, not measured:
	// what does not fit comes with the next, which begins where this ended.
	batch = 256
)

// Poller waits for events on many descriptors. Only Wake is safe for concurrent
// use. A descriptor is added after it is connected or listens, and removed before
// it is closed.
type Poller struct {
	kernel *Kernel
	epfd   int
	raw    []unix.EpollEvent
	events []Event

	mu   sync.Mutex
	wake int // the eventfd; -1 once closed. mu keeps Wake off a descriptor that is somebody else's by now
}

// NewPoller opens an epoll instance and the eventfd that wakes it; Close closes
// them.
func NewPoller(k *Kernel) (*Poller, error) {
	epfd, errno := opened(k.calls.EpollCreate)
	if errno != 0 {
		return nil, fmt.Errorf("epoll_create1: %w", errno)
	}
	p := &Poller{
		kernel: k,
		epfd:   epfd,
		raw:    make([]unix.EpollEvent, batch),
		events: make([]Event, 0, batch),
		wake:   -1,
	}
	wake, errno := opened(k.calls.Eventfd)
	if errno != 0 {
		p.Close()
		return nil, fmt.Errorf("eventfd2: %w", errno)
	}
	p.wake = wake
	// Each write is an edge, whatever was written before, so that nobody has to
	// read the counter back to zero.
	if errno := p.control(unix.EPOLL_CTL_ADD, wake, unix.EPOLLIN|unix.EPOLLET, waker); errno != 0 {
		p.Close()
		return nil, fmt.Errorf("epoll_ctl: %w", errno)
	}
	return p, nil
}

// opened returns the descriptor that open opens.
func opened(open func() (int, syscall.Errno)) (fd int, errno syscall.Errno) {
	errno = syscall.EINTR
	for errno == syscall.EINTR {
		fd, errno = open()
	}
	return fd, errno
}

// Add has Wait return the events of a stream socket, each edge once: EPOLLIN,
// EPOLLOUT, EPOLLRDHUP, EPOLLPRI, EPOLLERR and EPOLLHUP. What is ready already
// comes with the next Wait.
func (p *Poller) Add(fd int, t Token) syscall.Errno {
	return p.control(unix.EPOLL_CTL_ADD, fd, streamEvents, t)
}

// AddListener has Wait return EPOLLIN as long as a listener has connections to
// accept, at one of the pollers it was added to, or more. To pause, Remove it
// and add it again.
func (p *Poller) AddListener(fd int, t Token) syscall.Errno {
	return p.control(unix.EPOLL_CTL_ADD, fd, listenerEvents, t)
}

// Remove ends the events of a descriptor. Those that the last Wait returned are
// with the caller still.
func (p *Poller) Remove(fd int) syscall.Errno {
	return p.control(unix.EPOLL_CTL_DEL, fd, 0, Token{})
}

func (p *Poller) control(op, fd int, bits uint32, t Token) syscall.Errno {
	p.kernel.event = unix.EpollEvent{Events: bits, Fd: t.Slot, Pad: int32(t.Gen)}
	errno := syscall.EINTR
	for errno == syscall.EINTR {
		errno = p.kernel.calls.EpollCtl(p.epfd, op, fd, &p.kernel.event)
	}
	return errno
}

// Wait waits for events until the timeout is over, rounded up to milliseconds so
// that what was to be done then is due. Below 0 it has no end; with 0 it looks
// and does not wait. It returns early and with no events if somebody calls Wake,
// and if a signal comes. The slice is good until the next Wait.
func (p *Poller) Wait(timeout time.Duration) []Event {
	ms := -1
	if timeout >= 0 {
		ms = units(timeout, math.MaxInt32*time.Millisecond, time.Millisecond)
	}
	n, errno := p.kernel.calls.EpollWait(p.epfd, p.raw, ms)
	if errno != 0 {
		return nil // EINTR; to wait on would be to wait longer than was asked
	}
	p.events = p.events[:0]
	for _, e := range p.raw[:n] {
		if t := (Token{e.Fd, uint32(e.Pad)}); t != waker {
			p.events = append(p.events, Event{t, e.Events})
		}
	}
	return p.events
}

// one is what is added to the counter of an eventfd.
var one = binary.NativeEndian.AppendUint64(nil, 1)

// Wake has the current or next Wait return at once. It is safe for concurrent
// use and harmless after Close.
func (p *Poller) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wake < 0 {
		return
	}
	errno := syscall.EINTR
	for errno == syscall.EINTR {
		_, errno = p.kernel.calls.Write(p.wake, one)
	}
}

// Close closes what NewPoller opened. Descriptors that were added stay open.
func (p *Poller) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wake >= 0 {
		p.kernel.Close(p.wake)
		p.wake = -1
	}
	if p.epfd >= 0 {
		p.kernel.Close(p.epfd)
		p.epfd = -1
	}
}

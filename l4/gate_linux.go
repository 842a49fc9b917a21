package l4

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"sluice/l4/epoll"

	"golang.org/x/sys/unix"
)

const (
	// acceptsPerTurn is how many clients a loop takes before it looks at its
	// sessions again, and leaves a chance to the other loops. Chosen.
	acceptsPerTurn = 8

	// A client goes to the loop with the fewest sessions if the one that accepted
	// it has handOverSlack more, and one in handOverShare of them: the kernel wakes
	// one loop before the others, but to hand over costs a wake-up.
	handOverSlack = 2
	handOverShare = 16

	// acceptsAtClose bounds the clients taken out of the queue of a socket that is
	// closed: as many as a queue holds by default (net.core.somaxconn).
	acceptsAtClose = 4096
)

// gate is a listening socket that all loops share: the acceptor of this engine.
type gate struct {
	engine   *looping
	listener *Listener
	fd       int
	path     string // of a unix socket
	over     chan struct{}

	mu     sync.Mutex // guards what follows, and is held by serve and close while they work
	served bool
	closed bool
}

// detach takes the descriptor of ln out of the hands of Go, and the file of a
// unix socket.
func detach(ln net.Listener) (fd int, path string, err error) {
	defer ln.Close()
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
		path = u.Addr().String()
	}
	raw, err := ln.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, "", err
	}
	bad := raw.Control(func(old uintptr) {
		fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	})
	if bad != nil {
		return 0, "", bad
	}
	return fd, path, err
}

func (g *gate) serve() {
	g.mu.Lock()
	if !g.closed {
		g.served = true
		g.engine.onAll(func(_ int, l *loop) { l.open(g) })
	}
	g.mu.Unlock()
	<-g.over
}

// close takes in who is in the queue already, which would be reset.
func (g *gate) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	defer close(g.over)
	if g.served {
		last := len(g.engine.loops) - 1
		g.engine.onAll(func(_ int, l *loop) { l.leave(g) })
		g.engine.onAll(func(i int, l *loop) {
			if i == last {
				l.empties(g)
			}
		})
	}
	if g.path != "" {
		os.Remove(g.path)
	}
	return os.NewSyscallError("close", unix.Close(g.fd))
}

// door is one loop's share of a gate.
type door struct {
	gate    *gate
	gen     uint32
	timer   epoll.Timer // for the end of a pause
	backoff time.Duration
	burst   int    // how many to accept at the next event
	entry   *entry // the last one used
}

// doorKey is the key of a door's timer, and the slot of its token: below 0, and
// not -1, which is the poller's own.
func doorKey(index int) int32 { return int32(-2 - index) }

// doorAt returns the door of a key; nil if it is gone.
func (l *loop) doorAt(key int32) *door { return l.doors[-2-key] }

// open begins to accept from g.
func (l *loop) open(g *gate) {
	index := len(l.doors)
	for i, d := range l.doors {
		if d == nil {
			index = i
		}
	}
	if index == len(l.doors) {
		l.doors = append(l.doors, nil)
	}
	l.opened++
	d := &door{gate: g, gen: l.opened, burst: 1}
	d.timer.Key = doorKey(index)
	l.doors[index] = d
	l.listen(d)
}

// listen adds a door to what the loop waits for.
func (l *loop) listen(d *door) {
	if errno := l.poller.AddListener(d.gate.fd, epoll.Token{Slot: d.timer.Key, Gen: d.gen}); errno != 0 {
		l.pause(d, "epoll_ctl", errno)
	}
}

// leave ends accepting from g.
func (l *loop) leave(g *gate) {
	for i, d := range l.doors {
		if d != nil && d.gate == g {
			l.timers.Stop(&d.timer)
			l.poller.Remove(g.fd)
			l.doors[i] = nil
		}
	}
}

// empties lets in who is in the queue of g.
func (l *loop) empties(g *gate) {
	d := &door{gate: g}
	for range acceptsAtClose {
		fd, from, errno := l.kernel.Accept(g.fd)
		if errno != 0 && errno != syscall.ECONNABORTED {
			return
		}
		if errno == 0 {
			l.admit(d, fd, from)
		}
	}
}

// accept lets a few clients in.
func (l *loop) accept(t epoll.Token) {
	d := l.doorAt(t.Slot)
	if d == nil || d.gen != t.Gen {
		return
	}
	// To find out that the queue is empty costs a call too, so the next event tells
	// of more. It takes more than one at once where that happened before.
	burst := d.burst
	d.burst = min(2*burst, acceptsPerTurn)
	for n := range burst {
		fd, from, errno := l.kernel.Accept(d.gate.fd)
		switch errno {
		case 0:
			d.backoff = 0
			l.admit(d, fd, from)
		case syscall.EAGAIN:
			d.burst = max(1, n)
			return
		case syscall.ECONNABORTED: // gone again
		default:
			l.poller.Remove(d.gate.fd)
			l.pause(d, "accept4", errno)
			return
		}
	}
}

// pause waits after an error: without it the loop would spin.
func (l *loop) pause(d *door, call string, errno syscall.Errno) {
	err := os.NewSyscallError(call, errno)
	d.gate.listener.frontend.Load().acceptFailed(fmt.Errorf("accept on %s: %w", d.gate.listener.addr, err))
	d.backoff = min(max(2*d.backoff, backoffMin), backoffMax)
	l.timers.Set(&d.timer, l.clock(l.now.Add(d.backoff)))
}

// admit starts the session of a client, or refuses it.
func (l *loop) admit(d *door, fd int, from netip.AddrPort) {
	l.current = nil // the one that was admitted before
	e := d.current(l.shard)
	if reason := e.frontend.enter(e.config, from.Addr()); reason != "" {
		e.frontend.reject(e.config, reason, from)
		l.kernel.Reset(fd)
		return
	}
	if other := l.engine.lightest(l); other != l {
		other.load.Add(1) // from now on, so that the next one sees it
		other.post(func() {
			other.load.Add(-1)
			other.begin(e, fd, from)
		})
		return
	}
	l.begin(e, fd, from)
}

// current returns what the sessions that begin now share.
func (d *door) current(shard uint8) *entry {
	f := d.gate.listener.frontend.Load()
	if cfg := f.config.Load(); d.entry == nil || d.entry.frontend != f || d.entry.config != cfg {
		d.entry = newEntry(f, cfg, d.gate.listener.addr, shard)
	}
	return d.entry
}

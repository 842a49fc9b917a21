package l4

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/l4/session"
)

const (
	backoffMin = 5 * time.Millisecond // after the first accept error, doubling; as net/http.Server
	backoffMax = time.Second
)

// copying is the engine "copy": it knows its sessions, and each of them runs by
// itself (see conn).
type copying struct {
	mu     sync.Mutex // guards live and closed
	live   map[*conn]struct{}
	closed bool // no order is taken any more

	orders  sync.WaitGroup // under way
	buffers sync.Pool      // of *[bufferSize]byte, for copies outside the kernel
}

func newCopying() *copying { return &copying{live: map[*conn]struct{}{}} }

// descriptors: two sockets, and a pipe of two descriptors in each direction
// while bytes move.
func (e *copying) descriptors() (session, held, shared int) { return 6, 0, 0 }

func (e *copying) size() int { return 0 }

func (e *copying) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.orders.Wait()
}

// answers: each session runs by itself.
func (e *copying) answers(context.Context) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return true
}

// dropped: each session hands over its own, and waits.
func (e *copying) dropped() int64 { return 0 }

func (e *copying) enter(c *conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[c] = struct{}{}
}

func (e *copying) leave(c *conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.live, c)
}

// all returns the sessions of this moment.
func (e *copying) all() []*conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.live))
}

// order has a goroutine of its own: whoever orders may hold a session's mutex.
func (e *copying) order(m session.Match, cause session.Cause) (wait func() int) {
	n := make(chan int, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return func() int { return 0 }
	}
	e.orders.Go(func() {
		took := 0
		for _, c := range e.all() {
			if c.asked(&m, cause) {
				took++
			}
		}
		n <- took
	})
	return func() int { return <-n }
}

func (e *copying) look(see func(shown)) {
	for _, c := range e.all() {
		c.look(see)
	}
}

// control does nothing: package net sets what matters on what it accepts.
func (e *copying) control(string, string, syscall.RawConn) error { return nil }

func (e *copying) feed(ln net.Listener, l *Listener) (acceptor, error) {
	return &acceptLoop{engine: e, ln: ln, listener: l, stop: make(chan struct{})}, nil
}

// acceptLoop is the acceptor of this engine: one goroutine.
type acceptLoop struct {
	engine   *copying
	ln       net.Listener
	listener *Listener
	closing  atomic.Bool
	stop     chan struct{} // closed by close
	loop     sync.Mutex    // held by serve while it runs
}

func (a *acceptLoop) serve() {
	a.loop.Lock()
	defer a.loop.Unlock()
	backoff := time.Duration(0)
	for {
		c, err := a.ln.Accept()
		f := a.listener.frontend.Load()
		switch {
		case err == nil:
			backoff = 0
			a.admit(f, c.(stream))
		case errors.Is(err, net.ErrClosed) && a.closing.Load():
			return
		default:
			f.acceptFailed(fmt.Errorf("accept on %s: %w", a.listener.addr, err))
			backoff = min(max(2*backoff, backoffMin), backoffMax)
			a.wait(backoff)
		}
	}
}

// admit takes a client in and starts its session, or refuses it. It does
// nothing that could wait.
func (a *acceptLoop) admit(f *Frontend, client stream) {
	cfg := f.config.Load()
	if reason := f.enter(cfg, clientAddr(client).Addr()); reason != "" {
		f.reject(cfg, reason, clientAddr(client))
		reset(client)
		return
	}
	c := newConn(a.engine, f, cfg, client, a.listener.addr)
	a.engine.enter(c)
	if f.cutting.Load() {
		c.ask(session.Shutdown) // the order to all came too early for it
	}
	go c.run()
}

// wait waits for d, or for close.
func (a *acceptLoop) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.stop:
	}
}

func (a *acceptLoop) close() (err error) {
	if a.closing.CompareAndSwap(false, true) {
		close(a.stop)
		err = a.ln.Close()
	}
	a.loop.Lock()
	a.loop.Unlock() //lint:ignore SA2001 it is the wait for the accept loop
	return err
}

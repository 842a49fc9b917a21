package l4

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"time"

	"sluice/l4/session"
)

// Engine drives sessions: those of the frontends that it makes, whose clients
// come from the listeners that it binds. What is of one engine must not meet
// what is of another. Safe for concurrent use.
type Engine struct {
	name   string
	driver driver
}

// driver is what each engine does in its own way.
type driver interface {
	// control sets the options of a listening socket that has no address yet.
	control(network, address string, raw syscall.RawConn) error
	// feed returns what accepts for l from ln, which belongs to it from now on.
	feed(ln net.Listener, l *Listener) (acceptor, error)
	// order orders the sessions that m matches to end, and does not wait for that.
	// The func that it returns does, and says how many took the order.
	order(m session.Match, cause session.Cause) (wait func() int)
	// look calls see for each session, one at a time, where nobody else touches it.
	look(see func(shown))
	// dropped returns how many records were not handed over.
	dropped() int64
	// size returns the number of event loops.
	size() int
	// descriptors returns how many a session may hold, how many the engine holds,
	// and how many it may use for all sessions together.
	descriptors() (session, held, shared int)
	// answers reports whether everything that drives sessions still works, unless
	// ctx ends first.
	answers(ctx context.Context) bool
	// close ends what the engine runs. It has no sessions and no listeners then.
	close()
}

// shown is a session as look shows it, for the time of the call.
type shown struct {
	now   time.Time
	brain *session.Session
	socks sockets
}

// sockets are those of one session, for who holds it still.
type sockets interface {
	// link returns what the kernel says of one side.
	link(session.Side) session.Link
	// owed returns how many bytes a side was sent and has not acknowledged.
	owed(session.Side) int
}

// acceptor is a listening socket in the hands of an engine.
type acceptor interface {
	serve()       // accepts until close
	close() error // returns when nothing more is accepted; harmless twice
}

// NewEngine starts an engine: "copy", "epoll" (Linux only), or "auto" for the
// fastest that this system has. loops is the number of event loops of epoll; 0
// is one for each processor that Go may use. The caller closes it.
func NewEngine(name string, loops int) (*Engine, error) {
	if name == "auto" {
		name = fastest
	}
	switch name {
	case "copy":
		return &Engine{name, newCopying()}, nil
	case "epoll":
		d, err := newLooping(loops)
		if err != nil {
			return nil, fmt.Errorf("engine epoll: %w", err)
		}
		return &Engine{name, d}, nil
	}
	return nil, fmt.Errorf("there is no engine %q; write auto, copy or epoll", name)
}

// Name returns "copy" or "epoll".
func (e *Engine) Name() string { return e.name }

// Loops returns the number of event loops, 0 if the engine has none.
func (e *Engine) Loops() int { return e.driver.size() }

// Dropped returns how many records of sessions were dropped since the start,
// because who takes them was too slow.
func (e *Engine) Dropped() int64 { return e.driver.dropped() }

// Answers reports whether the engine works: false if some of it has not answered
// by the end of ctx.
func (e *Engine) Answers(ctx context.Context) bool { return e.driver.answers(ctx) }

// Close ends the engine. Its listeners must be closed and its frontends shut
// down: every record has been handed over when it returns.
func (e *Engine) Close() { e.driver.close() }

// Listen binds address, "host:port" or "unix:/path"; mode is the permission
// bits of a unix socket's file. Nothing is accepted until Serve. A socket file
// that a dead process left behind is replaced. ctx bounds the look-up of a name.
func (e *Engine) Listen(ctx context.Context, address string, mode uint32) (*Listener, error) {
	// Most options of accepted sockets are the session's business.
	ln, err := Bind(ctx, net.ListenConfig{KeepAlive: -1, Control: e.driver.control}, address, fs.FileMode(mode))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return e.listener(ln, &Listener{})
}

// Adopt is Listen for a socket that somebody else has bound. It belongs to the
// engine from now on, but the file of a unix socket stays when it is closed.
func (e *Engine) Adopt(ln net.Listener) (*Listener, error) {
	c, ok := ln.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("listen on %s: it is no socket", ln.Addr())
	}
	raw, err := c.SyscallConn()
	if err == nil {
		err = e.driver.control(ln.Addr().Network(), "", raw)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", ln.Addr(), err)
	}
	return e.listener(ln, &Listener{adopted: true})
}

func (e *Engine) listener(ln net.Listener, l *Listener) (*Listener, error) {
	l.addr = ln.Addr().String()
	if ln.Addr().Network() == "unix" {
		l.addr = "unix:" + l.addr
	}
	var err error
	if l.acceptor, err = e.driver.feed(ln, l); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", l.addr, err)
	}
	return l, nil
}

// NewFrontend returns a frontend that no listener feeds yet.
func (e *Engine) NewFrontend(c Config) *Frontend { return newFrontend(e.driver, c) }

// NewLimit returns a limit of max sessions; 0 derives it from the descriptor
// limit of the process and what a session of this engine holds.
func (e *Engine) NewLimit(max int) *Limit {
	l := &Limit{}
	l.perSession, l.held, l.shared = e.driver.descriptors()
	l.Set(max)
	return l
}

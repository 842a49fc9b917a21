package l4

import (
	"io"
	"syscall"
	"time"

	"sluice/l4/session"
)

// obey does what the session answered; side is where the event came from. The
// mutex is held.
func (c *conn) obey(v session.Verb, side session.Side) {
	switch v {
	case session.None:
	case session.HalfClose:
		c.socks[side.Other()].CloseWrite()
	case session.Finish, session.Linger, session.Reset:
		c.stop(session.Client)
		c.stop(session.Backend)
		if !c.session.WaitsFor(session.Backend) {
			c.socks[session.Backend].SetWriteDeadline(longAgo)
		}
	case session.Abort:
		if c.ended[side] {
			c.socks[side.Other()].CloseWrite() // the end came before the failure, and goes out before it
		}
		c.stop(side.Other())
		if c.ended[side] {
			c.stop(side)
		}
	case session.Cut:
		c.cut()
	}
	if v != session.None && v != session.HalfClose {
		c.verb = v
	}
	c.rearm()
}

// stop ends reading from side: at once if it waits, else behind what was read.
func (c *conn) stop(side session.Side) {
	c.stopped[side] = true
	c.socks[side].SetReadDeadline(longAgo)
}

// cut ends everything that waits for a socket.
func (c *conn) cut() {
	if c.cancel != nil {
		c.cancel()
	}
	for side, s := range c.socks {
		if s != nil {
			c.stopped[side] = true
			s.SetDeadline(longAgo)
		}
	}
}

// rearm sets the timer to the session's deadline. The mutex is held.
func (c *conn) rearm() {
	deadline := c.session.Deadline()
	if deadline.IsZero() {
		if c.timer != nil {
			c.timer.Stop()
		}
		return
	}
	wait := max(time.Until(deadline), time.Millisecond)
	if c.timer == nil {
		c.timer = time.AfterFunc(wait, c.expired)
		return
	}
	c.timer.Reset(wait)
}

// expired is the timer: it asks the session what a deadline means.
func (c *conn) expired() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return
	}
	queues := [2]int{unsent(c.socks[session.Client]), unsent(c.socks[session.Backend])}
	c.obey(c.session.Expired(time.Now(), queues), session.Client)
}

// settle stays with a side that nothing is moved from any more: it watches for
// a reset while the other direction goes on, and takes part in a polite ending.
func (c *conn) settle(from session.Side) {
	if c.arm(from, 0) && c.how() == session.None && waitReset(c.socks[from]) == nil {
		c.over(from, syscall.ECONNRESET)
	}
	if c.how() == session.Linger {
		c.linger(from)
	}
}

// how returns how the relay ends, None while it goes on.
func (c *conn) how() session.Verb {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verb
}

// linger shuts the way to the other side, behind all that was written, and
// drops what from still sends until it ends or the time is over: a close with
// unread input would send RST.
func (c *conn) linger(from session.Side) {
	src := c.socks[from]
	c.mu.Lock()
	c.socks[from.Other()].CloseWrite()
	if c.verb == session.Linger {
		src.SetReadDeadline(time.Time{})
	}
	c.mu.Unlock()
	if _, err := io.Copy(io.Discard, src); err == nil {
		c.mu.Lock()
		c.noteEnd(from)
		c.mu.Unlock()
	}
}

const (
	flushPollMin = time.Millisecond // between looks at a send queue, doubling
	flushPollMax = 20 * time.Millisecond
)

// flush waits, before an abort, until the living took what is queued for them or
// the session's time is over: RST throws the queue away.
func (c *conn) flush() {
	c.mu.Lock()
	verb, deadline := c.verb, c.session.Deadline()
	waits := [2]bool{c.session.WaitsFor(session.Client), c.session.WaitsFor(session.Backend)}
	c.mu.Unlock()
	if verb != session.Abort && verb != session.Reset {
		return
	}
	wait := flushPollMin
	owed := func(side session.Side) bool { return waits[side] && owes(c.socks[side]) }
	for time.Now().Before(deadline) && (owed(session.Client) || owed(session.Backend)) {
		time.Sleep(wait)
		wait = min(2*wait, flushPollMax)
	}
}

// owes reports whether s has bytes to send that its peer may still take. The
// queue of a connection that is reset keeps its length.
func owes(s stream) bool { return unsent(s) > 0 && !isReset(s) }

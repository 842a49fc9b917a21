package l4

import (
	"errors"
	"time"

	"sluice/l4/session"
)

// queue takes the session's place in the queue of its pool, and stays there until
// a backend is free or the wait is over.
func (c *conn) queue() session.Step {
	woken := make(chan struct{}, 1)
	step := c.tell(func(now time.Time) session.Step {
		return c.session.Queue(now, func() {
			select {
			case woken <- struct{}{}:
			default: // it looks already
			}
		})
	})
	// The watch begins later than this, or has looked already.
	if step.Do == session.Wait && c.queued() && hasEnded(c.socks[session.Client]) {
		c.left()
	}
	for step.Do == session.Wait {
		t := time.NewTimer(time.Until(step.Deadline))
		select {
		case <-woken:
		case <-t.C:
		case <-c.ctx.Done():
		}
		t.Stop()
		step = c.tell(c.session.Woken)
	}
	return step
}

// errEnded says that a client ended its stream, and sent nothing before.
var errEnded = errors.New("the client has left")

// leaves waits until the client resets its connection or, while it is queued,
// ends its stream without a byte before. It reports whether there may be more to
// wait for.
func (c *conn) leaves() bool {
	err := waitLeft(c.socks[session.Client], c.queued)
	switch {
	case err == errEnded:
		return !c.left()
	case err == nil:
		c.gone()
	}
	return false
}

// queued reports whether the session waits in the queue, and nothing that its
// client sent was taken off the socket.
func (c *conn) queued() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.Waits() && len(c.payload) == 0
}

// left says that the client ended its stream, and reports whether that ends the
// session.
func (c *conn) left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.session.Left(time.Now()) {
		return false
	}
	c.cancel()
	return true
}

package l4

import (
	"errors"
	"io"
	"os"
	"time"

	"sluice/l4/session"
)

// headerRead is how much is received at once while a PROXY header is waited for:
// what comes with it is held until there is a backend. Chosen.
const headerRead = 4 << 10

// header reads what the client begins with until the session knows whether that
// is a PROXY header, and returns the step after it.
func (c *conn) header(step session.Step) session.Step {
	client, room := c.socks[session.Client], make([]byte, headerRead)
	for step.Do == session.Header {
		if !c.arm(session.Client, max(time.Until(step.Deadline), 1)) {
			return c.tell(c.session.Next) // an order came
		}
		n, err := client.Read(room)
		step = c.tell(func(now time.Time) session.Step { return c.began(now, room[:n], err) })
	}
	c.arm(session.Client, 0)
	return step
}

// began tells the session how a read of what the client begins with ended. The
// mutex is held.
func (c *conn) began(now time.Time, p []byte, err error) (next session.Step) {
	switch {
	case len(p) > 0:
		c.payload, next = c.session.Header(now, p)
	case err == io.EOF:
		c.payload, next = c.session.NoHeader(now, nil)
	default:
		c.payload, next = c.session.NoHeader(now, err)
	}
	return next
}

// greet prepares the header of that version that the backend gets; 0 is none.
func (c *conn) greet(version int) {
	if version == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greeting = c.session.Greeting(version, addrPort(c.socks[session.Client].LocalAddr()))
}

// deliver sends what the backend gets ahead of all else: our header, and what came
// with the client's.
func (c *conn) deliver(from session.Side) error {
	if from != session.Client || len(c.greeting)+len(c.payload) == 0 {
		return nil
	}
	n, err := c.socks[session.Backend].Write(append(c.greeting, c.payload...))
	c.moved(from, max(0, int64(n-len(c.greeting))))
	c.greeting, c.payload = nil, nil
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errStopped // the session was cut
	}
	return err
}

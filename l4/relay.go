package l4

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"sluice/l4/session"
)

const (
	// chunk bounds one io.Copy in bytes, so that counts move: 1 MiB is what one
	// splice moves at most (internal/poll), so bulk pays nothing for it.
	chunk = 1 << 20
	// windowMax bounds one io.Copy in time: counts are late by this much at most.
	windowMax = time.Second
	// bufferSize is what a copy outside the kernel uses.
	bufferSize = 64 << 10
)

// window returns how long one io.Copy may last: a small part of the shortest
// limit, since what it moves is known only when it returns. A session that falls
// silent in a copy is ended as late as two windows. The part is chosen.
func window(set *session.Settings) time.Duration {
	w := windowMax
	for _, limit := range []time.Duration{set.IdleTimeout, set.HalfCloseTimeout} {
		if limit > 0 {
			w = min(w, limit/16)
		}
	}
	return max(w, time.Millisecond)
}

// relay moves bytes both ways until both directions are over.
//
//	client --- pump(Client) ---> backend
//	client <-- pump(Backend) --- backend
func (c *conn) relay() {
	c.mu.Lock()
	c.rearm()
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.pump(session.Backend)
	}()
	c.pump(session.Client)
	<-done
}

// pump is the life of one direction: move its bytes, tell the session how that
// ended, and stay for what the session wants of the socket after that.
func (c *conn) pump(from session.Side) {
	defer c.survive()
	at, err := c.move(from)
	if !errors.Is(err, errStopped) {
		c.over(at, err)
	}
	c.settle(from)
}

// errStopped says that the session wants no more read from a side.
var errStopped = errors.New("stopped")

// move copies what from sends to the other side until the end of the stream
// (nil), until a socket fails (the side it belongs to, and its error), or until
// it is stopped (errStopped). Every byte it read has been written by then,
// unless writing failed.
func (c *conn) move(from session.Side) (at session.Side, err error) {
	src, dst := c.socks[from], c.socks[from.Other()]
	if err := c.deliver(from); err != nil {
		return from.Other(), err
	}
	bounded := &io.LimitedReader{R: src}
	for {
		if !c.arm(from, 0) {
			return from, errStopped
		}
		// An idle direction waits here, where it holds no pipe and no buffer.
		if err := waitReadable(src); errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		} else if err != nil {
			return from, err
		}
		at, idle, err := c.burst(from, dst, bounded)
		if !idle {
			return at, err
		}
	}
}

// burst copies window after window until one moves nothing.
//
// A splice does not pass a byte sent as urgent, and takes it for the end of the
// stream if the end is behind it. So what splices say of having nothing or being
// over is asked again by a read, which drops the byte. A reset behind the byte is
// told to the splice before what is between them: that is read first.
func (c *conn) burst(from session.Side, dst stream, src *io.LimitedReader) (at session.Side, idle bool, err error) {
	defer c.watchStall(from).stop()
	_, tcp := dst.(*net.TCPConn)
	var failed error // of a splice from src; bytes may be left
	for splice := tcp && splices; ; {
		if !c.arm(from, window(&c.config.Settings)) {
			return from, false, errStopped
		}
		n, err := c.copyChunk(dst, src, splice)
		c.moved(from, n)
		late := errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case err != nil && !late && failed != nil:
			return from, false, failed
		case err != nil && !late:
			at := c.failedAt(from, err)
			if !splice || at != from {
				return at, false, err
			}
			failed, splice = err, false
		case late && n > 0, src.N == 0:
			splice = tcp && splices && failed == nil
		case splice:
			splice = false
		default:
			return from, late, failed
		}
	}
}

// arm sets the read deadline of a side: w from now, or none if w is 0. It
// returns false if nothing more is to be read.
func (c *conn) arm(from session.Side, w time.Duration) bool {
	deadline := time.Time{}
	if w > 0 {
		deadline = time.Now().Add(w)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped[from] {
		return false
	}
	c.socks[from].SetReadDeadline(deadline)
	return true
}

// copyChunk copies up to chunk bytes, in the kernel if splice is set. A read
// deadline ends it with nothing left in between: what was read was written.
func (c *conn) copyChunk(dst stream, src *io.LimitedReader, splice bool) (int64, error) {
	src.N = chunk
	if splice {
		return dst.(*net.TCPConn).ReadFrom(src)
	}
	buf, ok := c.engine.buffers.Get().(*[bufferSize]byte)
	if !ok {
		buf = new([bufferSize]byte)
	}
	defer c.engine.buffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{dst}, src, buf[:])
}

func (c *conn) moved(from session.Side, n int64) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session.Moved(time.Now(), from, n)
}

// failedAt returns the side whose socket made a copy fail. A copy in the kernel
// does not say, so the sockets' states do.
func (c *conn) failedAt(from session.Side, err error) session.Side {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if op, ok := e.(*net.OpError); ok && op.Op == "read" {
			return from
		} else if ok && op.Op == "write" {
			return from.Other()
		}
	}
	// Both may be over: from is then by itself if we had sent it the end of to.
	to := from.Other()
	if errors.Is(err, syscall.EPIPE) || isReset(c.socks[to]) && (c.hasEnded(to) || !isReset(c.socks[from])) {
		return to
	}
	return from
}

func (c *conn) hasEnded(side session.Side) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended[side]
}

// over tells the session that a direction is over, at the socket of side.
//
// A socket tells of a reset once, and a splice towards it can take that and keep
// it: reading then meets what looks like an end. Only what the kernel received
// says whether there was one.
func (c *conn) over(side session.Side, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.socks[side]; err == nil && isReset(s) && !endReceived(s, c.session.Received(side)) {
		err = syscall.ECONNRESET
	}
	if err == nil {
		c.noteEnd(side)
	}
	c.obey(c.session.Ended(time.Now(), side, err), side)
}

// noteEnd notes that the end of side's stream was read.
func (c *conn) noteEnd(side session.Side) {
	if !c.ended[session.Client] && !c.ended[session.Backend] {
		c.frontend.counters.halfClosed.Add(1)
	}
	c.ended[side] = true
}

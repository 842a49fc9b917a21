package l4

import (
	"syscall"

	"sluice/l4/epoll"
	"sluice/l4/session"
)

const (
	// A turn of one direction moves this much before others get theirs. Without a
	// bound, two bulk streams took the 99th percentile of a small request from 0.4
	// to 16 ms (measured on a prototype).
	copyTurn   = 256 << 10
	spliceTurn = 1 << 20

	// spliceAfter is how many full buffers in a row show that a direction is bulk,
	// for which the kernel moves the bytes with less work; spliceUntil how many
	// splices in a row of less than a buffer show that it is over. Chosen.
	spliceAfter = 2
	spliceUntil = 2
)

// flow is one direction of a relay: what one side sends, on its way to the
// other. It holds memory or a pipe only while bytes are in it.
type flow struct {
	held  *spill      // read by a receive, not sent yet
	pipe  *epoll.Pipe // read by a splice, not sent yet
	err   uint16      // the errno with which reading failed
	read  bool        // its end was read, or all before err
	over  bool        // nothing moves any more: the brain was told, or wants it so
	by    mode
	count uint8 // see spliceAfter and spliceUntil
	piped bool  // some of it was spliced
}

// mode is how a flow moves its bytes.
type mode uint8

const (
	byCopy   mode = iota // receive and send
	bySplice             // through a pipe
	copyOnly             // receive and send, because it cannot be spliced
)

func (f *flow) holds() bool { return f.held != nil || f.pipe != nil && f.pipe.Held > 0 }

// pump gives both directions of d a turn. What is left gets another.
func (l *loop) pump(d *duplex) {
	generation := d.gen
	more := false
	for side := range session.Side(2) {
		more = l.turn(d, side) || more
		if d.gen != generation {
			return // closed
		}
	}
	if more {
		l.again(d)
	}
	if d.phase == aborting {
		l.flush(d)
	}
}

// turn does for one direction what the phase of d asks for, and reports whether
// there is more to do at once.
func (l *loop) turn(d *duplex, from session.Side) (more bool) {
	switch {
	case d.phase == lingering:
		return l.drain(d, from)
	case d.flows[from].over:
		l.settle(d, from)
		return false
	}
	more = l.move(d, from)
	if f := &d.flows[from]; f.pipe != nil && f.pipe.Held == 0 {
		l.pipes.Give(f.pipe)
		f.pipe = nil
	}
	return more
}

// settle looks after a side that nothing is read from any more: only a reset
// can come.
func (l *loop) settle(d *duplex, from session.Side) {
	if d.phase == relaying && d.socks[from].failed {
		l.obey(d, d.brain.Ended(l.now, from, syscall.ECONNRESET), from)
	}
}

// move moves what it can, up to the bytes of one turn, and reports whether there
// is more. Everything that was read is sent before an end is passed on.
func (l *loop) move(d *duplex, from session.Side) (more bool) {
	f, src, dst := &d.flows[from], &d.socks[from], &d.socks[from.Other()]
	left := copyTurn
	if f.by == bySplice {
		left = spliceTurn
	}
	for left > 0 {
		n := 0
		switch {
		case f.holds() && !dst.writable:
			l.stalled(d, from)
			return false
		case f.holds():
			n = l.deliver(d, from)
		case f.read:
			l.over(d, from)
			return false
		case !src.readable:
			return false
		case f.by == bySplice:
			l.fill(f, src)
		default:
			n = l.relayOnce(d, from)
		}
		if f.over {
			return false
		}
		left -= n
	}
	return true
}

// relayOnce receives once and sends what it got. What does not fit is held.
func (l *loop) relayOnce(d *duplex, from session.Side) int {
	f, src, dst := &d.flows[from], &d.socks[from], &d.socks[from.Other()]
	n, errno := l.kernel.Recv(int(src.fd), l.buffer)
	if !f.received(src, n, errno, len(l.buffer)) {
		return 0
	}
	sent, ok := 0, true
	if dst.writable {
		sent, ok = l.send(d, from, l.buffer[:n], 0)
	} else {
		d.brain.Moved(l.now, from, 0)
	}
	if ok && sent < n {
		f.held = l.spills.hold(l.buffer[sent:n], len(l.buffer))
	}
	f.adapt(n == len(l.buffer))
	return n
}

// received notes what a receive into room bytes came to, and reports whether
// there are bytes.
func (f *flow) received(src *sock, n int, errno syscall.Errno, room int) bool {
	switch {
	case errno == syscall.EAGAIN:
		// At an urgent mark a signal makes Linux say so with bytes behind it
		// (tcp_recvmsg; 43 of 61,600 receives under a storm of SIGURG), and no
		// event comes for them: ask twice.
		src.readable, src.sticky = src.sticky, false
		return false
	case errno != 0 || n == 0:
		f.read = true
		if f.err == 0 {
			f.err = uint16(errno)
		}
		return false
	}
	if n < room && !src.sticky {
		src.readable = false
	}
	return true
}

// adapt goes over to splicing when receives are large.
func (f *flow) adapt(full bool) {
	if !full || f.by == copyOnly {
		f.count = 0
		return
	}
	if f.count++; f.count >= spliceAfter {
		f.by, f.count = bySplice, 0
	}
}

// send sends p, whose front may be no payload, until the socket takes no more. ok
// is false if it takes nothing ever again; then d may be closed.
func (l *loop) send(d *duplex, from session.Side, p []byte, greets int) (sent int, ok bool) {
	to := from.Other()
	var errno syscall.Errno
	for sent < len(p) && errno == 0 {
		var n int
		n, errno = l.kernel.Send(int(d.socks[to].fd), p[sent:])
		sent += max(n, 0)
	}
	d.brain.Moved(l.now, from, int64(max(0, sent-greets)))
	switch errno {
	case 0:
	case syscall.EAGAIN:
		d.socks[to].writable = false
	default:
		l.broken(d, to, errno)
		return sent, false
	}
	return sent, true
}

// deliver sends what f holds, and returns how much that was.
func (l *loop) deliver(d *duplex, from session.Side) int {
	f := &d.flows[from]
	if f.held == nil {
		return l.empty(d, from)
	}
	n, ok := l.send(d, from, f.held.data, f.held.greets)
	if !ok {
		return n
	}
	f.held.data, f.held.greets = f.held.data[n:], max(0, f.held.greets-n)
	if len(f.held.data) == 0 {
		l.spills.give(f.held)
		f.held = nil
	}
	return n
}

// over tells the session that everything a side sent was delivered, and how it
// ended.
//
// A socket tells of a reset once, and a splice towards it can take that and keep
// it: receiving then meets what looks like an end. Only what the kernel received
// says whether there was one; the event of the reset may be still to come.
func (l *loop) over(d *duplex, from session.Side) {
	f, src := &d.flows[from], &d.socks[from]
	if f.err == 0 && d.flows[from.Other()].piped {
		closed, received, ok := l.kernel.Info(int(src.fd))
		if ok && closed && received <= uint64(d.brain.Received(from)) {
			f.err = uint16(syscall.ECONNRESET)
		}
	}
	f.over = true
	if f.err == 0 {
		d.noteEnd(from)
	}
	l.obey(d, d.brain.Ended(l.now, from, errOf(syscall.Errno(f.err))), from)
}

// broken tells the session that a side takes nothing any more. What was read for
// it is lost; whether its own stream came to an end, reading it tells.
func (l *loop) broken(d *duplex, side session.Side, errno syscall.Errno) {
	f, s := &d.flows[side.Other()], &d.socks[side]
	f.over = true
	l.drop(f)
	s.readable, s.sticky = true, true
	l.again(d)
	l.obey(d, d.brain.Ended(l.now, side, errno), side)
}

// again gives d another turn.
func (l *loop) again(d *duplex) {
	if !d.turn {
		d.turn = true
		l.ready = append(l.ready, d.token(session.Client))
	}
}

// drop throws away what a flow holds.
func (l *loop) drop(f *flow) {
	if f.held != nil {
		l.spills.give(f.held)
		f.held = nil
	}
	if f.pipe != nil {
		l.pipes.Give(f.pipe)
		f.pipe = nil
	}
}

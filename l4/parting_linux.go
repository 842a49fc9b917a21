package l4

import (
	"net/netip"
	"syscall"
	"time"

	"sluice/l4/session"
)

// relay begins to move bytes: both sides are connected.
func (l *loop) relay(d *duplex, greet int) {
	d.phase = relaying
	if greet != 0 {
		l.greet(d, greet)
	}
	d.socks[session.Backend].writable = true
	if !l.splice || !d.socks[session.Client].tcp || !d.socks[session.Backend].tcp {
		d.flows[session.Client].by, d.flows[session.Backend].by = copyOnly, copyOnly
	}
	d.until = max(l.clock(l.now.Add(ageAfter)), 1)
	l.rearm(d)
	l.pump(d)
}

// greet puts the header of that version in front of all that the backend gets.
func (l *loop) greet(d *duplex, version int) {
	local := netip.AddrPort{}
	if s := &d.socks[session.Client]; s.tcp {
		local = l.kernel.LocalAddr(int(s.fd))
	}
	head := d.brain.Greeting(version, local)
	greets, f := len(head), &d.flows[session.Client]
	if f.held != nil { // what came with the client's header
		head = append(head, f.held.data...)
	}
	f.held = owned(head)
	f.held.greets = greets
}

// linger begins a polite ending: what was read goes out, behind it the end to
// both sides, and what they still send is dropped until they end too: a close
// with unread input would send RST.
func (l *loop) linger(d *duplex) {
	d.phase = lingering
	d.until = 0
	l.again(d)
}

// drain is one direction of a polite ending.
func (l *loop) drain(d *duplex, from session.Side) (more bool) {
	f, src, to := &d.flows[from], &d.socks[from], from.Other()
	for left := copyTurn; left > 0; {
		switch {
		case f.holds() && d.socks[to].writable:
			left -= l.deliver(d, from)
			continue
		case !f.holds() && !d.socks[to].shut:
			l.shut(d, to)
			continue
		case f.read || !src.readable:
			l.parted(d)
			return false
		}
		n, errno := l.kernel.Recv(int(src.fd), l.buffer)
		if f.received(src, n, errno, len(l.buffer)) {
			left -= n
		} else if f.read && errno == 0 {
			d.noteEnd(from)
		}
	}
	return true
}

// parted closes a session whose polite ending is complete.
func (l *loop) parted(d *duplex) {
	for side := range session.Side(2) {
		if f := &d.flows[side]; !f.read || f.holds() || !d.socks[side.Other()].shut {
			return
		}
	}
	l.close(d, session.Linger)
}

// abort begins an ending by RST: the socket of side has failed. What it sent
// before is still delivered, and its end, if it came.
func (l *loop) abort(d *duplex, side session.Side) {
	d.phase = aborting
	d.until, d.poll = 0, 0
	l.halt(d, side.Other())
	if d.socks[side].ended {
		l.shut(d, side.Other()) // the end came before the failure, and goes out before it
		l.halt(d, side)
	}
	l.again(d)
}

// reset begins an ending by RST to two living sides.
func (l *loop) reset(d *duplex) {
	d.phase = aborting
	d.until, d.poll = 0, 0
	l.halt(d, session.Client)
	l.halt(d, session.Backend)
	l.again(d)
}

// halt ends reading from a side.
func (l *loop) halt(d *duplex, side session.Side) {
	d.flows[side].over = true
	l.drop(&d.flows[side])
}

// flush closes an aborting session once the living took what is queued for
// them: RST throws the queue away.
func (l *loop) flush(d *duplex) {
	if !d.flows[session.Client].over || !d.flows[session.Backend].over {
		return
	}
	if !l.owes(d, session.Client) && !l.owes(d, session.Backend) {
		l.close(d, session.Abort)
		return
	}
	if d.until == 0 {
		// No event tells when a queue is empty.
		wait := min(max(2*time.Duration(d.poll)*time.Millisecond, flushPollMin), flushPollMax)
		d.poll = uint8(wait / time.Millisecond)
		d.until = l.clock(l.now.Add(wait))
		l.rearm(d)
	}
}

// owes reports whether a side has bytes to come that its peer may still take.
// The queue of a connection that is reset keeps its length.
func (l *loop) owes(d *duplex, side session.Side) bool {
	return d.brain.WaitsFor(side) && l.unsent(d, side) > 0 && !l.isReset(d, side)
}

func (l *loop) isReset(d *duplex, side session.Side) bool {
	closed, _, ok := l.kernel.Info(int(d.socks[side].fd))
	return ok && closed
}

// stallLook is how long a reader takes nothing before a reset that waits behind
// it is passed on: its send queue was seen not to move for 3 to 6 s at 20 KB/s.
const stallLook = 5 * time.Second

// stalled is a direction whose reader is slower. If its writer was reset, that
// waits behind what it sent before; if the reader takes nothing any more, it
// would wait for ever, and hold the session with it.
func (l *loop) stalled(d *duplex, from session.Side) {
	if !d.socks[from].failed || d.phase != relaying || d.until != 0 {
		return
	}
	d.stall = int32(l.unsent(d, from.Other()))
	d.until = l.clock(l.now.Add(stallLook))
	l.rearm(d)
}

// look is what the engine wanted to look at again by now.
func (l *loop) look(d *duplex) {
	if d.phase == aborting {
		l.flush(d)
		return
	}
	for side := range session.Side(2) {
		if d.phase != relaying || !d.flows[side].holds() || !d.socks[side].failed {
			continue
		}
		to := side.Other()
		// Once we sent it an end, a socket in this state may be closed properly.
		if n := l.unsent(d, to); n > 0 && int32(n) == d.stall && !d.socks[to].ended && l.isReset(d, side) {
			l.obey(d, d.brain.Ended(l.now, side, syscall.ECONNRESET), side)
			return
		}
		l.stalled(d, side)
	}
}

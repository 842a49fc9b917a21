package l4

import (
	"syscall"

	"sluice/l4/session"
)

// header receives what a client begins with until the brain knows whether that is
// a PROXY header. It returns step if more has to come first; an event or the
// timer will tell.
func (l *loop) header(d *duplex, step session.Step) session.Step {
	d.phase = heralded
	f, s := &d.flows[session.Client], &d.socks[session.Client]
	room := l.buffer[:min(len(l.buffer), headerRead)]
	for s.readable {
		n, errno := l.kernel.Recv(int(s.fd), room)
		next := step
		switch {
		case f.received(s, n, errno, len(room)):
			next = d.began(d.brain.Header(l.now, room[:n]))
		case f.read:
			next = d.began(d.brain.NoHeader(l.now, errOf(syscall.Errno(f.err))))
		}
		if next.Do != session.Header {
			return next
		}
	}
	l.wait(d, step.Deadline)
	return step
}

// began takes an answer of the brain to what a client began with: payload that came
// with the header is held for the relay.
func (d *duplex) began(payload []byte, next session.Step) session.Step {
	if next.Do != session.Header {
		d.until = 0
	}
	if len(payload) > 0 {
		d.flows[session.Client].held = owned(payload)
	}
	return next
}

package l4

import (
	"sluice/l4/epoll"
	"sluice/l4/session"
)

// waker returns the func that has d look for its backend again; any goroutine
// may call it.
func (l *loop) waker(d *duplex) func() {
	t := d.token(session.Client)
	return func() { l.post(func() { l.woken(t) }) }
}

// woken goes on with a session for which a backend is free, if it is still there.
func (l *loop) woken(t epoll.Token) {
	if d, _ := l.slots.find(t); d != nil && d.phase == queued {
		l.guard(d, func() { l.search(d, d.brain.Woken(l.now)) })
	}
}

// queue has d wait for its waker, the deadline, and the end of its client.
func (l *loop) queue(d *duplex, step session.Step) {
	d.phase = queued
	l.wait(d, step.Deadline)
	l.mayLeave(d)
}

// mayLeave ends a session in the queue whose client has ended its stream and
// sent nothing before. Bytes stay where they are.
func (l *loop) mayLeave(d *duplex) {
	s := &d.socks[session.Client]
	if s.sticky && !d.flows[session.Client].holds() && l.kernel.Ended(int(s.fd)) && d.brain.Left(l.now) {
		l.close(d, session.Cut)
	}
}

package l4

import (
	"net/netip"
	"time"

	"sluice/l4/epoll"
	"sluice/l4/session"

	"golang.org/x/sys/unix"
)

// phase is where a duplex is in its life.
type phase uint8

const (
	free      phase = iota // the slot is empty
	arrived                // nothing is known of the client yet
	heralded               // a PROXY header is waited for
	queued                 // it waits until a backend is free
	resolving              // a name is looked up
	dialing                // a connect is under way
	relaying
	lingering // see session.Linger
	aborting  // see session.Abort
)

// duplex is one session on the epoll engine. It lives in a slot of its loop, and
// nobody else touches it.
type duplex struct {
	brain session.Session
	entry *entry
	socks [2]sock // by session.Side
	flows [2]flow // by the side that they come from
	timer epoll.Timer
	until int64  // when to look again, as the timers count, apart from the brain's deadline; 0 is never
	stall int32  // see stalled: the send queue at the last look, in bytes
	poll  uint8  // see flush: milliseconds between two looks
	gen   uint32 // of the slot
	phase phase
	aged  bool // the options of a session that lasts are set
	turn  bool // it is on the ready list
}

// entry is what the sessions of one configuration of a frontend, from one
// listener, share. It is never changed.
type entry struct {
	frontend *Frontend
	config   *Config
	origin   *session.Origin
}

func newEntry(f *Frontend, cfg *Config, listen string, shard uint8) *entry {
	return &entry{f, cfg, &session.Origin{
		Process:  f.process,
		Frontend: f.name,
		Listen:   listen,
		Pool:     cfg.Pool,
		Settings: &cfg.Settings,
		Shard:    shard,
		Headers:  cfg.Admission.Headers,
		Admit:    f.admitter(cfg),
	}}
}

// sock is one socket, and what its events said.
type sock struct {
	fd       int32
	open     bool
	tcp      bool
	readable bool // a receive may find something
	writable bool // a send may find room
	sticky   bool // a short receive is not the last: an event since the last EAGAIN told of more than bytes
	hung     bool // an event told of a hang-up or an error
	failed   bool // an event told of an error
	ended    bool // its end of stream was read
	shut     bool // its write side is shut
}

// note takes the bits of an event.
func (s *sock) note(bits uint32) {
	const (
		more  = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR | unix.EPOLLPRI
		broke = unix.EPOLLHUP | unix.EPOLLERR
	)
	s.readable = s.readable || bits&(unix.EPOLLIN|more) != 0
	s.writable = s.writable || bits&(unix.EPOLLOUT|broke) != 0
	s.sticky = s.sticky || bits&more != 0
	s.hung = s.hung || bits&broke != 0
	s.failed = s.failed || bits&unix.EPOLLERR != 0
}

// token is what events of one side of d bring back.
func (d *duplex) token(side session.Side) epoll.Token {
	return epoll.Token{Slot: d.timer.Key*2 + int32(side), Gen: d.gen}
}

// begin takes over a client that was let in. What follows waits for its first
// event, which comes at once: it tells of a client that is gone already.
func (l *loop) begin(e *entry, fd int, from netip.AddrPort) {
	d := l.slots.take()
	l.current = d
	l.load.Add(1)
	d.entry, d.phase = e, arrived
	d.brain.Start(l.now, e.origin, e.frontend.numbers.Add(1), from)
	l.adopt(d, session.Client, fd, from.IsValid())
	switch {
	case l.poller.Add(fd, d.token(session.Client)) != 0:
		l.obey(d, d.brain.Asked(l.now, session.LocalFault), session.Client)
	case e.frontend.cutting.Load(): // the order to all came too early for it
		l.obey(d, d.brain.Asked(l.now, session.Shutdown), session.Client)
	}
}

// adopt makes fd the socket of a side.
func (l *loop) adopt(d *duplex, side session.Side, fd int, tcp bool) {
	d.socks[side] = sock{fd: int32(fd), open: true, tcp: tcp}
	if d.entry.config.Settings.UserTimeout > 0 {
		l.tune(d, side) // it may be over before the session is old
	}
}

// event is what happened at one side of d.
func (l *loop) event(d *duplex, side session.Side, bits uint32) {
	s := &d.socks[side]
	s.note(bits)
	switch d.phase {
	case arrived, heralded, queued, resolving, dialing:
		switch {
		case side == session.Backend:
			l.decided(d)
		case s.failed:
			d.brain.Gone(l.now)
			l.close(d, session.Cut)
		case d.phase == arrived, d.phase == heralded:
			l.search(d, d.brain.Next(l.now))
		case d.phase == queued:
			l.mayLeave(d)
		}
	default:
		l.pump(d)
	}
}

// obey does what the session answered; side is where the event came from. d may
// be closed when it returns.
func (l *loop) obey(d *duplex, v session.Verb, side session.Side) {
	switch v {
	case session.None:
	case session.HalfClose:
		l.shut(d, side.Other())
	case session.Linger:
		l.linger(d)
	case session.Abort:
		l.abort(d, side)
	case session.Reset:
		l.reset(d)
	case session.Finish, session.Cut:
		l.close(d, v)
		return
	}
	l.rearm(d)
}

// asked gives d an order, and reports whether it was taken.
func (l *loop) asked(d *duplex, cause session.Cause) bool {
	v := d.brain.Asked(l.now, cause)
	if v == session.Redial {
		l.divert(d, cause)
		return true
	}
	l.obey(d, v, session.Client)
	return v != session.None
}

// shut ends what we send to a side.
func (l *loop) shut(d *duplex, side session.Side) {
	if s := &d.socks[side]; !s.shut {
		s.shut = true
		l.kernel.ShutdownWrite(int(s.fd))
	}
}

// noteEnd notes that the end of a side's stream was read.
func (d *duplex) noteEnd(side session.Side) {
	if !d.socks[session.Client].ended && !d.socks[session.Backend].ended {
		d.entry.frontend.counters.halfClosed.Add(1)
	}
	d.socks[side].ended = true
}

// rearm sets the timer to what comes first: the session's deadline, or what the
// engine waits for.
func (l *loop) rearm(d *duplex) {
	when := d.until
	if deadline := d.brain.Deadline(); !deadline.IsZero() {
		if at := l.clock(deadline); when == 0 || at < when {
			when = max(at, 1)
		}
	}
	if when == 0 {
		l.timers.Stop(&d.timer)
		return
	}
	l.timers.Set(&d.timer, when)
}

// expired is the timer of d.
func (l *loop) expired(d *duplex) {
	switch d.phase {
	case heralded, queued, resolving, dialing:
		l.late(d)
		return
	case relaying:
		l.age(d)
	}
	if d.until != 0 && d.until <= l.clock(l.now) {
		d.until = 0
		l.look(d)
	}
	if d.phase == free {
		return
	}
	if deadline := d.brain.Deadline(); deadline.IsZero() || l.now.Before(deadline) {
		l.rearm(d)
		return
	}
	queues := [2]int{l.unsent(d, session.Client), l.unsent(d, session.Backend)}
	l.obey(d, d.brain.Expired(l.now, queues), session.Client)
}

// link returns what the kernel says of one side.
func (l *loop) link(d *duplex, side session.Side) (k session.Link) {
	if s := d.socks[side]; s.open {
		k.RTT, k.Retransmits, k.Known = l.kernel.Quality(int(s.fd))
	}
	return k
}

func (l *loop) unsent(d *duplex, side session.Side) int {
	return l.kernel.Unsent(int(d.socks[side].fd))
}

// ageAfter is when a session counts as one that lasts. Most are over sooner, and
// spared the calls for options that would have had no effect by then. Chosen.
const ageAfter = time.Second

// age sets the options that matter only to a session that lasts.
func (l *loop) age(d *duplex) {
	if !d.aged {
		d.aged = true
		l.tune(d, session.Client)
		l.tune(d, session.Backend)
	}
}

// tune sets the options of a session on one side.
func (l *loop) tune(d *duplex, side session.Side) {
	s, set := d.socks[side], &d.entry.config.Settings
	if !s.tcp || set.KeepAlive.Idle <= 0 && set.UserTimeout <= 0 {
		return
	}
	l.kernel.SetOptions(int(s.fd), epoll.Options{
		KeepAliveIdle:     set.KeepAlive.Idle,
		KeepAliveInterval: set.KeepAlive.Interval,
		KeepAliveCount:    set.KeepAlive.Count,
		UserTimeout:       set.UserTimeout,
	})
}

// close ends both sockets as v says and the session with them: the counterpart
// of begin.
func (l *loop) close(d *duplex, v session.Verb) {
	e, f := d.entry, d.entry.frontend
	source := ""
	if d.phase >= relaying && e.config.Record != nil {
		source = l.source(d)
	}
	for side := range d.socks {
		l.closeSocket(&d.socks[side], v)
		l.drop(&d.flows[side])
	}
	l.timers.Stop(&d.timer)
	r := d.brain.Close(l.now, source, f.counters.active.Load())
	if d.socks[session.Client].ended || d.socks[session.Backend].ended {
		f.counters.halfClosed.Add(-1) // behind what may panic: then close comes again
	}
	admitted := d.brain.Admitted()
	l.slots.put(d)
	l.load.Add(-1)
	f.leave(e.config, &r, admitted)
	if e.config.Record == nil || r.Cause.Rejected() {
		f.running.leave() // nobody to report to
		return
	}
	if len(l.left) == 0 {
		l.leftAt = l.now
	}
	l.left = append(l.left, finished{f, e.config, r})
	l.flushRecords() // more can end in one turn than may wait
}

// source returns our own address towards the backend, as net.Conn would give it.
func (l *loop) source(d *duplex) string {
	s := d.socks[session.Backend]
	if !s.tcp {
		return ""
	}
	return l.kernel.LocalAddr(int(s.fd)).String()
}

// closeSocket closes one side: with FIN if its stream came to a proper end, else
// with RST.
func (l *loop) closeSocket(s *sock, v session.Verb) {
	switch {
	case !s.open:
	case v == session.Finish, v == session.Linger && s.ended, !s.tcp:
		l.kernel.Close(int(s.fd))
	default:
		l.kernel.Reset(int(s.fd))
	}
	s.open = false
}

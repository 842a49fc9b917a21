package session

import (
	"net/netip"
	"strconv"
	"time"

	"sluice/pool"
)

// Origin is what a session is born with.
type Origin struct {
	Process  string // first part of the session's id: unique across restarts
	Number   uint64 // second part: unique under Process
	Frontend string
	Listen   string
	Client   netip.AddrPort // unmapped; zero for a unix socket
	Pool     *pool.Pool
	Settings *Settings     // pinned: must not change
	Lag      time.Duration // how late the engine may report what it moved
}

// Session is one client connection, as told by its engine. It is not safe for
// concurrent use. It must not be copied after Start.
//
// Events in an order that makes no sense change nothing: an answer that was not
// asked for gets the last step again, the rest gets None.
type Session struct {
	origin  Origin
	started time.Time

	// The search for a backend.
	route     Route
	step      Step      // the last answer; Do is 0 before Next
	deadline  time.Time // of the attempt
	addresses Addresses // of the backend being dialed
	literal   [1]string // holds the list of addresses if it needs no look-up
	address   string    // the last one dialed in the attempt
	dialed    time.Time // when the last look-up or dial ended

	// The relay.
	backend  *pool.Backend // from Relay to Close
	source   string
	moved    [2]int64 // payload bytes, by the side they came from
	lastFrom Side     // where the last byte came from
	ended    [2]bool  // by side: its end of stream was read
	broken   [2]bool  // by side: it takes nothing any more, and its end is still to be read
	first    Side     // who ended first; valid once one side ended

	progress time.Time // the last progress either way
	looked   time.Time // when the send queues were last compared; zero: not since progress
	unsent   [2]int    // as of that look

	ending Verb // Finish, Linger, Abort or Cut once the relay is over
	over   time.Time
	cause  Cause
}

// Start begins the session. It must be called once, before anything else.
func (s *Session) Start(now time.Time, o Origin) {
	s.origin = o
	s.started, s.progress = now, now
	s.route.Start(o.Pool, o.Settings, o.Client.Addr())
}

// Asked is an order from outside to end the session. While it looks for a
// backend the answer is Cut: cancel the dial and close.
func (s *Session) Asked(now time.Time, c Cause) Verb {
	if s.ending != None || s.cause != "" {
		return None
	}
	if s.backend == nil {
		s.cancel(now, c)
		return Cut
	}
	s.setCause(c)
	return s.end(now, Linger)
}

// setCause sets the cause unless there is one.
func (s *Session) setCause(c Cause) {
	if s.cause == "" {
		s.cause = c
	}
}

// ID returns the id of the session, unique across restarts.
func (s *Session) ID() string {
	var buf [64]byte
	id := append(buf[:0], s.origin.Process...)
	id = append(id, '-')
	return string(strconv.AppendUint(id, s.origin.Number, 10))
}

// Close ends the session for good: it releases the backend and returns the
// record. The engine calls it once, when it no longer touches the sockets.
// frontendActive counts this session as well. A session that nothing ended was
// given up by its engine: that is a local fault.
func (s *Session) Close(now time.Time, frontendActive int64) Record {
	s.cancel(now, LocalFault)
	s.setCause(LocalFault)
	r := Record{
		Started: s.started, Session: s.ID(), Frontend: s.origin.Frontend,
		Listen: s.origin.Listen, Client: s.origin.Client, Pool: s.origin.Pool.Name(),
		Address: s.address, Source: s.source, Attempts: s.route.Attempts(),
		ToBackend: s.moved[Client], ToClient: s.moved[Backend],
		Dial: s.dialTime(), Total: now.Sub(s.started), Last: now.Sub(s.progress),
		FrontendActive: frontendActive, Cause: s.cause,
		Code: s.cause.Code(s.route.TimedOut(), s.moved[s.lastFrom] > 0 && s.lastFrom == Client),
	}
	if n := len(r.Attempts); n > 0 {
		r.Backend = r.Attempts[n-1].Backend
	}
	if s.backend != nil {
		r.BackendActive = s.backend.Active()
	}
	s.route.Lease().Release()
	s.backend, s.ending, s.step = nil, Cut, Step{Do: End}
	return r
}

// dialTime returns how long the search took, 0 if nothing was tried.
func (s *Session) dialTime() time.Duration {
	if len(s.route.Attempts()) == 0 {
		return 0
	}
	return s.dialed.Sub(s.route.first)
}

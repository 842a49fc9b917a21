package session

import (
	"net/netip"
	"sync"
	"time"
	"unique"

	"sluice/pool"
)

// Origin is what all sessions of one configuration of a frontend and one
// listener share. It must not change once a session was started with it, nor be
// copied. Sessions of several owners may share it.
type Origin struct {
	Process  string // first part of the sessions' ids: unique across restarts
	Frontend string
	Listen   string
	Pool     *pool.Pool
	Settings *Settings
	Lag      time.Duration // how late the engine may report what it moved
	Shard    uint8         // of the backends' totals; another for each thread
	Headers  HeaderRules   // who begins with a PROXY header

	// Admit lets a client in that was to begin with a header, or returns why not.
	// It is required if there may be one.
	Admit func(client netip.Addr) Cause

	searches sync.Pool // of *search, zeroed: most are over in a moment
}

// Session is one client connection, as told by its engine. It is not safe for
// concurrent use. It must not be copied after Start.
//
// Events in an order that makes no sense change nothing: an answer that was not
// asked for gets the last step again, the rest gets None.
//
// An engine may hold very many sessions that do nothing, so each is small: what
// its frontend knows is in the shared origin, what only the search needs goes
// with the search, and moments are durations since the start. A session whose
// first dial succeeded, without a header before it, holds no memory but its own.
type Session struct {
	origin  *Origin
	number  uint64 // second part of the id: unique under origin.Process
	started time.Time
	client  netip.Addr
	port    uint16 // of client

	lastFrom Side  // where the last byte came from
	first    Side  // who ended first; valid once one side ended
	ended    sides // whose end of stream was read
	broken   sides // that take nothing any more, and whose end is still to be read
	ending   Verb  // Finish, Linger, Abort, Reset or Cut once the relay is over
	cause    uint8 // its place among the causes

	search *search    // nil once it is over
	lease  pool.Lease // of the backend dialed or reached
	moved  [2]int64   // payload bytes, by the side they came from

	// Since started.
	progress time.Duration // the last progress either way
	looked   time.Duration // when the send queues were last compared, or the last progress
	over     time.Duration // the time that an ending may take

	unsent [2]int32 // by side, as of that look; 0 if there was progress since

	// What the search leaves to the record.
	address unique.Handle[string] // the last one dialed; many sessions have the same
	dial    time.Duration         // how long the search took
	rest    *rest                 // nil if there is nothing in it
}

// rest is what only some sessions have to keep.
type rest struct {
	attempts []Attempt // nil if the first was the only one, and succeeded
	heading  *heading  // nil for a client that was not to begin with a header

	queued    time.Duration // in the queue of the pool
	leftQueue bool          // it ended there
	picked    time.Duration // since started: when the backend was that was reached
}

// keep returns the session's rest, for something to be put in.
func (s *Session) keep() *rest {
	if s.rest == nil {
		s.rest = new(rest)
	}
	return s.rest
}

// Start begins the session of client, which is the zero AddrPort for a unix
// socket, with a number that no other session under o.Process has. It must be
// called once, before anything else.
func (s *Session) Start(now time.Time, o *Origin, number uint64, client netip.AddrPort) {
	s.origin, s.number, s.started = o, number, now
	s.client, s.port = client.Addr(), client.Port()
	s.search = o.newSearch()
	s.search.route.start(o.Pool, o.Settings, s.client, &s.lease)
	if o.Headers.Expects(s.client) {
		s.awaitHeader()
	}
}

// backend returns the backend from Relay to Close, nil before and after.
func (s *Session) backend() *pool.Backend {
	if s.search != nil {
		return nil
	}
	return s.lease.Backend()
}

// age returns the time since the start.
func (s *Session) age(now time.Time) time.Duration { return now.Sub(s.started) }

// Asked is an order from outside to end the session. While it looks for a
// backend the answer is Cut: cancel the dial and close; or Redial, if the order
// is about the backend that is dialed. None: it is ending already.
func (s *Session) Asked(now time.Time, c Cause) Verb {
	switch {
	case s.ending != None || s.cause != 0:
		return None
	case s.search != nil && c.ofBackend() && s.lease.Backend() != nil:
		return Redial
	case s.search != nil:
		s.cancel(now, c)
		return Cut
	}
	s.setCause(c)
	if c == OnDown { // what the client has is not the whole answer
		return s.end(now, Reset)
	}
	return s.end(now, Linger)
}

// setCause sets the cause unless there is one.
func (s *Session) setCause(c Cause) {
	if s.cause == 0 {
		s.cause = c.place()
	}
}

// Key returns the id of the session, taken apart.
func (s *Session) Key() Key { return Key{s.origin.Process, s.number} }

// ID returns the id of the session, unique across restarts.
func (s *Session) ID() string { return s.Key().String() }

// clientAddr returns the client's address, as given to Start or told by a header.
func (s *Session) clientAddr() netip.AddrPort { return netip.AddrPortFrom(s.client, s.port) }

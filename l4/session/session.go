package session

import (
	"net/netip"
	"strconv"
	"strings"
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
type Session struct {
	origin  Origin
	route   Route
	started time.Time
	dialed  time.Time // end of the last dial

	addresses Addresses // of the backend being dialed
	address   string    // the one being dialed, then the one in use
	name      string    // what address was looked up from; empty if it was literal
	deadline  time.Time // of the attempt
	source    string
	backend   *pool.Backend // set once connected
	timedOut  bool          // the last dial ran out of time

	ended    [2]bool  // by side: its end of stream was read
	moved    [2]int64 // payload bytes, by the side they came from
	lastFrom Side     // where the last byte came from
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
	s.started, s.progress, s.dialed = now, now, now
	s.route.Start(o.Pool, o.Settings, o.Client.Addr())
}

// Next picks the first or the next backend.
func (s *Session) Next(now time.Time) Step {
	if s.cause != "" {
		return Step{Do: End}
	}
	try, cause := s.route.Next(now)
	if cause != "" {
		s.timedOut = s.route.TimedOut()
		return s.refuse(cause)
	}
	s.deadline = try.Deadline
	address := try.Backend.Address()
	if Literal(address) {
		s.name = ""
		return s.dialAny(now, []string{address})
	}
	s.name = address
	return Step{Do: Lookup, Address: address, Deadline: s.deadline}
}

// Literal reports whether a backend's address needs no look-up: it is
// "ip:port" or "unix:/path".
func Literal(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	_, err := netip.ParseAddrPort(address)
	return err == nil
}

// Resolved answers a Lookup with the addresses of the name, best first, each
// "ip:port", or with the resolver's error.
func (s *Session) Resolved(now time.Time, addresses []string, err error) Step {
	if s.cause != "" {
		return Step{Do: End}
	}
	if err != nil {
		return s.attemptFailed(now, err)
	}
	return s.dialAny(now, addresses)
}

func (s *Session) dialAny(now time.Time, addresses []string) Step {
	s.addresses = NewAddresses(addresses, s.deadline)
	return s.dialNext(now)
}

func (s *Session) dialNext(now time.Time) Step {
	address, deadline, ok := s.addresses.Next(now)
	if !ok {
		return s.attemptFailed(now, s.addresses.Err())
	}
	s.address = address
	return Step{Dial, address, s.name, deadline}
}

// Dialed answers a Dial. source is our own address of the new connection.
func (s *Session) Dialed(now time.Time, source string, err error) Step {
	if s.cause != "" {
		return Step{Do: End}
	}
	s.dialed = now
	if err != nil {
		if s.addresses.Failed(err) {
			return s.dialNext(now)
		}
		return s.attemptFailed(now, s.addresses.Err())
	}
	s.route.Dialed(now, nil)
	s.backend = s.route.Lease().Backend()
	s.source, s.progress = source, now
	return Step{Do: Relay}
}

// attemptFailed ends one attempt: the next backend, or the end.
func (s *Session) attemptFailed(now time.Time, err error) Step {
	s.dialed = now
	again, cause := s.route.Dialed(now, err)
	if again {
		return s.Next(now)
	}
	return s.refuse(cause)
}

func (s *Session) refuse(c Cause) Step {
	s.setCause(c)
	return Step{Do: End}
}

// setCause sets the cause unless there is one.
func (s *Session) setCause(c Cause) {
	if s.cause == "" {
		s.cause = c
	}
}

// Gone says that the client reset its connection while a backend was looked
// for. The engine cancels its dial and closes. Once a backend was reached it
// means nothing: reading will tell.
func (s *Session) Gone(now time.Time) { s.cancel(now, ClientLeft) }

func (s *Session) cancel(now time.Time, c Cause) {
	if s.backend != nil || s.cause != "" {
		return
	}
	s.setCause(c)
	s.dialed = now
	s.route.Cancel(now)
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

// Moved says that n payload bytes from side were delivered to the other side's
// socket. n may be 0: then something is about to be read.
func (s *Session) Moved(now time.Time, from Side, n int64) {
	s.progress, s.looked = now, time.Time{}
	if n == 0 {
		return
	}
	s.lastFrom = from
	s.moved[from] += n
	if from == Client {
		s.backend.Moved(n, 0)
	} else {
		s.backend.Moved(0, n)
	}
}

// HalfClosed reports whether one side has ended and the other has not.
func (s *Session) HalfClosed() bool { return s.ended[Client] != s.ended[Backend] }

// Redials returns how many dials were made because an earlier one failed.
func (s *Session) Redials() int { return s.route.Redials() }

// ID returns the id of the session, unique across restarts.
func (s *Session) ID() string {
	return s.origin.Process + "-" + strconv.FormatUint(s.origin.Number, 10)
}

// Close ends the session for good: it releases the backend and returns the
// record. The engine calls it once, when it no longer touches the sockets.
// frontendActive counts this session as well.
func (s *Session) Close(now time.Time, frontendActive int64) Record {
	r := Record{
		Started: s.started, Session: s.ID(), Frontend: s.origin.Frontend,
		Listen: s.origin.Listen, Client: s.origin.Client, Pool: s.origin.Pool.Name(),
		Address: s.address, Source: s.source, Attempts: s.route.Attempts(),
		ToBackend: s.moved[Client], ToClient: s.moved[Backend],
		Dial: s.dialed.Sub(s.started), Total: now.Sub(s.started), Last: now.Sub(s.progress),
		FrontendActive: frontendActive, Cause: s.cause,
		Code: s.cause.code(s.timedOut, s.lastFrom == Client),
	}
	if n := len(r.Attempts); n > 0 {
		r.Backend = r.Attempts[n-1].Backend
	}
	if s.backend != nil {
		r.BackendActive = s.backend.Active()
	}
	s.route.Lease().Release()
	return r
}

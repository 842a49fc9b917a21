package session

import (
	"errors"
	"net/netip"
	"os"
	"time"

	"sluice/l4/access"
	"sluice/l4/header"
)

// HeaderMode is what a frontend makes of PROXY headers.
type HeaderMode uint8

// The modes.
const (
	NoHeaders      HeaderMode = iota // what looks like one is payload
	AcceptHeaders                    // one that comes is taken; without one the client is the peer
	RequireHeaders                   // who sends none is not let in
)

// HeaderRules say who may begin with a PROXY header. The zero value says nobody.
type HeaderRules struct {
	Mode    HeaderMode
	From    *access.Set   // peers that are believed, beside those of a unix socket
	Timeout time.Duration // for the whole header
}

// Expects reports whether peer, the zero Addr for a unix socket, is to begin
// with a header. Whom the permissions of a unix socket let in is believed.
func (r *HeaderRules) Expects(peer netip.Addr) bool {
	return r.Mode != NoHeaders && (!peer.IsValid() || r.From.Has(peer))
}

// heading is what is known of a client that was to begin with a header.
type heading struct {
	peer        netip.AddrPort // of the socket
	destination netip.AddrPort // told by the header; zero if it told none
	size        int            // bytes of the header
	told        bool           // the header told the client's address
	outside     bool           // it was not let in, or not yet
}

// awaitHeader makes the header what Next asks for first.
func (s *Session) awaitHeader() {
	s.keep().heading = &heading{peer: s.clientAddr(), outside: true}
	s.search.step = Step{Do: Header, Deadline: s.started.Add(s.origin.Headers.Timeout)}
}

// Header answers a Header with the next bytes of the client. The step asks for a
// header again if more are needed. Otherwise payload is what all of them were
// beside the header, to be delivered before anything else, and the caller's.
func (s *Session) Header(now time.Time, p []byte) (payload []byte, next Step) {
	if step := s.step(); step.Do != Header {
		return nil, step
	}
	q := s.search
	q.begun = append(q.begun, p...)
	told, verdict := header.Read(q.begun)
	switch verdict {
	case header.More:
		return nil, q.step
	case header.None:
		return s.withoutHeader(now, BadHeader)
	}
	s.believe(told)
	return q.begun[told.Size:], s.comeIn(now)
}

// NoHeader answers a Header when no more is to come: the client ended its stream
// (err is nil), the time is over (os.ErrDeadlineExceeded), or receiving failed.
// payload is as of Header.
func (s *Session) NoHeader(now time.Time, err error) (payload []byte, next Step) {
	step := s.step()
	switch {
	case step.Do != Header:
		return nil, step
	case err == nil:
		return s.withoutHeader(now, BadHeader)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return s.withoutHeader(now, HeaderTimeout)
	case FaultOf(err).Blame == OnUs:
		return nil, s.refuse(now, LocalFault)
	}
	return nil, s.refuse(now, ClientLeft)
}

// withoutHeader takes what came for payload, unless there has to be a header.
func (s *Session) withoutHeader(now time.Time, c Cause) (payload []byte, next Step) {
	if s.origin.Headers.Mode == RequireHeaders {
		return nil, s.refuse(now, c)
	}
	payload = s.search.begun
	return payload, s.comeIn(now)
}

// believe makes the client the one that the header told.
func (s *Session) believe(told header.Header) {
	h := s.rest.heading
	h.size = told.Size
	if !told.Source.IsValid() {
		return
	}
	h.told, h.destination = true, told.Destination
	s.client, s.port = told.Source.Addr(), told.Source.Port()
	s.search.route.client = s.client
}

// comeIn begins the search of a client that is known now, if it may come in.
func (s *Session) comeIn(now time.Time) Step {
	if c := s.origin.Admit(s.client); c != "" {
		return s.refuse(now, c)
	}
	s.rest.heading.outside = false
	s.search.step = Step{}
	return s.next(now)
}

// Admitted reports whether the client was let in: it did not have to begin with
// a header, or that is over and Admit had nothing against it.
func (s *Session) Admitted() bool {
	return s.rest == nil || s.rest.heading == nil || !s.rest.heading.outside
}

// Announced returns the addresses that a header told: the client's, and the one
// that it connected to. ok is false if none did.
func (s *Session) Announced() (source, destination netip.AddrPort, ok bool) {
	if s.rest == nil || s.rest.heading == nil || !s.rest.heading.told {
		return netip.AddrPort{}, netip.AddrPort{}, false
	}
	return s.clientAddr(), s.rest.heading.destination, true
}

// peer returns the address of the client's socket if a header told another one.
func (s *Session) peer() netip.AddrPort {
	if _, _, ok := s.Announced(); ok {
		return s.rest.heading.peer
	}
	return netip.AddrPort{}
}

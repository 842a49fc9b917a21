package session

import (
	"errors"
	"net/netip"
	"strings"
	"time"
)

// Next picks the first backend. Dialed and Resolved go on to the next by
// themselves.
func (s *Session) Next(now time.Time) Step {
	if s.step.Do != 0 {
		return s.step
	}
	return s.next(now)
}

// next begins an attempt with a backend that was not tried yet.
func (s *Session) next(now time.Time) Step {
	try, cause := s.route.Next(now)
	if cause != "" {
		return s.refuse(cause)
	}
	s.deadline, s.address = try.Deadline, ""
	address := try.Backend.Address()
	if Literal(address) {
		s.literal[0] = address
		s.addresses = NewAddresses(s.literal[:], s.deadline)
		return s.dialNext(now, "")
	}
	s.step = Step{Do: Lookup, Address: address, Deadline: s.deadline}
	return s.step
}

// Literal reports whether a backend's address needs no look-up: it is
// "ip:port" or "unix:/path".
func Literal(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	if address == "" || !strings.ContainsAny(address[:1], "[0123456789") {
		return false // without the error that the parser would make for each name
	}
	_, err := netip.ParseAddrPort(address)
	return err == nil
}

// errNoAddress is for an engine that got an answer with nothing in it.
var errNoAddress = errors.New("the name has no address")

// Resolved answers a Lookup with the addresses of the name, best first, each
// "ip:port", or with the resolver's error. The session keeps the slice and does
// not change it.
func (s *Session) Resolved(now time.Time, addresses []string, err error) Step {
	if s.step.Do != Lookup {
		return s.step
	}
	s.dialed = now
	if err == nil && len(addresses) == 0 {
		err = errNoAddress
	}
	if err != nil {
		return s.attemptFailed(now, unresolved, err)
	}
	s.route.resolved(now)
	s.addresses = NewAddresses(addresses, s.deadline)
	return s.dialNext(now, s.step.Address)
}

// dialNext dials the next address of the backend; there is one. name is what it
// was looked up from.
func (s *Session) dialNext(now time.Time, name string) Step {
	address, deadline, _ := s.addresses.Next(now)
	s.address = address
	s.step = Step{Dial, address, name, deadline}
	return s.step
}

// Dialed answers a Dial. source is our own address of the new connection.
func (s *Session) Dialed(now time.Time, source string, err error) Step {
	if s.step.Do != Dial {
		return s.step
	}
	s.dialed = now
	if err != nil {
		if s.addresses.Failed(err) {
			return s.dialNext(now, s.step.Name)
		}
		err = s.addresses.Err()
		return s.attemptFailed(now, FaultOf(err), err)
	}
	s.route.Dialed(now, nil)
	s.backend = s.route.Lease().Backend()
	s.source, s.progress = source, now
	s.step = Step{Do: Relay}
	return s.step
}

// attemptFailed ends one attempt: the next backend, or the end.
func (s *Session) attemptFailed(now time.Time, f Fault, err error) Step {
	again, cause := s.route.failed(now, f, err)
	if again {
		return s.next(now)
	}
	return s.refuse(cause)
}

// refuse ends the search without a backend.
func (s *Session) refuse(c Cause) Step {
	s.setCause(c)
	s.step = Step{Do: End}
	return s.step
}

// Gone says that the client reset its connection while a backend was looked
// for. The engine cancels its dial and closes. Once a backend was reached it
// means nothing: reading will tell.
func (s *Session) Gone(now time.Time) { s.cancel(now, ClientLeft) }

// cancel ends the search, if that is still going on.
func (s *Session) cancel(now time.Time, c Cause) {
	if s.backend != nil || s.cause != "" {
		return
	}
	s.dialed = now
	s.route.Cancel(now)
	s.refuse(c)
}

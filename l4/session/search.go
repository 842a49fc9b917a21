package session

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unique"

	"sluice/l4/greeting"
)

// search is what a session needs only until it has a backend, or gets none.
type search struct {
	route     Route
	step      Step      // the last answer; Do is 0 before Next
	deadline  time.Time // of the attempt
	addresses Addresses // of the backend being dialed
	literal   [1]string // holds the list of addresses if it needs no look-up
	address   string    // the last one dialed in the attempt
	greet     int       // the version of the header that the backend wants, as the attempt began
	begun     []byte    // what came of a header that is not whole yet
}

// newSearch returns a search that has not begun.
func (o *Origin) newSearch() *search {
	if q, ok := o.searches.Get().(*search); ok {
		return q
	}
	return new(search)
}

// step returns the last answer.
func (s *Session) step() Step {
	switch {
	case s.search != nil:
		return s.search.step
	case s.backend() != nil:
		return Step{Do: Relay}
	}
	return Step{Do: End}
}

// Next picks the first backend. Dialed and Resolved go on to the next by
// themselves.
func (s *Session) Next(now time.Time) Step {
	if step := s.step(); step.Do != 0 {
		return step
	}
	return s.next(now)
}

// next begins an attempt with a backend that was not tried yet.
func (s *Session) next(now time.Time) Step {
	try, cause := s.search.route.Next(now)
	return s.picked(now, try, cause)
}

// picked goes on with the answer of Route.Next.
func (s *Session) picked(now time.Time, try Try, cause Cause) Step {
	if q := s.search; q.route.Queues() {
		q.step = Step{Do: Queue}
		return q.step
	}
	return s.found(now, try, cause)
}

// found goes on with an answer of the route that is not to queue.
func (s *Session) found(now time.Time, try Try, cause Cause) Step {
	switch {
	case cause != "":
		return s.refuse(now, cause)
	case try.Backend == nil:
		s.search.step = Step{Do: Wait, Deadline: try.Deadline}
		return s.search.step
	}
	return s.search.begin(now, try)
}

// begin asks for the addresses of a backend, or dials its only one.
func (q *search) begin(now time.Time, try Try) Step {
	q.deadline, q.address, q.greet = try.Deadline, "", try.Backend.SendProxy()
	address := try.Backend.Address()
	if Literal(address) {
		q.literal[0] = address
		q.addresses = NewAddresses(q.literal[:], q.deadline)
		return q.dialNext(now, "")
	}
	q.step = Step{Do: Lookup, Address: address, Deadline: q.deadline}
	return q.step
}

// dialNext dials the next address of the backend; there is one. name is what it
// was looked up from.
func (q *search) dialNext(now time.Time, name string) Step {
	address, deadline, _ := q.addresses.Next(now)
	q.address = address
	q.step = Step{Do: Dial, Address: address, Name: name, Deadline: deadline}
	return q.step
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
// "ip:port", or with the resolver's error. The session keeps the slice until the
// attempt is over, and does not change it.
func (s *Session) Resolved(now time.Time, addresses []string, err error) Step {
	step := s.step()
	if step.Do != Lookup {
		return step
	}
	if err == nil && len(addresses) == 0 {
		err = errNoAddress
	}
	if err != nil {
		return s.attemptFailed(now, unresolved, err)
	}
	q := s.search
	q.route.resolved(now)
	q.addresses = NewAddresses(addresses, q.deadline)
	return q.dialNext(now, step.Address)
}

// Dialed answers a Dial.
func (s *Session) Dialed(now time.Time, err error) Step {
	step := s.step()
	if step.Do != Dial {
		return step
	}
	q := s.search
	if err != nil {
		if q.addresses.Failed(err) {
			return q.dialNext(now, step.Name)
		}
		err = q.addresses.Err()
		f := FaultOf(err)
		if f.Blame == OnBackend {
			q.route.measure(now)
		}
		return s.attemptFailed(now, f, err)
	}
	greet := q.greet
	q.route.measure(now)
	q.route.Dialed(now, nil)
	s.leaveSearch(now)
	s.progressed(now)
	return Step{Do: Relay, Greet: greet}
}

// Greeting returns the header of that version that the backend gets before the
// first payload: who the client is, and where it connected to, as a header of its
// own told; else local, our address at its socket, which is zero for a unix
// socket. It is no payload.
func (s *Session) Greeting(version int, local netip.AddrPort) []byte {
	if _, to, ok := s.Announced(); ok {
		local = to
	}
	return greeting.Client(version, s.clientAddr(), local)
}

// attemptFailed ends one attempt: the next backend, or the end.
func (s *Session) attemptFailed(now time.Time, f Fault, err error) Step {
	again, cause := s.search.route.failed(now, f, err)
	if again {
		return s.next(now)
	}
	return s.refuse(now, cause)
}

// diverted is the fault of an attempt that an order ended.
var diverted = Fault{"canceled", OnNobody}

// Diverted answers Redial, once the engine has given up what was under way. c is
// the order's cause: the session's, if there is no other backend for it.
func (s *Session) Diverted(now time.Time, c Cause) Step {
	if s.search == nil || s.lease.Backend() == nil {
		return s.step()
	}
	q := s.search
	q.route.failed(now, diverted, context.Canceled)
	try, none := q.route.Next(now)
	if none != "" {
		none = c
	}
	return s.picked(now, try, none)
}

// refuse ends the search without a backend.
func (s *Session) refuse(now time.Time, c Cause) Step {
	s.setCause(c)
	s.leaveSearch(now)
	return s.step()
}

// Gone says that the client reset its connection while a backend was looked or
// waited for. The engine cancels its dial and closes. Once a backend was reached it
// means nothing: reading will tell.
func (s *Session) Gone(now time.Time) { s.cancel(now, ClientLeft) }

// cancel ends the search, if that is still going on.
func (s *Session) cancel(now time.Time, c Cause) {
	if s.search == nil {
		return
	}
	s.search.route.Cancel(now)
	s.refuse(now, c)
}

// leaveSearch drops the search but for what the record needs of it. Of most that
// is little: the only attempt follows from the backend and the time it took.
func (s *Session) leaveSearch(now time.Time) {
	q := s.search
	s.search = nil
	s.address = unique.Make(q.address)
	if list := q.route.Attempts(); len(list) > 0 {
		s.dial = now.Sub(q.route.first)
		if len(list) > 1 || s.backend() == nil {
			s.keep().attempts = slices.Clone(list)
		}
	}
	if queued := q.route.Queued(); queued > 0 || q.route.LeftQueue() {
		s.keep().queued, s.rest.leftQueue = queued, q.route.LeftQueue()
	}
	if s.rest != nil && s.backend() != nil {
		s.rest.picked = s.age(q.route.started)
	}
	*q = search{}
	s.origin.searches.Put(q)
}

package session

import (
	"errors"
	"syscall"
	"time"
)

// Moved says that n payload bytes from side were delivered to the other side's
// socket. n may be 0: then something is about to be read.
func (s *Session) Moved(now time.Time, from Side, n int64) {
	b := s.backend()
	if b == nil {
		return
	}
	s.progressed(now)
	if n <= 0 {
		return
	}
	s.lastFrom = from
	s.moved[from] += n
	if from == Client {
		b.Moved(s.origin.Shard, n, 0)
	} else {
		b.Moved(s.origin.Shard, 0, n)
	}
}

// Bytes returns the payload bytes of one side that were delivered.
func (s *Session) Bytes(from Side) int64 { return s.moved[from] }

// Received returns the bytes of one side that were taken off its socket and are
// settled: payload that was delivered, and a header.
func (s *Session) Received(from Side) int64 {
	if from == Client && s.rest != nil && s.rest.heading != nil {
		return s.moved[from] + int64(s.rest.heading.size)
	}
	return s.moved[from]
}

// HalfClosed reports whether one side has ended and the other has not.
func (s *Session) HalfClosed() bool { return s.ended.has(Client) != s.ended.has(Backend) }

// Ended says that a direction is over at one of its sockets: reading from side
// met the end of the stream (err is nil) or failed, or writing to side failed.
// The bytes before it were delivered.
//
//	at side                         answer           cause
//	end of stream, the first        HalfClose
//	end of stream, the second       Finish           who ended first
//	failure, side not ended         Abort            side reset
//	failure, side ended before      Linger or Abort  side closed
//	EPIPE, side not ended           None: its end is still to be read
//	end of stream after EPIPE       Linger or Abort  side closed
//	failure of ours (see OnUs)      Abort            local fault
//
// A failure after an end of stream is a close, not a reset: the peer closed its
// socket, and our own bytes provoked the RST. EPIPE says so before the end was
// read: the kernel gives ECONNRESET to who writes where no end came first. If
// it was the backend that closed, the client gets the time to take the answer
// that a close would leave it (Linger); to a client that left nobody owes any.
//
// A socket's error is reported once, so an end of stream after another failure
// means nothing: the first answer that ends the relay stays. The same end of
// stream twice is one.
func (s *Session) Ended(now time.Time, side Side, err error) Verb {
	switch {
	case s.ending != None || s.backend() == nil:
		return None
	case s.ended.has(side) && err == nil:
		return None
	case err != nil && FaultOf(err).Blame == OnUs:
		s.setCause(LocalFault)
		return s.end(now, Abort)
	case s.ended.has(side), s.broken.has(side) && err == nil:
		s.blame(now, side, false)
		s.ended.add(side)
		s.setCause(closedBy(side))
		return s.end(now, [2]Verb{Client: Abort, Backend: Linger}[side])
	case errors.Is(err, syscall.EPIPE):
		s.broken.add(side)
		s.progressed(now)
		return None
	case err != nil:
		s.blame(now, side, true)
		s.setCause([2]Cause{ClientReset, BackendReset}[side])
		return s.end(now, Abort)
	case s.ended.has(side.Other()):
		s.ended.add(side)
		s.setCause(closedBy(s.first))
		return s.end(now, Finish)
	}
	s.blame(now, side, false)
	s.ended.add(side)
	s.first = side
	s.progressed(now)
	return HalfClose
}

// blame tells the pool that the backend ended the session, if it did so before
// anybody else. A client that left first is no sign: it may have looked whether
// somebody listens, and nothing more.
func (s *Session) blame(now time.Time, side Side, reset bool) {
	if side == Client || s.ended != 0 || s.broken.has(Client) {
		return
	}
	s.lease.EndedFirst(reset, s.moved[Backend] == 0, s.age(now)-s.connected())
}

// connected returns when the backend was reached, since the start.
func (s *Session) connected() time.Duration {
	switch {
	case s.rest == nil:
		return s.dial
	case len(s.rest.attempts) == 0:
		return s.rest.picked + s.dial
	}
	return s.rest.picked + s.rest.attempts[len(s.rest.attempts)-1].Took
}

func closedBy(side Side) Cause {
	if side == Client {
		return ClientClosed
	}
	return BackendClosed
}

// end stops the relay and starts the time that its ending may take.
func (s *Session) end(now time.Time, v Verb) Verb {
	s.ending, s.over = v, s.age(now)+LingerTime
	return v
}

// WaitsFor reports whether the ending, an Abort or a Reset, lets what is queued for
// that side go out first. A Reset does not for the backend, which is down: what
// nobody acknowledges would keep the client from hearing of it.
func (s *Session) WaitsFor(side Side) bool { return s.ending != Reset || side == Client }

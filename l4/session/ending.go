package session

import "time"

// Ended says that a direction is over at one of its sockets: reading from side
// met the end of the stream (err is nil) or failed, or writing to side failed.
// The bytes before it were delivered.
//
//	at side                         answer      cause
//	end of stream, the first        HalfClose
//	end of stream, the second       Finish      who ended first
//	failure, side not ended         Abort       side reset
//	failure, side ended before      Abort       side closed
//
// A failure after an end of stream is a close, not a reset: the peer closed its
// socket, and our own bytes provoked the RST. A socket's error is reported
// once, so an end of stream after a failure means nothing: the first answer
// that ends the relay stays.
func (s *Session) Ended(now time.Time, side Side, err error) Verb {
	switch {
	case s.ending != None:
		return None
	case err != nil:
		s.setCause(s.failure(side))
		return s.end(now, Abort)
	case s.ended[side.Other()]:
		s.ended[side] = true
		s.setCause(closedBy(s.first))
		return s.end(now, Finish)
	}
	s.ended[side], s.first = true, side
	s.progress, s.looked = now, time.Time{}
	return HalfClose
}

func (s *Session) failure(side Side) Cause {
	switch {
	case s.ended[side]:
		return closedBy(side)
	case side == Client:
		return ClientReset
	}
	return BackendReset
}

func closedBy(side Side) Cause {
	if side == Client {
		return ClientClosed
	}
	return BackendClosed
}

// end stops the relay and starts the time that its ending may take.
func (s *Session) end(now time.Time, v Verb) Verb {
	s.ending, s.over = v, now.Add(LingerTime)
	return v
}

// Deadline returns when to call Expired next; zero is never. It moves with
// every other call, but an engine needs to look again only after Ended, Asked
// and Expired: a deadline that moved away through Moved just makes an early
// Expired answer None.
func (s *Session) Deadline() time.Time {
	switch s.ending {
	case None:
	case Cut, Finish:
		return time.Time{}
	default:
		return s.over
	}
	limit, _ := s.limit()
	if limit == 0 || s.backend == nil {
		return time.Time{}
	}
	end := s.progress.Add(limit + s.origin.Lag)
	if look := s.nextLook(limit); look.Before(end) {
		return look
	}
	return end
}

// nextLook returns when to compare the send queues again. Four looks fit into a
// limit, so that a reader that stops is ended a quarter of the limit late at
// most; empty queues need no second look.
func (s *Session) nextLook(limit time.Duration) time.Time {
	if s.looked.IsZero() {
		return s.progress.Add(limit / 4)
	}
	if s.unsent == [2]int{} {
		return s.looked.Add(limit + s.origin.Lag)
	}
	return s.looked.Add(limit / 4)
}

// limit returns the shorter of the limits in force, and its cause.
func (s *Session) limit() (time.Duration, Cause) {
	idle, half := s.origin.Settings.IdleTimeout, s.origin.Settings.HalfCloseTimeout
	if !s.HalfClosed() || half == 0 || (idle != 0 && idle < half) {
		return idle, Idle
	}
	return half, HalfCloseTimeout
}

// Expired answers a deadline. unsent is the length of each side's send queue in
// bytes, by side: a queue that changed since the last look is progress, so a
// slow reader is never taken for an idle one.
func (s *Session) Expired(now time.Time, unsent [2]int) Verb {
	if s.ending != None {
		return s.lingerOver(now)
	}
	limit, cause := s.limit()
	if limit == 0 || s.backend == nil {
		return None
	}
	s.look(now, unsent)
	if now.Sub(s.progress) < limit+s.origin.Lag {
		return None
	}
	s.setCause(cause)
	return s.end(now, Linger)
}

// look compares the send queues. The first look finds no earlier one to compare
// with, so bytes in a queue count as progress then.
func (s *Session) look(now time.Time, unsent [2]int) {
	if unsent != s.unsent && !s.looked.IsZero() || unsent != [2]int{} && s.looked.IsZero() {
		s.progress = now
	}
	s.looked, s.unsent = now, unsent
}

func (s *Session) lingerOver(now time.Time) Verb {
	if s.ending == Cut || now.Before(s.over) {
		return None
	}
	s.ending = Cut
	return Cut
}

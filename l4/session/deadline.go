package session

import "time"

// looks is how many times the send queues are compared within a limit: a reader
// that stops is ended a quarter of the limit late at most. Chosen.
const looks = 4

// Deadline returns when to call Expired next; zero is never. It moves with
// every other call, but an engine needs to look again only after Dialed, Ended,
// Asked and Expired: Moved moves it away, and then an early Expired is a look at
// the send queues and answers None.
func (s *Session) Deadline() time.Time {
	switch s.ending {
	case None:
	case Linger, Abort, Reset:
		return s.started.Add(s.over)
	default:
		return time.Time{}
	}
	if s.backend() == nil {
		return time.Time{}
	}
	at := s.lifetime()
	if limit, _ := s.limit(); limit > 0 {
		// Looks go on while the queues are empty: a peer may stall right after one,
		// and Moved alone makes no engine look at the deadline.
		at = sooner(at, min(s.looked+limit/looks, s.progress+limit+s.origin.Lag))
	}
	if at == 0 {
		return time.Time{}
	}
	return s.started.Add(at)
}

// sooner returns the lesser of two moments, of which 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// limit returns the shorter of the limits in force, and its cause.
func (s *Session) limit() (time.Duration, Cause) {
	idle, half := s.origin.Settings.IdleTimeout, s.origin.Settings.HalfCloseTimeout
	halfClosed := s.HalfClosed() || s.broken != 0
	if !halfClosed || half == 0 || (idle != 0 && idle < half) {
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
	if s.backend() == nil {
		return None
	}
	if limit, cause := s.limit(); limit > 0 {
		s.look(now, unsent)
		if s.age(now)-s.progress >= limit+s.origin.Lag {
			s.setCause(cause)
			return s.end(now, Linger)
		}
	}
	if life := s.lifetime(); life > 0 && s.age(now) >= life {
		s.setCause(MaxAge)
		return s.end(now, Linger)
	}
	return None
}

// look compares the send queues. The first look since the last progress finds
// no earlier one to compare with, so bytes in a queue count as progress then.
func (s *Session) look(now time.Time, unsent [2]int) {
	queues := [2]int32{int32(unsent[Client]), int32(unsent[Backend])}
	s.looked = s.age(now)
	if queues != s.unsent {
		s.progress, s.unsent = s.looked, queues
	}
}

// progressed notes progress that the send queues need not tell.
func (s *Session) progressed(now time.Time) {
	s.progress = s.age(now)
	s.looked, s.unsent = s.progress, [2]int32{}
}

// lingerOver answers a deadline of an ending.
func (s *Session) lingerOver(now time.Time) Verb {
	switch s.ending {
	case Linger, Abort, Reset:
		if s.age(now) >= s.over {
			s.ending = Cut
			return Cut
		}
	}
	return None
}

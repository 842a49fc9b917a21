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
	case Linger, Abort:
		return s.over
	default:
		return time.Time{}
	}
	limit, _ := s.limit()
	if limit == 0 || s.backend == nil {
		return time.Time{}
	}
	end, look := s.progress.Add(limit+s.origin.Lag), s.nextLook(limit)
	if look.Before(end) {
		return look
	}
	return end
}

// nextLook returns when to compare the send queues again. Looks go on while the
// queues are empty: a peer may stall right after one, and Moved alone makes no
// engine look at the deadline.
func (s *Session) nextLook(limit time.Duration) time.Time {
	last := s.looked
	if last.IsZero() {
		last = s.progress
	}
	return last.Add(limit / looks)
}

// limit returns the shorter of the limits in force, and its cause.
func (s *Session) limit() (time.Duration, Cause) {
	idle, half := s.origin.Settings.IdleTimeout, s.origin.Settings.HalfCloseTimeout
	halfClosed := s.HalfClosed() || s.broken != [2]bool{}
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

// look compares the send queues. The first look since the last progress finds
// no earlier one to compare with, so bytes in a queue count as progress then.
func (s *Session) look(now time.Time, unsent [2]int) {
	before := s.unsent
	if s.looked.IsZero() {
		before = [2]int{}
	}
	if unsent != before {
		s.progress = now
	}
	s.looked, s.unsent = now, unsent
}

// progressed notes progress that the send queues need not tell.
func (s *Session) progressed(now time.Time) { s.progress, s.looked = now, time.Time{} }

// lingerOver answers a deadline of an ending.
func (s *Session) lingerOver(now time.Time) Verb {
	if s.ending != Linger && s.ending != Abort || now.Before(s.over) {
		return None
	}
	s.ending = Cut
	return Cut
}

package session

import "time"

// Close ends the session for good: it releases the backend and returns the
// record. The engine calls it once, when it no longer touches the sockets.
// source is our own address towards the backend; it means nothing if none was
// reached. frontendActive counts this session as well. A session that nothing
// ended was given up by its engine: that is a local fault.
func (s *Session) Close(now time.Time, source string, frontendActive int64) Record {
	s.cancel(now, LocalFault)
	s.setCause(LocalFault)
	r := s.record(now)
	r.FrontendActive = frontendActive
	if b := s.backend(); b != nil {
		r.Source, r.BackendActive = source, b.Active()
	}
	s.lease.Release()
	s.ending = Cut
	return r
}

// record returns the record of a session that no longer looks for a backend,
// without what only the engine and the backend know.
func (s *Session) record(now time.Time) Record {
	tried, o := s.tried(), s.origin
	return Record{
		Started: s.started, Session: s.ID(), Frontend: o.Frontend,
		Listen: o.Listen, Client: s.clientAddr(), Peer: s.peer(), Pool: o.Pool.Name(),
		Backend: s.backendID(), Address: s.lastAddress(), Attempts: tried,
		ToBackend: s.moved[Client], ToClient: s.moved[Backend],
		Queue: s.queued(), Dial: s.dial, Total: s.age(now), Last: s.age(now) - s.progress, Cause: causes[s.cause],
		Code: causes[s.cause].Code(Moment{
			TimedOut:  timedOut(tried),
			ToBackend: s.moved[Client] > 0 && s.lastFrom == Client,
			Queued:    s.rest != nil && s.rest.leftQueue,
		}),
	}
}

// queued returns how long the session waited in the queue, once that is over.
func (s *Session) queued() time.Duration {
	if s.rest == nil {
		return 0
	}
	return s.rest.queued
}

// tried returns the attempts of a search that is over. The one that was not kept
// is made up here, and kept then: the backend is about to be released.
func (s *Session) tried() []Attempt {
	if b := s.backend(); s.attempts() == nil && b != nil {
		s.keep().attempts = []Attempt{{Backend: b.ID(), Took: s.dial}}
	}
	return s.attempts()
}

// attempts returns the attempts that were kept.
func (s *Session) attempts() []Attempt {
	if s.rest == nil {
		return nil
	}
	return s.rest.attempts
}

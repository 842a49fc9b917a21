package session

import (
	"time"

	"sluice/pool"
)

// waited is the part of a route that deals with the queue of its pool.
type waited struct {
	full  bool          // the last pick found all full
	place *pool.Place   // nil while it does not wait
	since time.Time     // when it began to
	until time.Time     // when that is over
	took  time.Duration // all waits that are over
	last  bool          // the route ended while it waited
}

// Queues reports whether, after Next found every usable backend full, Queue may
// follow in the place of the end.
func (r *Route) Queues() bool { return r.waited.full && r.pool.Queues() }

// Queue is Next for a client that is ready to wait. A Try without a backend is a
// place in the queue: Woken must be called when wake was, and at the deadline,
// until there is a backend or a cause. wake is called once, by any goroutine; it
// must not block.
func (r *Route) Queue(now time.Time, wake func()) (Try, Cause) {
	place, err := r.pool.Join(r.lease, r.query(), wake)
	if err != nil {
		return Try{}, r.none(err)
	}
	if place == nil {
		return r.try(now), ""
	}
	r.waited.place, r.waited.since, r.waited.until = place, now, now.Add(place.Patience)
	return Try{Deadline: r.waited.until}, ""
}

// Woken looks what came of the place in the queue.
func (r *Route) Woken(now time.Time) (Try, Cause) {
	w := &r.waited
	if w.place == nil {
		return Try{}, r.none(pool.ErrNoBackend)
	}
	err := w.place.Take(r.lease, !now.Before(w.until))
	if err == pool.ErrWaiting {
		return Try{Deadline: w.until}, ""
	}
	r.leaveQueue(now)
	if err != nil {
		return Try{}, r.none(err)
	}
	w.last = false
	return r.try(now), ""
}

// leaveQueue notes that the wait is over. The budget of the dials does not count
// it.
func (r *Route) leaveQueue(now time.Time) {
	w := &r.waited
	d := now.Sub(w.since)
	w.place, w.last, w.took = nil, true, w.took+d
	r.first = r.first.Add(d)
}

// Queued returns how long the route waited in the queue, waits that are over.
func (r *Route) Queued() time.Duration { return r.waited.took }

// LeftQueue reports whether the route ended while it waited.
func (r *Route) LeftQueue() bool { return r.waited.last }

// Queue answers a Queue: the session takes its place. The next step is Wait,
// unless a backend became free meanwhile. wake is called when Woken is to be: once
// at most, by any goroutine. It must not block.
func (s *Session) Queue(now time.Time, wake func()) Step {
	if step := s.step(); step.Do != Queue {
		return step
	}
	try, cause := s.search.route.Queue(now, wake)
	return s.found(now, try, cause)
}

// Woken answers a Wait, when the session was woken and when the deadline came.
func (s *Session) Woken(now time.Time) Step {
	if step := s.step(); step.Do != Wait {
		return step
	}
	try, cause := s.search.route.Woken(now)
	return s.found(now, try, cause)
}

// Waits reports whether the session is in the queue.
func (s *Session) Waits() bool { return s.step().Do == Wait }

// Left says that the client ended its stream without a byte before it. While it
// waits it has left then. At any other time that is a half-close, and Left
// changes nothing: reading will tell.
func (s *Session) Left(now time.Time) (over bool) {
	if !s.Waits() {
		return false
	}
	s.cancel(now, ClientLeft)
	return true
}

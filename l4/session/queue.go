package session

import (
	"time"

	"sluice/pool"
)

// waited is the part of a route that deals with the queue of its pool.
type waited struct {
	worth bool          // after Next found none: a place in the queue may help
	never bool          // see Reached
	in    bool          // it waits, in place
	place *pool.Place   // the newest; nil before the first
	came  time.Time     // when it took the first: what its patience counts from
	since time.Time     // when it took this one
	until time.Time     // when its patience is over
	took  time.Duration // all waits that are over
	last  bool          // the route ended while it waited
}

// Queues reports whether, after Next found no backend, Queue may follow in the
// place of the end.
func (r *Route) Queues() bool { return r.waited.worth && r.pool.Queues() }

// Reached says that a backend may have acted for the client. From then on the
// route is not held: to try the same backends again is not for it to decide.
func (r *Route) Reached() { r.waited.never = true }

// holds reports whether it may wait for a backend to be eligible.
func (r *Route) holds() bool { return !r.waited.never && r.pool.Holds() }

// exhausted notes that nothing is left to be tried. If the pool has nothing else
// either, that is to be waited for.
func (r *Route) exhausted() {
	r.waited.worth = r.holds() && r.pool.Exhausted(r.query())
}

// Queue is Next for a client that is ready to wait. A Try without a backend is a
// place in the queue: Woken must be called when wake was, and at the deadline,
// until there is a backend or a cause. wake is called by any goroutine, perhaps
// more than once; it must not block. A route that was in the queue before comes
// back to where it was, and its time has gone on.
func (r *Route) Queue(now time.Time, wake func()) (Try, Cause) {
	w := &r.waited
	if w.came.IsZero() {
		w.came = now
	}
	place, err := r.pool.Join(r.lease, r.query(), pool.Waiter{Wake: wake, Holds: !w.never, Place: w.place})
	if err != nil {
		return Try{}, r.none(err)
	}
	if place == nil {
		r.renew(now)
		return r.try(now), ""
	}
	w.in, w.place, w.since = true, place, now
	if try := r.wait(); now.Before(try.Deadline) {
		return try, ""
	}
	return r.Woken(now) // its last try was too long
}

// wait asks for a wait as long as the place allows.
func (r *Route) wait() Try {
	r.waited.until = r.waited.came.Add(r.waited.place.Patience())
	return Try{Deadline: r.waited.until}
}

// Woken looks what came of the place in the queue.
func (r *Route) Woken(now time.Time) (Try, Cause) {
	w := &r.waited
	if !w.in {
		return Try{}, r.none(pool.ErrNoBackend)
	}
	err := w.place.Take(r.lease, now.Sub(w.came))
	if err == pool.ErrWaiting {
		return r.wait(), ""
	}
	r.leaveQueue(now)
	if err != nil {
		return Try{}, r.none(err)
	}
	w.last = false
	r.renew(now)
	return r.try(now), ""
}

// leaveQueue notes that the wait is over. The budget of the dials does not count
// it.
func (r *Route) leaveQueue(now time.Time) {
	w := &r.waited
	d := now.Sub(w.since)
	w.in, w.last, w.took = false, true, w.took+d
	r.first, r.from = r.first.Add(d), r.from.Add(d)
}

// renew begins anew, with all that a session may try and all its time, for one
// that was held: the situation is another.
func (r *Route) renew(now time.Time) {
	if r.waited.place == nil {
		return
	}
	held, avoid := r.waited.place.Held()
	if !held {
		return
	}
	r.avoid = append(r.avoid[:0:0], avoid...)
	r.tried, r.from, r.eligible = 0, now, r.pool.Eligible()
}

// Queued returns how long the route waited in the queue, waits that are over.
func (r *Route) Queued() time.Duration { return r.waited.took }

// LeftQueue reports whether the route ended while it waited.
func (r *Route) LeftQueue() bool { return r.waited.last }

// Queue answers a Queue: the session takes its place. The next step is Wait,
// unless a backend became free meanwhile. wake is called when Woken is to be, by any
// goroutine, perhaps more than once. It must not block.
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

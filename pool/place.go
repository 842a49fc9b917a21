package pool

import (
	"container/list"
	"time"
)

// Place is one session's place in the queue of a pool. Its owner ends it by Take
// or Leave.
type Place struct {
	pool   *Pool
	waiter Waiter

	// pool.queue.mu guards the fields below.
	query    Query
	seq      uint64        // its order
	queueFor time.Duration // how long it may wait for room: the policy's when it came
	patience time.Duration // how long it may wait as things are
	held     bool          // waits for one that is eligible, or for its turn after that
	wasHeld  bool
	at       *list.Element // nil once it is decided, or over
	lease    Lease         // what came of it,
	err      error         // or why nothing did
}

// waitsFor reports whether a session that found no backend because of err waits,
// or goes on with it. What else of the policy changed since it came is for those
// who come.
func (at *Place) waitsFor(err error) bool {
	return err != ErrNoBackend || at.waiter.Holds && at.pool.current.Load().policy.HoldFor > 0
}

// returnLocked lets a session whose dial failed back to where it was in the line.
func (at *Place) returnLocked(l *Lease) (*Place, error) {
	p, before := at.pool, at.waiter.Place
	at.seq, at.queueFor, at.wasHeld, at.waiter.Place = before.seq, before.queueFor, before.wasHeld, nil
	at.lineUpLocked()
	if err := p.current.Load().refusal(at.query); !at.waitsFor(err) {
		at.outLocked(err)
		return nil, err
	} else if err == ErrNoBackend {
		p.standLocked(at, err)
	}
	if why := p.settleLocked(false); at.at != nil && why != nil && !at.picky() {
		p.standLocked(at, why)
	} else if at.at != nil && at.patience == 0 {
		p.standLocked(at, ErrFull)
	}
	if at.at != nil {
		return at, nil
	}
	return nil, at.endLocked(l)
}

// Take ends the place, unless the answer is ErrWaiting, and moves what came of
// it to l, which is empty. It gives up with ErrLate or ErrHeldLate if waited,
// which is the time since the session came first, is all its patience. Taking
// twice is harmless.
func (at *Place) Take(l *Lease, waited time.Duration) error {
	c := &at.pool.queue
	c.mu.Lock()
	defer at.pool.leaveQueue()
	switch {
	case at.lostLocked() && at.againLocked(l):
		return at.err
	case at.at != nil && waited < at.patience:
		return ErrWaiting
	case at.at != nil && at.held:
		c.heldInVain.Add(1)
		at.outLocked(ErrHeldLate)
	case at.at != nil:
		c.timeouts.Add(1)
		at.outLocked(ErrLate)
	}
	return at.endLocked(l)
}

// endLocked moves what came of the place, which is decided, to l.
func (at *Place) endLocked(l *Lease) error {
	if at.err == nil {
		at.lease.moveTo(l)
	}
	return at.err
}

// lostLocked gives back what came of the place if that backend gets no new
// sessions any more: who ends its sessions cannot find one that has not taken its
// lease. It reports whether that is so.
func (at *Place) lostLocked() bool {
	c, b := &at.pool.queue, at.lease.backend
	if at.at != nil || b == nil || at.pool.current.Load().has(b) {
		return false
	}
	c.stale = append(c.stale, &Member{Backend: b, onTrial: at.lease.onTrial})
	at.lease.backend = nil
	return true
}

// againLocked looks for another backend, which l gets, in the place of one that
// was lost, and reports whether that is all: else it waits again.
func (at *Place) againLocked(l *Lease) (over bool) {
	c := &at.pool.queue
	c.length.Add(1)
	err := at.pool.acquireLocked(l, at.query)
	if err == nil || !at.waitsFor(err) {
		c.length.Add(-1)
		at.err = err
		return true
	}
	at.err = nil
	at.lineUpLocked()
	at.pool.standLocked(at, err)
	return false
}

// Leave ends the place, and gives back what came of it.
func (at *Place) Leave() {
	c := &at.pool.queue
	c.mu.Lock()
	if at.at != nil {
		at.outLocked(ErrLate)
	}
	at.pool.leaveQueue()
	at.lease.Release()
}

// Patience returns how long the session may wait as things are, since it came.
func (at *Place) Patience() time.Duration {
	at.pool.queue.mu.Lock()
	defer at.pool.queue.mu.Unlock()
	return at.patience
}

// Held reports whether the session ever waited for a backend to be eligible, and
// which of those that it had tried it should not try again soon.
func (at *Place) Held() (held bool, avoid []*Backend) {
	at.pool.queue.mu.Lock()
	defer at.pool.queue.mu.Unlock()
	return at.wasHeld, at.query.Avoid
}

// picky reports whether the place is not for any backend.
func (at *Place) picky() bool { return len(at.query.Avoid) > 0 }

// lineUpLocked puts a place into the line.
func (at *Place) lineUpLocked() {
	line := &at.pool.queue.line
	e := line.Back()
	if front := line.Front(); front != nil && front.Value.(*Place).seq > at.seq {
		e = nil
	}
	for e != nil && e.Value.(*Place).seq > at.seq {
		e = e.Prev()
	}
	if e == nil {
		at.at = line.PushFront(at)
		return
	}
	at.at = line.InsertAfter(at, e)
}

// decideLocked ends the wait, and has it told.
func (at *Place) decideLocked(err error) {
	at.outLocked(err)
	at.pool.queue.woken = append(at.pool.queue.woken, at)
}

// outLocked takes a place out of the line. The pace is over with the last.
func (at *Place) outLocked(err error) {
	c := &at.pool.queue
	c.line.Remove(at.at)
	c.length.Add(-1)
	if at.held {
		c.held.Add(-1)
	}
	at.at, at.err, at.held, at.patience = nil, err, false, 0
	if c.line.Len() == 0 {
		c.pace.on = false
	}
}

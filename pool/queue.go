package pool

import (
	"container/list"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrWaiting is the answer of a Place for which nothing is free yet.
	ErrWaiting = errors.New("waits for a backend")
	// ErrLate is the answer of a Place whose time was over first.
	ErrLate = errors.New("no backend became free in time")
)

// queue holds the sessions that wait for a backend, in the order in which they
// came.
//
// A slot that becomes free goes to the first that may have it before anybody is
// woken, so that none is lost with a session that leaves. Whoever makes a slot
// free looks at length after that, and whoever joins is counted in length before
// it looks for a slot: one of the two sees the other.
type queue struct {
	length   atomic.Int64 // of line, and who is about to join it; read at every pick and release
	total    atomic.Int64
	timeouts atomic.Int64

	mu    sync.Mutex // guards the fields below and those of places; nothing is locked under it
	line  list.List  // of *Place
	woken []*Place   // decided; to be woken outside mu
	stale []*Member  // picked, and found removed; to be released outside mu
}

// Place is one session's place in the queue of a pool. Its owner ends it by Take
// or Leave.
type Place struct {
	Patience time.Duration // how long it may last: the policy's when it began

	pool  *Pool
	query Query
	wake  func()

	// pool.queue.mu guards the fields below.
	at    *list.Element // nil once it is decided, or over
	lease Lease         // what came of it,
	err   error         // or why nothing did
}

// waits decides whether a session waits that found no backend because of err,
// where n wait already, and for how long.
func (p Policy) waits(err error, n int) (patience time.Duration, ok bool) {
	return p.QueueFor, err == ErrFull && n < p.QueueMax
}

// stays decides whether a session that waits goes on with it after err. The
// policy may have changed since it came, which is for those who come.
func stays(err error) bool { return err == ErrFull }

// Join is Acquire for a session that is ready to wait. It fills l, or returns the
// error, or a place in the queue. Then wake is called once, by any goroutine and
// outside of every lock, when Take has an answer; it must not block. q.Avoid must
// not change until the place is over.
func (p *Pool) Join(l *Lease, q Query, wake func()) (*Place, error) {
	c := &p.queue
	c.mu.Lock()
	defer p.leaveQueue()
	c.length.Add(1)
	err := p.acquireLocked(l, q)
	patience, ok := p.current.Load().policy.waits(err, c.line.Len())
	if !ok {
		c.length.Add(-1)
		return nil, err
	}
	c.total.Add(1)
	at := &Place{Patience: patience, pool: p, query: q, wake: wake}
	at.at = c.line.PushBack(at)
	return at, nil
}

// Take ends the place, unless the answer is ErrWaiting, and moves what came of
// it to l, which is empty. late gives up, with ErrLate, if nothing did. Taking
// twice is harmless.
func (at *Place) Take(l *Lease, late bool) error {
	c := &at.pool.queue
	c.mu.Lock()
	defer at.pool.leaveQueue()
	switch {
	case at.lostLocked():
		at.err = at.pool.acquireLocked(l, at.query)
	case at.at != nil && !late:
		return ErrWaiting
	case at.at != nil:
		c.timeouts.Add(1)
		at.outLocked(ErrLate)
	case at.err == nil:
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

// Leave ends the place, and gives back what came of it.
func (at *Place) Leave() {
	c := &at.pool.queue
	c.mu.Lock()
	if at.at != nil {
		at.outLocked(ErrLate)
	}
	c.mu.Unlock()
	at.lease.Release()
}

// decideLocked ends the wait, and has it told.
func (at *Place) decideLocked(err error) {
	at.outLocked(err)
	at.pool.queue.woken = append(at.pool.queue.woken, at)
}

// outLocked takes a place out of the line.
func (at *Place) outLocked(err error) {
	c := &at.pool.queue
	c.line.Remove(at.at)
	c.length.Add(-1)
	at.at, at.err = nil, err
}

// settle gives what became free to those who wait.
func (p *Pool) settle() {
	p.queue.mu.Lock()
	defer p.leaveQueue()
	p.settleLocked(false)
}

// resettle is settle after a new snapshot, with which some may wait in vain.
func (p *Pool) resettle() {
	p.queue.mu.Lock()
	defer p.leaveQueue()
	p.settleLocked(true)
}

// settleLocked serves the line from its front. Who avoids some backends may have
// to let others pass. Behind one who avoids none and is not served, nobody could
// be: then it reports full. all looks there for those who have nothing to wait
// for any more.
func (p *Pool) settleLocked(all bool) (full bool) {
	c := &p.queue
	for e := c.line.Front(); e != nil && (all || !full); {
		at := e.Value.(*Place)
		picky := len(at.query.Avoid) > 0
		if full && !picky {
			e = e.Next()
			continue
		}
		m, err := p.pickLocked(at.query)
		switch {
		case m != nil:
			p.giveLocked(m)
			e, full = c.line.Front(), false
		case stays(err):
			e, full = e.Next(), full || !picky
		default:
			e = e.Next()
			at.decideLocked(err)
		}
	}
	return full
}

// giveLocked gives a member that was picked to the first in line who may have
// it: its slot may have become free behind the back of those that were asked
// before. It reports whether there is one.
func (p *Pool) giveLocked(m *Member) bool {
	for e := p.queue.line.Front(); e != nil; e = e.Next() {
		if at := e.Value.(*Place); !at.query.avoids(m.Backend) {
			at.lease.fill(p, m)
			at.decideLocked(nil)
			return true
		}
	}
	return false
}

// acquireBehind is Acquire while somebody waits.
func (p *Pool) acquireBehind(l *Lease, q Query) error {
	p.queue.mu.Lock()
	defer p.leaveQueue()
	return p.acquireLocked(l, q)
}

// acquireLocked takes what nobody who waits could have.
func (p *Pool) acquireLocked(l *Lease, q Query) error {
	if p.settleLocked(false) {
		return p.current.Load().refusal(q)
	}
	for {
		m, err := p.pickLocked(q)
		if err != nil {
			return err
		}
		if !p.giveLocked(m) {
			l.fill(p, m)
			return nil
		}
	}
}

// pickLocked reserves a slot. To give back one that came too late is left to
// leaveQueue, since that settles.
func (p *Pool) pickLocked(q Query) (*Member, error) {
	for {
		m, err := p.current.Load().pick(q)
		if err != nil || !m.removed.Load() {
			return m, err
		}
		p.queue.stale = append(p.queue.stale, m)
	}
}

// leaveQueue unlocks the queue, and does what must not be done before.
func (p *Pool) leaveQueue() {
	c := &p.queue
	woken, stale := c.woken, c.stale
	c.woken, c.stale = nil, nil
	c.mu.Unlock()
	for _, m := range stale {
		var l Lease
		l.fill(p, m)
		l.Release()
	}
	for _, at := range woken {
		at.wake()
	}
}

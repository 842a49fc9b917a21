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
	// ErrHeldLate is the same while no backend was eligible, or the turn of the
	// place was not there yet after that.
	ErrHeldLate = errors.New("no backend came up in time")

	// errTurn says that a backend is there, and that who waits gets it later: see
	// Policy.ReleaseRate.
	errTurn = errors.New("others come first")
)

// queue holds the sessions that wait for a backend, in the order in which they
// came: for room, or, held, for a backend that is eligible.
//
// A slot that becomes free goes to the first that may have it before anybody is
// woken, so that none is lost with a session that leaves. Whoever makes a slot
// free looks at length after that, and whoever joins is counted in length before
// it looks for a slot: one of the two sees the other.
type queue struct {
	length atomic.Int64 // of line, and who is about to join it; read at every pick and release
	barred atomic.Int64 // len(bars); read at every connect, and publication

	total, timeouts            atomic.Int64 // that joined; that waited in vain for room,
	held, everHeld, heldInVain atomic.Int64 // or for one that is eligible; held: now

	mu    sync.Mutex // guards the fields below and those of places; nothing is locked under it
	line  list.List  // of *Place, in order of seq
	seq   uint64     // the last given
	bars  []bar
	pace  pace
	alarm alarm
	woken []*Place  // decided, or of another patience; to be woken outside mu
	stale []*Member // picked, and found removed; to be released outside mu
}

// Waiter is a session that is ready to wait.
type Waiter struct {
	// Wake is called by any goroutine, outside of every lock, when Take has an
	// answer, when its patience changed, and sometimes for nothing. It must not
	// block.
	Wake  func()
	Holds bool   // it waits for a backend to be eligible, too
	Place *Place // an earlier one, which is over: it comes back to where that was; nil for none
}

// holds reports whether sessions wait while no backend is eligible.
func (p Policy) holds() bool { return p.QueueMax > 0 && p.HoldFor > 0 }

// waits decides whether a session that comes waits, having found no backend
// because of err, where n wait already, and for how long as things are.
func (p Policy) waits(err error, n int) (patience time.Duration, ok bool) {
	if err == ErrNoBackend {
		return p.HoldFor, p.HoldFor > 0 && n < p.QueueMax
	}
	return p.QueueFor, n < p.QueueMax
}

// Join is Acquire for a session that is ready to wait. It fills l, or returns the
// error, or a place in the queue. q.Avoid must not change until the place is over.
func (p *Pool) Join(l *Lease, q Query, w Waiter) (*Place, error) {
	c := &p.queue
	c.mu.Lock()
	defer p.leaveQueue()
	at := &Place{pool: p, query: q, waiter: w}
	c.length.Add(1)
	if w.Place != nil {
		return at.returnLocked(l)
	}
	err := p.acquireLocked(l, q)
	pol := p.current.Load().policy
	if _, ok := pol.waits(err, c.line.Len()); err == nil || !ok || !at.waitsFor(err) {
		c.length.Add(-1)
		return nil, outward(err)
	}
	c.seq++
	at.seq, at.queueFor = c.seq, pol.QueueFor
	c.total.Add(1)
	at.lineUpLocked()
	p.standLocked(at, err)
	return at, nil
}

// outward is what an error is to those who do not wait.
func outward(err error) error {
	if err == errTurn {
		return ErrFull
	}
	return err
}

// leaveQueue unlocks the queue, and does what must not be done before.
func (p *Pool) leaveQueue() {
	c := &p.queue
	p.setAlarmLocked()
	woken, stale := c.woken, c.stale
	c.woken, c.stale = nil, nil
	c.mu.Unlock()
	for _, m := range stale {
		var l Lease
		l.fill(p, m)
		l.Release()
	}
	for _, at := range woken {
		at.waiter.Wake()
	}
}

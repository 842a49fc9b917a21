package pool

import (
	"sync/atomic"
	"time"
)

// flaws counts sessions that their backend ended in a way that hardly is meant.
// Safe for concurrent use.
type flaws struct {
	early atomic.Int64 // reset soon after the connect
	empty atomic.Int64 // of the others: ended first, without a byte to the client
}

// CountEarly says how soon after the connect a reset by the backend counts as
// early; 0 is never. Safe for concurrent use.
func (p *Pool) CountEarly(within time.Duration) { p.early.Store(int64(within)) }

// EndedFirst says that the backend ended the session, by a reset or not, before
// the client did; silent is that it had sent nothing. What is usual, an end after
// something was sent, counts nothing.
func (l *Lease) EndedFirst(reset, silent bool, afterConnect time.Duration) {
	b := l.backend
	switch {
	case b == nil:
	case reset && afterConnect <= time.Duration(l.pool.early.Load()):
		b.flaws.early.Add(1)
	case silent:
		b.flaws.empty.Add(1)
	}
}

// Tally is how a backend did so far: counts that only grow.
type Tally struct {
	Backend  *Backend
	InUse    bool // new sessions get it
	Sessions int64
	Early    int64 // of them, reset by it soon after the connect
	Empty    int64 // of the others, ended by it first without a byte to the client
	Dials    int64 // that succeeded or count against it
	DialTime time.Duration
}

// Tallies returns that of every member, in order of registration.
func (p *Pool) Tallies() []Tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Tally, 0, len(p.roster.entries))
	used := map[*Backend]bool{}
	for _, m := range p.current.Load().eligible {
		used[m.Backend] = true
	}
	for _, e := range p.roster.entries {
		t := Tally{
			Backend: e.Backend, InUse: used[e.Backend], Sessions: e.total.Load(),
			Early: e.flaws.early.Load(), Empty: e.flaws.empty.Load(),
		}
		t.Dials, t.DialTime = e.dials.totals()
		list = append(list, t)
	}
	return list
}

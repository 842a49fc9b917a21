package pool

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is a named set of backends and a strategy. Safe for concurrent use.
type Pool struct {
	name    string
	hooks   Hooks
	current atomic.Pointer[snapshot]
	early   atomic.Int64 // see CountEarly
	queue   queue

	mu       sync.Mutex // guards all below, entries included
	policy   Policy
	file     Strategy // the file's; strategy differs from it if the API switched
	strategy Strategy
	switched time.Time // when the API last did
	picker   Picker    // the newest; its position outlives times with nothing eligible
	roster   roster
	leaving  []departure // removed, and not yet out of the published snapshot
	fallen   []fall      // to be evicted from once no new session gets them
	panics   bool        // at the last publication
	news     news
	single   single
	pacer    *time.Timer // paces slow starts; nil: there are none

	lookupFailures int64
}

// departure is an entry on its way out.
type departure struct {
	entry  *entry
	from   string
	reason string
}

// New returns a pool with the backends of c. It calls no hook.
func New(name string, c Config, h Hooks) *Pool {
	p := empty(name, c, h)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range c.Backends {
		p.enterLocked(s, true, s.cameBy())
	}
	p.publishLocked()
	p.news.queue = nil
	return p
}

// empty returns a pool without backends that is not published yet.
func empty(name string, c Config, h Hooks) *Pool {
	p := &Pool{name: name, hooks: h, policy: c.Policy, file: c.Strategy, strategy: c.Strategy}
	p.roster.deleted = map[string]Deletion{}
	return p
}

// Name returns the name.
func (p *Pool) Name() string { return p.name }

// Acquire picks a backend, reserves a slot on it, and fills l, which must be
// empty or released. It returns ErrNoBackend or ErrFull, and then l is empty. It
// takes nothing that somebody who waits could have: see Join. ErrFull also says
// that there is something, and that it is the turn of others.
func (p *Pool) Acquire(l *Lease, q Query) error {
	if p.queue.length.Load() > 0 {
		return p.acquireBehind(l, q)
	}
	for {
		m, err := p.current.Load().pick(q)
		if err != nil {
			return err
		}
		if !m.removed.Load() {
			l.fill(p, m)
			return nil
		}
		// It was removed during the pick, so a newer snapshot is there. Whoever
		// ends the sessions of a removed backend has not seen this one.
		l.fill(p, m)
		l.Release()
	}
}

// Preview returns the backend that Acquire would pick now for q if nobody else
// came, nil for none, and changes nothing. sure is false if the strategy draws
// lots: then it is one of those that Acquire may pick.
func (p *Pool) Preview(q Query) (b *Backend, sure bool) {
	s := p.current.Load()
	if s.picker == nil {
		return nil, true
	}
	m, sure := s.preview(q)
	if m == nil {
		return nil, sure
	}
	return m.Backend, sure
}

// release counts a session down, and a removed backend out with its last one.
func (p *Pool) release(b *Backend) {
	if b.active.Add(-1) == 0 && b.removed.Load() {
		p.endedLast(b)
	}
	if p.queue.length.Load() > 0 {
		p.settle()
	}
}

// LookupFailed counts a failed look-up of host, if one of the backends has that
// name.
func (p *Pool) LookupFailed(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first(p.roster.entries, func(e *entry) bool { return strings.HasPrefix(e.address, host+":") }) != nil {
		p.lookupFailures++
	}
}

// NameFailed counts a failed look-up of a name that stands for some of the
// backends.
func (p *Pool) NameFailed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookupFailures++
}

// Queues reports whether sessions may wait for a backend: then Join is worth a
// try where Acquire found them all full, or, if the pool Holds, none.
func (p *Pool) Queues() bool { return p.current.Load().policy.QueueMax > 0 }

// Holds reports whether sessions wait while no backend is eligible.
func (p *Pool) Holds() bool { return p.current.Load().policy.holds() }

// Ready reports whether it is worth to send sessions here: a backend is eligible,
// or the last one went so recently that who comes waits for the next.
func (p *Pool) Ready() bool {
	s := p.current.Load()
	return len(s.eligible) > 0 || s.policy.holds() && !s.lost.IsZero() && time.Since(s.lost) < s.policy.HoldFor
}

// Exhausted reports whether q avoids all that a new session may get now.
func (p *Pool) Exhausted(q Query) bool { return p.current.Load().refusal(q) == ErrNoBackend }

// Eligible returns how many backends a new session may get, full ones included.
func (p *Pool) Eligible() int { return len(p.current.Load().eligible) }

// Close removes every backend, as if an empty file had been applied and every
// change of the API forgotten. Sessions keep their leases.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.unlock()
	clear(p.roster.deleted)
	for len(p.roster.entries) > 0 {
		p.leaveLocked(p.roster.entries[0], "the pool was removed")
	}
	p.strategy, p.policy.HoldFor = p.file, 0 // nobody need wait
	p.publishLocked()
}

// enterLocked adds a backend, or continues a remembered one.
func (p *Pool) enterLocked(s Spec, fromFile bool, reason string) *entry {
	e, former := p.roster.enter(p.name, s)
	e.fromFile = fromFile
	if former != nil {
		former.back()
		p.continueLocked(e, former)
	}
	from := ""
	switch {
	case former == nil && p.policy.Probed && p.policy.Init == InitDown:
		e.health.Store(int32(Down))
	case former == nil:
		e.waits = p.policy.Probed && p.policy.Init == InitProbe
	case !former.gone:
		from = "removing"
	}
	e.removed.Store(false)
	p.greetLocked(e)
	e.ramp.cold = p.current.Load() != nil // not when the pool starts itself
	p.holdLocked(e)
	p.ejectedLocked(e)
	p.retryLocked(e)
	p.tellLocked(e, from, e.summary(p.policy), reason)
	p.tellMembersLocked()
	return e
}

// greetLocked gives an entry the PROXY header that its sessions begin with: its
// own, or the pool's where the API added it, which says nothing of that.
func (p *Pool) greetLocked(e *entry) {
	version := e.spec.SendProxy
	if !e.fromFile {
		version = p.policy.SendProxy
	}
	e.greets.Store(int32(version))
}

// leaveLocked removes a backend. Its events follow at the next publication.
func (p *Pool) leaveLocked(e *entry, reason string) {
	p.leaving = append(p.leaving, departure{e, e.summary(p.policy), reason})
	p.roster.leave(e, time.Now())
	e.stopRetry()
	e.stopHold()
	e.out.stop()
	e.trial.CompareAndSwap(trialOpen, trialNone)
	p.tellMembersLocked()
}

// dismissLocked marks those that left, now that no new pick can find them.
func (p *Pool) dismissLocked() {
	for _, d := range p.leaving {
		if p.roster.of(d.entry.Backend) != nil {
			continue
		}
		d.entry.removed.Store(true)
		to := "removing"
		if d.entry.Active() == 0 {
			to, d.entry.gone = "removed", true
		}
		p.tellLocked(d.entry, d.from, to, d.reason)
		p.departLocked(d.entry)
	}
	p.leaving = nil
	p.roster.forget(time.Now())
}

// endedLast says that a removed backend is gone.
func (p *Pool) endedLast(b *Backend) {
	p.mu.Lock()
	defer p.unlock()
	e := first(p.roster.past, func(e *entry) bool { return e.Backend == b })
	if e != nil && !e.gone && b.Active() == 0 {
		e.gone = true
		e.stopCut()
		p.tellLocked(e, "removing", "removed", "its last session ended")
	}
}

func notFound(id string) error { return fmt.Errorf("%w: %q", ErrNotFound, id) }

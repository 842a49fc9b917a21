package pool

import (
	"slices"
	"time"
)

// Eviction says that the sessions of a backend are to end now.
type Eviction struct {
	Backend *Backend
	Why     Why
	At      time.Time // only those that had it by then: later ones may have it again
}

// Why is why sessions of a backend are to end.
type Why int

const (
	WentDown   Why = iota // and the policy says CloseDown
	WasRemoved            // and the policy says CloseGone, or its time to drain is over
	WasDrained            // by its admin state, and the time for that is over
)

// String says it in words.
func (w Why) String() string {
	switch w {
	case WentDown:
		return "it went down"
	case WasRemoved:
		return "it was removed"
	default:
		return "its time to drain is over"
	}
}

// evictLocked has the sessions end that b had at that time. No new one must get
// b any more: whoever picks has to see that before it can be told of the eviction.
func (p *Pool) evictLocked(b *Backend, why Why, at time.Time) {
	if p.hooks.Evict == nil {
		return
	}
	ev := Eviction{b, why, at}
	b.events.note(EventEvict, "its sessions end: "+why.String())
	p.news.queue = append(p.news.queue, func() { p.hooks.Evict(ev) })
}

// fall is that a backend went down while the policy says CloseDown.
type fall struct {
	*Backend
	at time.Time // of the first publication after it; zero: there was none yet
}

// fellLocked says that a backend went down. The next publication evicts.
func (p *Pool) fellLocked(e *entry) {
	if p.policy.CloseDown {
		p.fallen = append(p.fallen, fall{Backend: e.Backend})
	}
}

// evictFallenLocked evicts from those that went down before this publication. It
// waits where the pool panics: who went down is not believed to be worse than
// another then, and gets new sessions too. These stay if the panic ends before
// their backend is up again, as all that a backend gets after it went down.
func (p *Pool) evictFallenLocked() {
	s, now := p.current.Load(), time.Now()
	for i := range p.fallen {
		if f := &p.fallen[i]; f.at.IsZero() { // until now the snapshot before gave it to sessions
			f.at = now
		}
	}
	p.fallen = slices.DeleteFunc(p.fallen, func(f fall) bool {
		switch {
		case f.Health() != Down:
		case s.has(f.Backend):
			return false
		default:
			p.evictLocked(f.Backend, WentDown, f.at)
		}
		return true
	})
}

// departLocked begins to drain a backend that was removed, or evicts at once.
func (p *Pool) departLocked(e *entry) {
	switch {
	case e.gone:
		e.stopCut()
	case p.policy.CloseGone:
		e.stopCut()
		p.evictLocked(e.Backend, WasRemoved, time.Now())
	default:
		p.drainLocked(e)
	}
}

// drainLocked makes the drain timer of a backend that gets no new sessions by
// order fit the policy. Its time counts from the first such order, and a policy
// that changes it means the drain under way as well.
func (p *Pool) drainLocked(e *entry) {
	e.stopCut()
	if e.outSince.IsZero() {
		e.outSince = time.Now()
	}
	if p.policy.DrainFor == 0 {
		return
	}
	e.ends = e.outSince.Add(p.policy.DrainFor)
	var t *time.Timer
	t = time.AfterFunc(time.Until(e.ends), func() { p.drained(e, &t) })
	e.cut = t
}

// redrainLocked gives every drain under way the time of the policy.
func (p *Pool) redrainLocked() {
	for _, e := range p.roster.entries {
		if e.admin != Ready {
			p.drainLocked(e)
		}
	}
	for _, e := range p.roster.past {
		if !e.gone && !e.outSince.IsZero() {
			p.drainLocked(e)
		}
	}
}

// drained is called by the timer *t, which is read under the mutex that its
// starter holds until it is set.
func (p *Pool) drained(e *entry, t **time.Timer) {
	p.mu.Lock()
	defer p.unlock()
	if e.cut != *t || e.cut == nil {
		return // stopped too late
	}
	e.stopCut()
	why := WasRemoved
	if slices.Contains(p.roster.entries, e) {
		why = WasDrained
	}
	p.evictLocked(e.Backend, why, time.Now())
}

// stopCut stops the drain timer.
func (e *entry) stopCut() {
	if e.cut != nil {
		e.cut.Stop()
	}
	e.cut, e.ends = nil, time.Time{}
}

// back ends a drain: what the timer would have ended goes on.
func (e *entry) back() {
	e.stopCut()
	e.outSince = time.Time{}
}

package pool

import "slices"

// Restore is New with what the API had changed in an earlier process. It returns
// which of these changes do not stand, because the file changed meanwhile: what
// Apply of that file would have returned there.
//
// It sets the pool up as the earlier process had it, as far as the API had
// touched it, and then applies the file: one rule for a reload and a restart.
func Restore(name string, c Config, o Overrides, h Hooks) (p *Pool, edits []Edit) {
	p = empty(name, c, h)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := o.Strategy; s != nil {
		p.strategy, p.file, p.switched = s.InForce, s.File, s.Since
	}
	lost := p.recallLocked(c, o)
	d := p.compareLocked(c)
	d.carryOut()
	p.publishLocked()
	p.news.queue = nil
	return p, append(lost, d.edits()...)
}

// recallLocked enters the backends of the file, in its order, those that the API
// had changed as they were; then what the API had added, which applying the file
// takes out again if that now has the id or address. It returns what was changed
// of backends that have left the file.
func (p *Pool) recallLocked(c Config, o Overrides) (lost []Edit) {
	for _, d := range o.Deleted {
		p.roster.deleted[d.Spec.ID] = d
	}
	known := make(map[string]BackendOverride)
	for _, b := range o.Backends {
		known[b.Spec.ID] = b
	}
	for _, s := range c.Backends {
		if _, ok := p.roster.deleted[s.ID]; ok {
			continue // applying the file decides whether it stays deleted
		}
		b, ok := known[s.ID]
		if !ok || b.Spec.Address != s.Address {
			p.enterLocked(s, true, s.cameBy())
			continue
		}
		delete(known, s.ID)
		p.resumeLocked(b.before(s), b)
	}
	for _, b := range o.Backends {
		_, left := known[b.Spec.ID]
		switch {
		case left && b.Added:
			p.resumeLocked(b.Spec, b)
		case left && slices.Contains(c.Names, b.Spec.Name):
			p.awaitLocked(b)
		case left:
			lost = append(lost, Edit{Kind: "backend", Pool: p.name, Name: b.Spec.ID, Address: b.Spec.Address,
				Change: "removed", Note: "and what the API had set of it is forgotten"})
		}
	}
	return lost
}

// before returns what the file had said of the backend that it describes as s
// now, as far as that matters: where the API had set nothing there is nothing to
// compare with.
func (b BackendOverride) before(s Spec) Spec {
	if b.Added {
		return b.Spec
	}
	if b.Weight != b.Spec.Weight {
		s.Weight = b.Spec.Weight
	}
	if b.MaxSessions != b.Spec.MaxSessions {
		s.MaxSessions = b.Spec.MaxSessions
	}
	return s
}

// resumeLocked enters a backend with the values that the API had set.
func (p *Pool) resumeLocked(s Spec, b BackendOverride) {
	reason := s.cameBy()
	if b.Added {
		reason = "added by the API before a restart"
	}
	e := p.enterLocked(s, !b.Added, reason)
	if b.Weight != b.Spec.Weight {
		e.weight = b.Weight
	}
	if b.MaxSessions != b.Spec.MaxSessions {
		e.maxSessions = b.MaxSessions
	}
	e.admin, e.since = b.State, b.Since
	switch {
	case b.State != Ready:
		p.drainLocked(e)
		e.last = LastChange{At: b.Since.State, Reason: "set to " + b.State.String() + " by the API before a restart"}
		e.events.note(EventState, transition("up", b.State.String())+": "+e.last.Reason)
	case b.Added:
		e.last.At = b.Since.Added
	}
}

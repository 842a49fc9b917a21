package pool

import (
	"slices"
	"time"
)

// A backend that was found under a name of the file comes and goes with the
// answers about the name. What the API changed of it stays for as long as its
// counters do, remembered: an instance that restarts leaves the name and comes
// back, and one that was drained is drained still. The time counts from its
// removal; after a restart of this process, from the name's first answer.

// origin says where an entry like s comes from that the API did not add.
func (s Spec) origin() string {
	if s.Name != "" {
		return "dns"
	}
	return "config"
}

// underName is a note on a backend that was found; empty for others.
func (s Spec) underName() string {
	if s.Name == "" {
		return ""
	}
	return "found under " + s.Name
}

// cameBy is the reason for an entry like s that the API did not add.
func (s Spec) cameBy() string {
	if s.Name != "" {
		return s.underName()
	}
	return "configured in the file"
}

func noLonger(s Spec) string { return s.Name + " has it no longer" }

// found reports whether s was found under a name that the file still has.
func (d *comparison) found(s Spec) bool {
	return s.Name != "" && slices.Contains(d.names, s.Name)
}

// unanswered reports whether nothing is known of the name that s was found under:
// what specs lack may be there.
func (d *comparison) unanswered(s Spec, specs []Spec) bool {
	return d.found(s) && !slices.ContainsFunc(specs, func(o Spec) bool { return o.Name == s.Name })
}

// absent notes which of those that left with their names may come back as they
// were.
func (d *comparison) absent(specs []Spec) {
	for _, e := range d.p.roster.past {
		switch {
		case !e.absent:
		case !d.found(e.spec):
			d.steps = append(d.steps, step{do: func() { e.absent = false; e.countFrom(time.Now()) }})
		case e.left.IsZero() && !d.unanswered(e.spec, specs):
			d.steps = append(d.steps, step{do: func() { e.countFrom(time.Now()) }})
		}
	}
}

// awaited reports whether what the API changed of e is kept for its return.
func (e *entry) awaited() bool {
	return e.absent && (e.left.IsZero() || time.Since(e.left) < remembered)
}

// countFrom begins the time for which e is remembered, unless that has begun.
func (e *entry) countFrom(now time.Time) {
	if e.left.IsZero() {
		e.left = now
	}
}

// continueLocked gives e what the API had changed of former, the same backend
// before it left its name. A value that the name now gives another wins.
func (p *Pool) continueLocked(e, former *entry) {
	if !former.awaited() || !e.fromFile || e.spec.Name != former.spec.Name {
		return
	}
	if former.weight != former.spec.Weight && former.spec.Weight == e.spec.Weight {
		e.weight, e.since.Weight = former.weight, former.since.Weight
	}
	if former.maxSessions != former.spec.MaxSessions && former.spec.MaxSessions == e.spec.MaxSessions {
		e.maxSessions, e.since.MaxSessions = former.maxSessions, former.since.MaxSessions
	}
	if former.admin != Ready {
		e.admin, e.since.State = former.admin, former.since.State
		p.drainLocked(e)
	}
}

// awaitLocked remembers what the API had changed, in an earlier process, of a
// backend whose name does not have it, or has not answered yet.
func (p *Pool) awaitLocked(b BackendOverride) {
	e, _ := p.roster.enter(p.name, b.Spec)
	e.fromFile = true
	e.weight, e.maxSessions, e.admin, e.since = b.Weight, b.MaxSessions, b.State, b.Since
	e.removed.Store(true)
	p.roster.leave(e, time.Time{})
	e.gone, e.absent = true, true
}

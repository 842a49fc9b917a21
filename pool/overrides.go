package pool

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Overrides is what the API changed in a pool, as plain values: enough to change
// it again in a pool of another process, see [Restore]. Each value goes with the
// file's own that it overrode, so that a file which changed meanwhile wins. The
// zero value is no change.
type Overrides struct {
	Strategy *StrategyOverride // nil: the file's is in force
	Backends []BackendOverride // that the API changed or added, in order of registration
	Deleted  []Deletion        // sorted by id
}

// StrategyOverride is a strategy that the API set. Build of File is not used.
type StrategyOverride struct {
	InForce, File Strategy
	Since         time.Time
}

// BackendOverride is a backend with values of the API.
type BackendOverride struct {
	Spec        Spec // what the file said, or what the API added
	Added       bool // by the API
	Weight      int  // in force
	MaxSessions int  // in force
	State       Admin
	Since       Since
}

// Since is when the API set what is in force; zero where it did not.
type Since struct{ Added, Weight, MaxSessions, State time.Time }

// Deletion is an entry of the file that the API removed.
type Deletion struct {
	Spec  Spec // what the file said
	Since time.Time
}

// Overrides returns what the API changed and no file has taken over since.
func (p *Pool) Overrides() Overrides {
	p.mu.Lock()
	defer p.mu.Unlock()
	var o Overrides
	if !p.strategy.same(p.file) {
		o.Strategy = &StrategyOverride{InForce: p.strategy, File: p.file, Since: p.switched}
	}
	for _, e := range p.roster.entries {
		if !e.fromFile || len(e.overridden()) > 0 {
			o.Backends = append(o.Backends, e.override())
		}
	}
	for _, e := range slices.Backward(p.roster.past) {
		listed := func(b BackendOverride) bool { return b.Spec.ID == e.id }
		if e.awaited() && len(e.overridden()) > 0 && p.roster.byID(e.id) == nil && !slices.ContainsFunc(o.Backends, listed) {
			o.Backends = append(o.Backends, e.override())
		}
	}
	o.Deleted = p.roster.deletions()
	return o
}

// Empty reports whether the API changed nothing.
func (o Overrides) Empty() bool {
	return o.Strategy == nil && len(o.Backends) == 0 && len(o.Deleted) == 0
}

// override leaves out the times of values that are the file's.
func (e *entry) override() BackendOverride {
	o := BackendOverride{
		Spec: e.spec, Added: !e.fromFile,
		Weight: e.weight, MaxSessions: e.maxSessions, State: e.admin,
	}
	if o.Added {
		o.Since.Added = e.since.Added
	}
	if e.weight != e.spec.Weight {
		o.Since.Weight = e.since.Weight
	}
	if e.maxSessions != e.spec.MaxSessions {
		o.Since.MaxSessions = e.since.MaxSessions
	}
	if e.admin != Ready {
		o.Since.State = e.since.State
	}
	return o
}

// deletions returns what the API removed, sorted by id.
func (r *roster) deletions() []Deletion {
	return slices.SortedFunc(maps.Values(r.deleted), func(a, b Deletion) int {
		return strings.Compare(a.Spec.ID, b.Spec.ID)
	})
}

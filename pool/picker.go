package pool

import (
	"cmp"
	"net/netip"
	"slices"
)

// Strategy is a way to choose among backends. Comparing two strategies means
// comparing Name, Ties and Bound.
type Strategy struct {
	Name string // as in the file: round_robin, least_connections ...
	Ties string // first or rotate; empty where the strategy has no ties
	// Bound is the percentage of its fair share of the sessions that a backend may
	// hold under source_hash; 0 is no bound.
	Bound int
	// Build makes the picker for the members that are eligible now, in order of
	// registration; there is at least one. previous is the picker it replaces, so
	// that a position is not lost; it is nil for the first, and of another type
	// after a switch. It is called under the pool's mutex.
	Build func(eligible []*Member, previous Picker) Picker
}

func (s Strategy) same(o Strategy) bool {
	return s.Name == o.Name && s.Ties == o.Ties && s.Bound == o.Bound
}

// Picker chooses among the members it was built with and reserves a slot on the
// one it returns. Safe for concurrent use; no lock, no allocation, and a number
// of steps that is bounded whatever the members say.
type Picker interface {
	// Pick returns nil if no member could be reserved.
	Pick(q Query) *Member
	// Preview returns what Pick would return now if nobody else picked, nil for
	// nothing, and reserves and changes nothing. sure is false if Pick draws lots.
	Preview(q Query) (m *Member, sure bool)
}

// Query is what a pick may depend on.
type Query struct {
	Client netip.Addr // unmapped; the zero Addr if the client has none
	Avoid  []*Backend // tried already for this session
}

func (q Query) avoids(b *Backend) bool { return len(q.Avoid) > 0 && slices.Contains(q.Avoid, b) }

// Member is a backend with the settings that one snapshot gives it. Immutable.
type Member struct {
	*Backend
	Weight      int    // at least 1 among eligible members; means something beside the others' alone
	MaxSessions int    // 0 means no limit
	Seq         uint64 // order of registration: unique in the pool, never reused

	full    int  // Weight without a slow start, and as configured; 0: Weight
	onTrial bool // only the session that takes the trial may have it
	step    int  // of rampSteps; 0: it has its full share

	tier int    // of the backups; 0: it is none
	zone string // empty: not said
	fit  bool   // not on trial, nor used only because nothing better is there
}

// FullWeight is the weight as configured, which no slow start of any member
// changes. It means something beside the others' alone.
func (m *Member) FullWeight() int { return cmp.Or(m.full, m.Weight) }

// Admits reports whether a member takes a client whose lot it is, an even random
// number that stays the client's. While it starts slowly these are as large a part
// as its weight is of the full one, and those it took it keeps taking.
func (m *Member) Admits(lot uint64) bool { return m.step == 0 || lot%rampSteps < uint64(m.step) }

// Starting reports whether the member starts slowly: Weight is a part of what it
// will be.
func (m *Member) Starting() bool { return m.step > 0 }

// Turn reports whether a member may have the nth pick of a picker that does not
// go by weights alone. While it starts slowly that is as large a part of all
// picks, evenly spread, as its weight is of the full one.
func (m *Member) Turn(n uint32) bool {
	return m.step == 0 || n%rampSteps*uint32(m.step)%rampSteps < uint32(m.step)
}

// Usable reports whether the member could be reserved for q now: it is not
// avoided, not full, and not held by another trial session.
func (m *Member) Usable(q Query) bool {
	if m.MaxSessions > 0 && m.active.Load() >= int64(m.MaxSessions) {
		return false
	}
	if m.onTrial && m.trial.Load() != trialOpen {
		return false
	}
	return !q.avoids(m.Backend)
}

// Reserve takes a slot, and reports false if there was none.
func (m *Member) Reserve() bool {
	if m.MaxSessions == 0 && !m.onTrial {
		m.active.Add(1)
		return true
	}
	return m.reserve(func() bool {
		for {
			n := m.active.Load()
			if m.MaxSessions > 0 && n >= int64(m.MaxSessions) {
				return false
			}
			if m.active.CompareAndSwap(n, n+1) {
				return true
			}
		}
	})
}

// ReserveAt takes a slot if Active still is active, and reports whether it did.
// A picker that compares counts uses it so that picks running at the same time
// do not all choose the backend that each of them saw as the least busy.
func (m *Member) ReserveAt(active int64) bool {
	if m.MaxSessions > 0 && active >= int64(m.MaxSessions) {
		return false
	}
	return m.reserve(func() bool { return m.active.CompareAndSwap(active, active+1) })
}

// reserve takes the trial, if the member is on trial, and then a slot.
func (m *Member) reserve(slot func() bool) bool {
	if m.onTrial && !m.trial.CompareAndSwap(trialOpen, trialTaken) {
		return false
	}
	if slot() {
		return true
	}
	if m.onTrial {
		m.trial.Store(trialOpen)
	}
	return false
}

package pool

import (
	"slices"
	"time"
)

// snapshot is what picks read. It is never edited after it was published.
type snapshot struct {
	policy   Policy
	strategy Strategy
	eligible []*Member // in order of registration
	levels   []level   // of the eligible, in the order in which they are used
	picker   Picker    // of the first level; nil if nothing is eligible
	lost     time.Time // when the last eligible one went; zero: there is one, or never was
}

// pick reserves a slot on a member, or says why it could not.
func (s *snapshot) pick(q Query) (*Member, error) {
	if s.picker == nil {
		return nil, ErrNoBackend
	}
	if m := s.picker.Pick(q); m != nil {
		return m, nil
	}
	return s.below(q)
}

// refusal says why a pick found nothing. A member that is neither avoided nor on
// trial can only have been full then, whatever it says by now.
func (s *snapshot) refusal(q Query) error {
	for _, m := range s.eligible {
		if !m.onTrial && !q.avoids(m.Backend) {
			return ErrFull
		}
	}
	return ErrNoBackend
}

// has reports whether a new session may get b.
func (s *snapshot) has(b *Backend) bool {
	return slices.ContainsFunc(s.eligible, func(m *Member) bool { return m.Backend == b })
}

// lostAt returns snapshot.lost of the snapshot after s, which may be nil.
func (s *snapshot) lostAt(eligible int) time.Time {
	switch {
	case s == nil || eligible > 0:
		return time.Time{}
	case len(s.eligible) > 0:
		return time.Now()
	}
	return s.lost
}

// others counts the eligible members that are not b. One on trial is no member
// to rely on.
func (s *snapshot) others(b *Backend) (n int) {
	for _, m := range s.eligible {
		if m.Backend != b && !m.onTrial {
			n++
		}
	}
	return n
}

// publishLocked makes the current membership visible to picks, and then tells
// those that left. It keeps the picker if that has nothing to learn.
func (p *Pool) publishLocked() {
	p.relentLocked()
	p.pardonLocked()
	p.paceLocked()
	p.chooseLocked()
	s := &snapshot{policy: p.policy, strategy: p.strategy, eligible: p.eligibleLocked()}
	old := p.current.Load()
	p.arrangeLocked(s, old)
	s.lost = old.lostAt(len(s.eligible))
	p.current.Store(s)
	p.evictFallenLocked()
	p.dismissLocked()
	if p.queue.length.Load() > 0 || p.queue.barred.Load() > 0 {
		p.news.queue = append(p.news.queue, p.resettle)
	}
}

// eligibleLocked returns the members that a new session may get: those that are
// fit and those on trial; with too few fit, and if the policy says so, all.
func (p *Pool) eligibleLocked() []*Member {
	c, scale := p.censusLocked(), p.scaleLocked()
	p.alarmLocked(c)
	all := c.all(p.policy)
	var eligible []*Member
	for _, e := range p.roster.entries {
		switch {
		case !e.wanted() || !p.admits(e):
		case all || e.fit(p.policy):
			m := e.member(scale, false)
			m.fit = e.fit(p.policy)
			eligible = append(eligible, m)
		case p.onTrialLocked(e):
			eligible = append(eligible, e.member(scale, true))
		}
	}
	return eligible
}

package pool

import "slices"

// level is a set of members that are chosen from together. A session goes to the
// first level of its snapshot, and on to the next if it finds nothing there; but a
// tier that is full does not spill over into the backups behind it.
type level struct {
	members []*Member // in order of registration; at least one
	picker  Picker
	group   int // levels of one group are zones of the same tiers
}

// levelsOf divides the members. The first group has the tiers in use: as many,
// from tier 0 on, as it takes to have BackupMin members that are fit. Each tier
// behind them is a group of its own, for a session whose dials failed on all before.
// The members of a group that are in the zone of the process come first, if at
// least ZoneMin of them are fit.
func levelsOf(members []*Member, pol Policy) (levels []level) {
	var tiers []int
	for _, m := range members {
		if !slices.Contains(tiers, m.tier) {
			tiers = append(tiers, m.tier)
		}
	}
	slices.Sort(tiers)
	first, group := 0, 0 // first is the tier that the group begins with
	for i, tier := range tiers {
		in := chosen(members, func(m *Member) bool { return m.tier >= tiers[first] && m.tier <= tier })
		if group == 0 && fitOf(in) < max(1, pol.BackupMin) && i < len(tiers)-1 {
			continue
		}
		levels = append(levels, zonesOf(in, pol, group)...)
		first, group = i+1, group+1
	}
	return levels
}

// zonesOf divides the members of a group.
func zonesOf(members []*Member, pol Policy, group int) []level {
	if pol.Zone == "" {
		return []level{{members: members, group: group}}
	}
	near := chosen(members, func(m *Member) bool { return m.zone == pol.Zone })
	if fitOf(near) < max(1, pol.ZoneMin) || len(near) == len(members) {
		return []level{{members: members, group: group}}
	}
	far := chosen(members, func(m *Member) bool { return m.zone != pol.Zone })
	return []level{{members: near, group: group}, {members: far, group: group}}
}

func chosen(members []*Member, is func(*Member) bool) (some []*Member) {
	for _, m := range members {
		if is(m) {
			some = append(some, m)
		}
	}
	return some
}

// fitOf counts the members that may be counted on: full ones too, but none that
// is on trial, or used only because nothing better is there.
func fitOf(members []*Member) (n int) {
	for _, m := range members {
		if m.fit {
			n++
		}
	}
	return n
}

// arrangeLocked gives a new snapshot its levels and their pickers. What did not
// change since the old one, which may be nil, is kept.
func (p *Pool) arrangeLocked(s, old *snapshot) {
	if old != nil {
		keep(s.eligible, old.eligible)
	}
	s.levels = levelsOf(s.eligible, s.policy)
	for i := range s.levels {
		l := &s.levels[i]
		previous := p.picker
		if i > 0 {
			previous = nil
		}
		if old != nil && i < len(old.levels) {
			if was := old.levels[i]; old.strategy.same(s.strategy) && slices.Equal(was.members, l.members) {
				l.picker = was.picker
				continue
			} else if i > 0 {
				previous = was.picker
			}
		}
		l.picker = p.strategy.Build(l.members, previous)
	}
	if len(s.levels) > 0 {
		s.picker = s.levels[0].picker
		p.picker = s.picker
	}
}

// keep puts the old members in the place of those that are equal. Both are in
// order of registration.
func keep(members, old []*Member) {
	for i, m := range members {
		for len(old) > 0 && old[0].Seq < m.Seq {
			old = old[1:]
		}
		if len(old) > 0 && *old[0] == *m {
			members[i] = old[0]
		}
	}
}

// below goes on with a pick that found nothing on the first level.
func (s *snapshot) below(q Query) (*Member, error) {
	for i := 1; i < len(s.levels); i++ {
		if s.stopsAt(q, i) {
			return nil, ErrFull
		}
		if m := s.levels[i].picker.Pick(q); m != nil {
			return m, nil
		}
	}
	return nil, s.refusal(q)
}

// preview returns what pick would, and reserves nothing.
func (s *snapshot) preview(q Query) (m *Member, sure bool) {
	for i, l := range s.levels {
		if i > 0 && s.stopsAt(q, i) {
			break
		}
		if m, sure = l.picker.Preview(q); m != nil {
			return m, sure
		}
	}
	return nil, true
}

// stopsAt reports whether a session that found nothing before level i must not go
// on to it: it begins another group, and those before are only full.
func (s *snapshot) stopsAt(q Query, i int) bool {
	if s.levels[i].group == s.levels[i-1].group {
		return false
	}
	for _, l := range s.levels[:i] {
		if slices.ContainsFunc(l.members, func(m *Member) bool { return !m.onTrial && !q.avoids(m.Backend) }) {
			return true
		}
	}
	return false
}

// spills reports whether a session has nothing to look for in the first group, and
// there is another: it does not compete with those that wait for the first.
func (s *snapshot) spills(q Query) bool {
	for i := 1; i < len(s.levels); i++ {
		if s.levels[i].group > 0 {
			return !s.stopsAt(q, i)
		}
	}
	return false
}

// reaches reports whether a session may have a member of the snapshot now.
func (s *snapshot) reaches(q Query, m *Member) bool {
	for i := 1; i < len(s.levels); i++ {
		if slices.Contains(s.levels[i-1].members, m) {
			return true
		}
		if s.stopsAt(q, i) {
			return false
		}
	}
	return true
}

// inUse returns the members that new sessions go to as long as one of them can be
// reached.
func (s *snapshot) inUse() []*Member {
	if len(s.levels) == 0 {
		return nil
	}
	return s.levels[0].members
}

// uses reports whether b is one of those.
func (s *snapshot) uses(b *Backend) bool {
	return slices.ContainsFunc(s.inUse(), func(m *Member) bool { return m.Backend == b })
}

package balance

import (
	"fmt"
	"sync/atomic"

	"sluice/pool"
)

// least picks the member with the fewest sessions per weight. It looks at every
// member, so a pick costs O(n). Ties go to the member registered first, or, if
// they rotate, to the one that comes next after the last pick.
//
// A member that starts slowly has a small weight, which bounds the sessions that
// it may hold beside the others'. While it holds none that is no bound: then it
// sits out some picks, in the same proportion.
type least struct {
	members []*pool.Member
	loads   []load // of members, side by side: a scan of a thousand takes half the time
	rotate  bool
	next    atomic.Uint32 // where a rotating scan starts

	starting bool          // some member does
	picks    atomic.Uint32 // counted while starting
}

type load struct {
	backend *pool.Backend
	weight  int64
}

// rescans is how often a pick looks again because another took the member it had
// found. A burst of picks spreads that way; after that many it takes what it
// finds. Chosen: more cores than that rarely pick in the same microsecond.
const rescans = 4

func leastConnections(rotate bool) func([]*pool.Member, pool.Picker) pool.Picker {
	return func(eligible []*pool.Member, previous pool.Picker) pool.Picker {
		l := &least{members: eligible, rotate: rotate}
		for _, m := range eligible {
			l.loads = append(l.loads, load{m.Backend, int64(max(m.Weight, 1))})
			l.starting = l.starting || m.Starting()
		}
		if old, ok := previous.(*least); ok {
			l.next.Store(old.next.Load())
			l.picks.Store(old.picks.Load())
		}
		return l
	}
}

// Pick implements pool.Picker.
func (l *least) Pick(q pool.Query) *pool.Member {
	pick := everyTurn
	if l.starting {
		pick = l.picks.Add(1)
	}
	for range rescans {
		f := l.scan(q, pick)
		if f.index < 0 && pick != everyTurn {
			pick = everyTurn
			continue
		}
		if f.index < 0 {
			return nil
		}
		if l.members[f.index].ReserveAt(f.active) {
			return l.took(f.index)
		}
	}
	return l.anyOf(q)
}

// Preview implements pool.Picker.
func (l *least) Preview(q pool.Query) (*pool.Member, bool) {
	pick := everyTurn
	if l.starting {
		pick = l.picks.Load() + 1
	}
	f := l.scan(q, pick)
	if f.index < 0 && pick != everyTurn {
		f = l.scan(q, everyTurn)
	}
	if f.index < 0 {
		return nil, true
	}
	return l.members[f.index], true
}

// Why implements pool.Reasoner.
func (l *least) Why(_ pool.Query, m, pick *pool.Member) (pool.Word, string) {
	n, least := m.Active(), pick.Active()
	switch {
	case n == 0 && l.starting && !m.Turn(l.picks.Load()+1):
		return pool.Starting, "starts slowly, and sits this turn out"
	case n*int64(pick.Weight) == least*int64(m.Weight):
		return pool.NextTurns, fmt.Sprintf("has as many sessions for its weight as the pick (%d for weight %d), which comes first", n, m.Weight)
	}
	return pool.NextTurns, fmt.Sprintf("has %d sessions for weight %d, the pick has %d for weight %d", n, m.Weight, least, pick.Weight)
}

// found is the best member of a scan so far, and how busy it was then.
type found struct {
	index          int // -1: none
	active, weight int64
	pick           uint32 // which some members sit out
}

// everyTurn is the pick that no member sits out.
const everyTurn uint32 = 0

// scan returns the least busy member that is usable and does not sit the pick out.
func (l *least) scan(q pool.Query, pick uint32) found {
	start := l.start()
	f := l.better(start, len(l.loads), q, found{index: -1, pick: pick})
	if f.index < 0 || f.active > 0 {
		f = l.better(0, start, q, f)
	}
	return f
}

// better continues a scan over the members from from to to.
func (l *least) better(from, to int, q pool.Query, f found) found {
	for i, c := range l.loads[from:to] {
		n := c.backend.Active()
		// n/c.weight >= f.active/f.weight, without the divisions
		if f.index >= 0 && n*f.weight >= f.active*c.weight {
			continue
		}
		if m := l.members[from+i]; !m.Usable(q) || n == 0 && !m.Turn(f.pick) {
			continue
		}
		f = found{from + i, n, c.weight, f.pick}
		if n == 0 {
			break // nothing is less, and an equal one comes later
		}
	}
	return f
}

// anyOf takes the least busy member of a moment that does not stand still, or
// else any that has room.
func (l *least) anyOf(q pool.Query) *pool.Member {
	if f := l.scan(q, everyTurn); f.index >= 0 && l.members[f.index].Reserve() {
		return l.took(f.index)
	}
	for i, m := range l.members {
		if m.Usable(q) && m.Reserve() {
			return l.took(i)
		}
	}
	return nil
}

func (l *least) start() int {
	if !l.rotate || len(l.members) == 0 {
		return 0
	}
	return int(l.next.Load() % uint32(len(l.members)))
}

func (l *least) took(i int) *pool.Member {
	if l.rotate {
		l.next.Store(uint32(i + 1))
	}
	return l.members[i]
}

package balance

import (
	"sync/atomic"

	"sluice/pool"
)

// least picks the member with the fewest sessions per weight. It looks at every
// member, so a pick costs O(n). Ties go to the member registered first, or, if
// they rotate, to the one that comes next after the last pick.
type least struct {
	members []*pool.Member
	loads   []load // of members, side by side: a scan of a thousand takes half the time
	rotate  bool
	next    atomic.Uint32 // where a rotating scan starts
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
		}
		if old, ok := previous.(*least); ok {
			l.next.Store(old.next.Load())
		}
		return l
	}
}

// Pick implements pool.Picker.
func (l *least) Pick(q pool.Query) *pool.Member {
	for range rescans {
		i, active := l.scan(q)
		if i < 0 {
			return nil
		}
		if l.members[i].ReserveAt(active) {
			return l.took(i)
		}
	}
	return l.anyOf(q)
}

// scan returns the index of the least busy usable member, and how busy it was.
// It is -1 if none is usable.
func (l *least) scan(q pool.Query) (best int, active int64) {
	start := l.start()
	best, active, weight := l.better(start, len(l.loads), q, -1, 0, 1)
	if best < 0 || active > 0 {
		best, active, _ = l.better(0, start, q, best, active, weight)
	}
	return best, active
}

// better continues a scan: over the members from to to, given the best so far.
func (l *least) better(from, to int, q pool.Query, best int, active, weight int64) (int, int64, int64) {
	for i, c := range l.loads[from:to] {
		n := c.backend.Active()
		if best >= 0 && n*weight >= active*c.weight || !l.members[from+i].Usable(q) {
			continue
		}
		best, active, weight = from+i, n, c.weight
		if n == 0 {
			break // nothing is less, and an equal one comes later
		}
	}
	return best, active, weight
}

// anyOf takes the least busy member of a moment that does not stand still, or
// else any that has room.
func (l *least) anyOf(q pool.Query) *pool.Member {
	if i, _ := l.scan(q); i >= 0 && l.members[i].Reserve() {
		return l.took(i)
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

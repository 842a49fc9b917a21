package balance

import (
	"sort"
	"sync/atomic"

	"sluice/pool"
)

// roundRobin hands out turns in a fixed cyclic order: the order of registration
// if all weights are equal, else the schedule of the weights. A pick takes the
// next turn; a turn of a member that cannot be used is skipped and lost to it.
type roundRobin struct {
	members []*pool.Member
	turns   []uint32 // indexes into members; nil means each once, in order
	length  uint64   // of one cycle

	cursor atomic.Uint64 // turns taken since ever; wraps after 2^64
	start  uint64        // the cursor at first
	after  uint64        // Seq of the last pick before start
}

const (
	// skips is how many turns a pick may look ahead, or four a member if that is
	// more, before it asks the members one by one: a few heavy members that are
	// full can own thousands of turns in a row. Chosen: about 5 us.
	skips = 4096
	// races is how often a pick that has to skip turns lets others overtake it.
	races = 8
)

// buildRoundRobin continues where previous stands. With equal weights that is
// the member registered after the one picked last. With others it is the same
// part of the cycle. Picks that run during the change may take the turn twice.
func buildRoundRobin(eligible []*pool.Member, previous pool.Picker) pool.Picker {
	r := &roundRobin{members: eligible, length: uint64(len(eligible))}
	if weights := reduced(eligible); weights != nil {
		r.turns = schedule(weights)
		r.length = uint64(len(r.turns))
	}
	if old, ok := previous.(*roundRobin); ok {
		r.resume(old)
	}
	return r
}

func (r *roundRobin) resume(old *roundRobin) {
	if r.length == 0 || old.length == 0 {
		return
	}
	r.after = old.last()
	if r.turns == nil {
		r.start = uint64(r.following(r.after))
	} else {
		r.start = old.cursor.Load() % old.length * r.length / old.length
	}
	r.cursor.Store(r.start)
}

// last returns the Seq of the member that had the last turn.
func (r *roundRobin) last() uint64 {
	c := r.cursor.Load()
	if c == r.start {
		return r.after
	}
	return r.members[r.at(c-1)].Seq
}

// following returns the index of the first member registered after seq.
func (r *roundRobin) following(seq uint64) int {
	i := sort.Search(len(r.members), func(i int) bool { return r.members[i].Seq > seq })
	if i == len(r.members) {
		return 0
	}
	return i
}

// at returns the index of the member whose turn c is.
func (r *roundRobin) at(c uint64) int {
	if r.turns == nil {
		return int(c % r.length)
	}
	return int(r.turns[c%r.length])
}

// Pick implements pool.Picker.
func (r *roundRobin) Pick(q pool.Query) *pool.Member {
	if r.length == 0 {
		return nil
	}
	for range races {
		c := r.cursor.Add(1)
		m := r.members[r.at(c-1)]
		if !m.Usable(q) {
			k, ok := r.ahead(c, q)
			if !ok {
				break
			}
			m = r.members[r.at(c+k)]
			if !r.cursor.CompareAndSwap(c, c+k+1) {
				continue // another pick took turns meanwhile
			}
		}
		if m.Reserve() {
			return m
		}
	}
	return r.search(q)
}

// Preview implements pool.Picker.
func (r *roundRobin) Preview(q pool.Query) (*pool.Member, bool) {
	if r.length == 0 {
		return nil, true
	}
	c := r.cursor.Load()
	if k, ok := r.ahead(c, q); ok {
		return r.members[r.at(c+k)], true
	}
	for k := range r.members {
		if m := r.members[(r.at(c)+k)%len(r.members)]; m.Usable(q) {
			return m, true
		}
	}
	return nil, true
}

// Why implements pool.Reasoner.
func (r *roundRobin) Why(_ pool.Query, m, _ *pool.Member) (pool.Word, string) {
	if m.Starting() {
		return pool.NextTurns, "its turn comes later, and less often than its weight says while it starts slowly"
	}
	return pool.NextTurns, "its turn comes later"
}

// ahead returns how many turns to skip from c on to reach one that q can use.
func (r *roundRobin) ahead(c uint64, q pool.Query) (k uint64, ok bool) {
	for k := range min(r.length, uint64(max(skips, 4*len(r.members)))) {
		if r.members[r.at(c+k)].Usable(q) {
			return k, true
		}
	}
	return 0, false
}

// search asks every member once, in order of registration.
func (r *roundRobin) search(q pool.Query) *pool.Member {
	from := r.at(r.cursor.Load())
	for k := range r.members {
		m := r.members[(from+k)%len(r.members)]
		if m.Usable(q) && m.Reserve() {
			return m
		}
	}
	return nil
}

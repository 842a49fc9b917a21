package balance

import (
	"fmt"
	"math/rand/v2"

	"sluice/pool"
)

// randomTwo draws two members by weight and picks the one with fewer sessions per
// weight: the power of two choices (Mitzenmacher, The Power of Two Choices in
// Randomized Load Balancing, IEEE TPDS 12(10), 2001). With all free a pick costs
// the same however many members there are, and the busiest of n holds about
// log log n sessions more than the mean, where one draw leads to log n.
//
// A member that starts slowly is drawn by the weight that it has so far.
type randomTwo struct {
	members []*pool.Member
	urn     urn
}

// draws is how many lots a pick draws to find two members that it may use; then it
// looks at all members. Chosen: with half of all members full, one pick in 4,000
// sees fewer than two in them.
const draws = 16

func buildRandomTwo(eligible []*pool.Member, _ pool.Picker) pool.Picker {
	weights := make([]int64, len(eligible))
	for i, m := range eligible {
		weights[i] = int64(max(m.Weight, 1))
	}
	return &randomTwo{eligible, fill(weights)}
}

// Pick implements pool.Picker.
func (r *randomTwo) Pick(q pool.Query) *pool.Member {
	for range rescans {
		m := r.choose(q)
		if m == nil {
			return nil
		}
		if m.Reserve() {
			return m
		}
	}
	for _, m := range r.members {
		if m.Usable(q) && m.Reserve() {
			return m
		}
	}
	return nil
}

// Preview implements pool.Picker.
func (r *randomTwo) Preview(q pool.Query) (*pool.Member, bool) { return r.choose(q), false }

// Why implements pool.Reasoner.
func (r *randomTwo) Why(_ pool.Query, m, _ *pool.Member) (pool.Word, string) {
	return pool.ByChance, fmt.Sprintf("has %d sessions for weight %d; of two that are drawn the one with fewer is picked", m.Active(), m.Weight)
}

// choose returns the less busy of two members that can be used, the only one there
// is, or nil.
func (r *randomTwo) choose(q pool.Query) *pool.Member {
	if len(r.members) == 0 {
		return nil
	}
	var one *pool.Member
	for range draws {
		m := r.members[r.urn.draw()]
		if m == one || !m.Usable(q) {
			continue
		}
		if one != nil {
			return calmer(one, m)
		}
		one = m
	}
	return r.scan(q, one)
}

// scan goes on with the first members from anywhere on that can be used.
func (r *randomTwo) scan(q pool.Query, one *pool.Member) *pool.Member {
	start := rand.IntN(len(r.members))
	for i := range r.members {
		m := r.members[(start+i)%len(r.members)]
		if m == one || !m.Usable(q) {
			continue
		}
		if one != nil {
			return calmer(one, m)
		}
		one = m
	}
	return one
}

// calmer returns the member with fewer sessions per weight, a if they are equal.
func calmer(a, b *pool.Member) *pool.Member {
	if b.Active()*int64(max(a.Weight, 1)) < a.Active()*int64(max(b.Weight, 1)) {
		return b
	}
	return a
}

// urn draws an index with the probability of its weight, in constant time: the
// alias method (Walker 1977; built as by Vose, IEEE TSE 17(9), 1991), in integers,
// so that no rounding leaves a member without its share.
type urn struct {
	own   []uint64 // of the total: below it a lot is the slot's own
	other []int32  // whose it is else
	total uint64
}

// fill makes an urn. Every weight is at least 1, and their sum times their number
// below 2^63.
func fill(weights []int64) urn {
	n := len(weights)
	u := urn{own: make([]uint64, n), other: make([]int32, n)}
	for _, w := range weights {
		u.total += uint64(w)
	}
	var small, large []int32 // slots with less than a full share, and with more
	for i, w := range weights {
		u.own[i], u.other[i] = uint64(w)*uint64(n), int32(i)
		if u.own[i] < u.total {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		u.other[s] = l
		u.own[l] -= u.total - u.own[s]
		if u.own[l] < u.total {
			large, small = large[:len(large)-1], append(small, l)
		}
	}
	return u
}

// draw returns an index; there is at least one. The generator is the process' own,
// which has a state for each processor and no lock.
func (u *urn) draw() int {
	i := rand.IntN(len(u.own))
	if own := u.own[i]; own < u.total && rand.Uint64N(u.total) >= own {
		return int(u.other[i])
	}
	return i
}

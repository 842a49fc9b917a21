package balance

import "sluice/pool"

// longest is the length of the longest schedule, 1 MB of indexes. A quarter of a
// thousand backends of the greatest weight fit; beyond that, weights are scaled
// down, to at least 1 each, and the share of each of a thousand such is accurate to
// half a percent of itself. Chosen: who changes a pool holds its mutex while one is
// built, and a failed dial on an event loop waits for that. Measured: 17 ms, and
// four times as many turns, which a thousand need, take 80 ms.
const longest = 1 << 18

// reduced returns the weights divided by what they have in common, or nil if
// all are equal.
func reduced(members []*pool.Member) []uint64 {
	weights := make([]uint64, len(members))
	var common, sum uint64
	for i, m := range members {
		weights[i] = uint64(max(m.Weight, 1))
		common = gcd(weights[i], common)
		sum += weights[i]
	}
	equal := true
	for i := range weights {
		weights[i] = scaled(weights[i]/common, sum/common)
		equal = equal && weights[i] == weights[0]
	}
	if equal {
		return nil
	}
	return weights
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func scaled(weight, sum uint64) uint64 {
	if sum <= longest {
		return weight
	}
	return max(1, weight*longest/sum)
}

// schedule returns a cycle in which member i, of at least two, has weights[i]
// turns, spread so that after any number of turns k each member has had its
// share k*w/W give or take less than one. It is Tijdeman's algorithm for the
// chairman assignment problem (Discrete Mathematics 32, 1980), which proves the
// bound: with n members and m = 2n-2, turn k (from 0) goes to one of those that
// had c turns with (k+1)*w/W - c >= 1/m; of them to the one whose deadline,
// (c+1-1/m)/w, is the earliest, and then to the one registered first.
//
// The condition says at which k a member's next turn opens. So a turn waits in
// the list of that k and then in a heap by deadline: O(W log n) in all. Every
// product stays below 2^62: n*w is below 2^40, W and w are below 2^21.
func schedule(weights []uint64) []uint32 {
	m, total := uint64(2*len(weights)-2), uint64(0)
	for _, w := range weights {
		total += w
	}
	opening := newOpenings(total, len(weights))
	open := make(deadlines, 0, len(weights))
	for i, w := range weights {
		opening.add(firstSlot(total, 1, w*m), i)
	}
	had := make([]uint64, len(weights))
	turns := make([]uint32, total)
	for k := range turns {
		for i := opening.first[k]; i != none; i = opening.next[i] {
			open.push(turn{member: i, weight: weights[i], due: (had[i]+1)*m - 1})
		}
		i := open.pop().member
		turns[k] = uint32(i)
		had[i]++
		if had[i] < weights[i] {
			slot := firstSlot(total, had[i]*m+1, weights[i]*m)
			opening.add(max(slot, uint64(k)+1), int(i))
		}
	}
	return turns
}

// firstSlot returns the first k with (k+1)*divisor >= total*share.
func firstSlot(total, share, divisor uint64) uint64 {
	return (total*share+divisor-1)/divisor - 1
}

// openings lists, for each slot, the members whose next turn opens there. A
// member is in one list at a time.
type openings struct {
	first []int32 // by slot
	next  []int32 // by member
}

const none = -1

func newOpenings(slots uint64, members int) openings {
	o := openings{first: make([]int32, slots), next: make([]int32, members)}
	for i := range o.first {
		o.first[i] = none
	}
	return o
}

func (o openings) add(slot uint64, member int) {
	o.next[member] = o.first[slot]
	o.first[slot] = int32(member)
}

// turn is one open turn of a member; its deadline is due/weight.
type turn struct {
	member int32
	weight uint64
	due    uint64
}

func (t turn) before(o turn) bool {
	a, b := t.due*o.weight, o.due*t.weight
	return a < b || a == b && t.member < o.member
}

// deadlines is a binary heap. Not container/heap: its calls through an interface
// triple the time of the longest schedule.
type deadlines []turn

func (d *deadlines) push(t turn) {
	*d = append(*d, t)
	h := *d
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !t.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = t
}

func (d *deadlines) pop() turn {
	h := *d
	top, t := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*d = h
	if len(h) > 0 {
		h.sink(t)
	}
	return top
}

// sink puts t where the root is missing.
func (d deadlines) sink(t turn) {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(d) {
			break
		}
		if child+1 < len(d) && d[child+1].before(d[child]) {
			child++
		}
		if !d[child].before(t) {
			break
		}
		d[i] = d[child]
		i = child
	}
	d[i] = t
}

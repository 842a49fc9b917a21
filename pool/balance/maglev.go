package balance

import (
	"iter"
	"slices"
	"sort"
)

// maglev is the look-up table of Maglev hashing (Eisenbud and others, Maglev: A
// Fast and Reliable Software Network Load Balancer, NSDI 2016, section 3.4): each
// member has an order of preference among all entries, a permutation that follows
// from its id alone, and the members take turns to take the first that is still
// free. The shares are even to within one entry, and when a member leaves, most
// entries of the others stay theirs. It depends on the ids and weights and on
// nothing else: processes that know the same members have the same table, on
// every architecture.
//
// Immutable, so pickers share it.
type maglev struct {
	ids     []string // sorted
	weights []int64
	entries []uint32 // indexes into ids
}

// tableSize is the number of entries: a prime, and what the paper uses in
// production (section 5.3). It is the same for any number of members, because
// another size moves every client. The paper asks for more than a hundred entries
// a member for shares within 1 %; with a thousand members these are within 2 %.
const tableSize = 65537

// same reports whether m is the table of these members.
func (m *maglev) same(ids []string, weights []int64) bool {
	return slices.Equal(m.ids, ids) && slices.Equal(m.weights, weights)
}

// newMaglev builds the table. The ids are sorted and each weight is at least 1; a
// member has its share of the entries, give or take one if the weights are equal,
// and at least one unless there are more members than entries. size is a prime.
//
// It takes about size*ln(size) steps to find free entries.
func newMaglev(ids []string, weights []int64, size uint32) *maglev {
	m := &maglev{ids, weights, make([]uint32, size)}
	if len(ids) == 0 {
		return m
	}
	for i := range m.entries {
		m.entries[i] = free
	}
	walks := make([]walk, len(ids))
	for i, id := range ids {
		walks[i] = newWalk(id, size)
	}
	for _, i := range turnsOf(weights, int(size)) {
		m.entries[walks[i].take(m.entries)] = i
	}
	return m
}

// turnsOf returns who has each of that many turns. They come in rounds, of which the
// first has one turn of each member, in order, and every one a turn of the heaviest.
// Another has its turn k, from 0, as soon as the heaviest had so many of the same
// worth: in round k*heaviest/w, rounded up.
//
// It counts the turns of each round, and so knows where in the order each belongs.
func turnsOf(weights []int64, turns int) []uint32 {
	heaviest := slices.Max(weights)
	rounds := roundsFor(weights, heaviest, int64(turns))
	next := make([]uint32, rounds+1) // where its next turn goes in the order
	for _, w := range weights {
		for r := range roundsOf(w, heaviest, rounds) {
			next[r+1]++
		}
	}
	for r := range rounds {
		next[r+1] += next[r]
	}
	order := make([]uint32, next[rounds])
	for i, w := range weights {
		for r := range roundsOf(w, heaviest, rounds) {
			order[next[r]] = uint32(i)
			next[r]++
		}
	}
	return order[:turns]
}

// roundsOf yields those of the first so many rounds in which a member of weight w has
// a turn.
func roundsOf(w, heaviest, rounds int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		whole, part := heaviest/w, heaviest%w
		for r, rest := int64(0), int64(0); r < rounds && yield(r); {
			r += whole
			if rest -= part; rest < 0 {
				rest += w
				r++
			}
		}
	}
}

// roundsFor returns how many rounds have so many turns.
func roundsFor(weights []int64, heaviest, turns int64) int64 {
	return 1 + int64(sort.Search(int(turns), func(last int) bool {
		had := int64(0)
		for _, w := range weights {
			had += int64(last)*w/heaviest + 1
		}
		return had >= turns
	}))
}

const free = ^uint32(0)

// walk is a member on its way through its permutation: at, at+skip, at+2*skip ...
// modulo the size, which is prime, so that it comes by every entry.
type walk struct{ at, skip uint32 }

func newWalk(id string, size uint32) walk {
	return walk{
		at:   uint32(hash(id, 1) % uint64(size)),
		skip: uint32(hash(id, 2)%uint64(size-1)) + 1,
	}
}

// take returns the next free entry of the walk; there is one.
func (w *walk) take(entries []uint32) uint32 {
	for {
		at := w.at
		if w.at += w.skip; w.at >= uint32(len(entries)) {
			w.at -= uint32(len(entries))
		}
		if entries[at] == free {
			return at
		}
	}
}

// hash is FNV-1a over the seed and the text, and then mixed: its own low bits
// differ little for ids that differ in their last letter. It must never change:
// processes of two versions behind one address would disagree.
func hash(text string, seed byte) uint64 {
	h := uint64(14695981039346656037)
	h = (h ^ uint64(seed)) * 1099511628211
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return mix(h)
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a
// bijection in which each bit of z changes half of those of the result.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

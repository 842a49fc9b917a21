package balance

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"sluice/pool"
)

// sourceHash gives a client address the same member every time, by a table that
// follows from the ids and weights of the members alone: see maglev. A client
// whose member is full, avoided or over its bound goes on along an order of its
// own, so that the clients of one member spread over all the others.
//
// A member that starts slowly has its place in the table from the beginning, and
// refuses a part of its clients: no step of a slow start moves anybody else's.
type sourceHash struct {
	members  []*pool.Member  // sorted by id
	backends []*pool.Backend // theirs, side by side: a look at all takes half the time
	table    *maglev
	bound    int64 // percent of a fair share; 0: none
	weight   int64 // of all members
	starting bool  // some member does
}

// hops is how many members a client is sent to by the table, by its weights and
// some perhaps more than once, before each is asked in turn. Chosen: with half of
// all members full one client in 2^64 needs more.
const hops = 64

func sourceHashing(bound int) func([]*pool.Member, pool.Picker) pool.Picker {
	return func(eligible []*pool.Member, previous pool.Picker) pool.Picker {
		h := &sourceHash{members: slices.Clone(eligible), bound: int64(bound)}
		slices.SortFunc(h.members, func(a, b *pool.Member) int {
			return cmp.Or(cmp.Compare(a.ID(), b.ID()), cmp.Compare(a.Seq, b.Seq))
		})
		ids, weights := make([]string, len(h.members)), make([]int64, len(h.members))
		for i, m := range h.members {
			ids[i], weights[i] = m.ID(), int64(max(m.FullWeight(), 1))
			h.backends = append(h.backends, m.Backend)
			h.weight += weights[i]
			h.starting = h.starting || m.Starting()
		}
		if old, ok := previous.(*sourceHash); ok && old.table.same(ids, weights) {
			h.table = old.table
		} else {
			h.table = newMaglev(ids, weights, tableSize)
		}
		return h
	}
}

// Pick implements pool.Picker.
func (h *sourceHash) Pick(q pool.Query) *pool.Member {
	key, _ := keyOf(q.Client)
	for range rescans {
		m, active := h.find(q, key)
		if m == nil || h.reserve(m, active) {
			return m
		}
	}
	for i := range h.steps() {
		if m := h.at(key, i); m.Usable(q) && m.Reserve() {
			return m
		}
	}
	return nil
}

// reserve takes a slot: with a bound, of a member that has as many sessions still
// as it was judged by.
func (h *sourceHash) reserve(m *pool.Member, active int64) bool {
	if h.bound == 0 {
		return m.Reserve()
	}
	return m.ReserveAt(active)
}

// Preview implements pool.Picker.
func (h *sourceHash) Preview(q pool.Query) (*pool.Member, bool) {
	key, sure := keyOf(q.Client)
	m, _ := h.find(q, key)
	return m, sure
}

// Why implements pool.Reasoner.
func (h *sourceHash) Why(q pool.Query, m, pick *pool.Member) (pool.Word, string) {
	key, sure := keyOf(q.Client)
	if !sure {
		return pool.ByChance, "a client without an address may get any"
	}
	for i := range h.steps() {
		switch h.at(key, i) {
		case pick:
			return pool.NextTurns, "the client's hash leads elsewhere"
		case m:
			if !m.Admits(key) {
				return pool.Starting, "the client's hash leads there, but it starts slowly, and does not take that client yet"
			}
			return pool.NextTurns, fmt.Sprintf("the client's hash leads there, but it has %d sessions, all that the bound of %d %% lets it have", m.Active(), h.bound)
		}
	}
	return pool.NextTurns, "the client's hash leads elsewhere"
}

// find returns the first member in the client's order that it may use, and how
// many sessions that has. With none within its bound and its slow start, these
// count no more: to refuse a client helps nobody.
func (h *sourceHash) find(q pool.Query, key uint64) (*pool.Member, int64) {
	room := int64(0)
	for i := range h.steps() {
		m := h.at(key, i)
		active := m.Active()
		if !m.Usable(q) || h.starting && !m.Admits(key) {
			continue
		}
		if h.bound == 0 || active == 0 {
			return m, active
		}
		if room == 0 {
			room = h.room()
		}
		if h.within(m, active, room) {
			return m, active
		}
	}
	if h.bound > 0 || h.starting {
		for i := range h.steps() {
			if m := h.at(key, i); m.Usable(q) {
				return m, m.Active()
			}
		}
	}
	return nil, 0
}

// steps is how long the order of a client is: every member is in it.
func (h *sourceHash) steps() int {
	if len(h.members) == 0 {
		return 0
	}
	return hops + len(h.members)
}

// at returns the ith member in the order of a client.
func (h *sourceHash) at(key uint64, i int) *pool.Member {
	if i >= hops {
		return h.members[(key%uint64(len(h.members))+uint64(i-hops))%uint64(len(h.members))]
	}
	lot := mix(key + uint64(i)*golden)
	return h.members[h.table.entries[lot>>32*uint64(len(h.table.entries))>>32]]
}

// golden is 2^64 divided by the golden ratio, the step of SplitMix64: the lots of
// one client are its outputs.
const golden = 0x9e3779b97f4a7c15

// room is what the members have for sessions with one more than there are, in
// percent: bound*(total+1). It looks at every member; a count kept beside would be
// one that all cores write.
func (h *sourceHash) room() int64 {
	total := int64(1)
	for _, b := range h.backends {
		total += b.Active()
	}
	return h.bound * total
}

// within reports whether a member that has so many sessions may have one more: by
// consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2016,
// arXiv 1608.01350) it holds at most ceil(c*total*w/W) of them, for a bound c above
// 1 and the total with the one to come.
func (h *sourceHash) within(m *pool.Member, active, room int64) bool {
	return active*100*h.weight < room*int64(max(m.FullWeight(), 1))
}

// keyOf returns what a client is known by: an IPv4 address, or the /64 of an IPv6
// address, within which a host may have any. A client without an address is
// anybody: then the key is drawn, and sure is false.
func keyOf(client netip.Addr) (key uint64, sure bool) {
	switch client = client.Unmap(); {
	case client.Is4():
		a := client.As4()
		return mix(uint64(binary.BigEndian.Uint32(a[:]))), true
	case client.Is6():
		a := client.As16()
		return mix(^binary.BigEndian.Uint64(a[:8])), true
	}
	return rand.Uint64(), false
}

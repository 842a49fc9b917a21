package access

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// Set is a set of addresses, made of prefixes. nil and the zero value are empty.
// It never changes, so it is safe for concurrent use.
type Set struct {
	v4 spans[uint32]
	v6 spans[number]
}

// spans are sorted ranges of which no two touch. First and last are apart, and as
// small as they can be: with very many, a look-up is a matter of cache misses.
type spans[N any] struct{ first, last []N }

// has reports whether n is in one of the ranges.
func (s *spans[N]) has(n N, compare func(a, b N) int) bool {
	at, found := slices.BinarySearchFunc(s.first, n, compare)
	return found || at > 0 && compare(n, s.last[at-1]) <= 0
}

// span is a range of addresses of one family, both ends included.
type span struct{ first, last number }

// number is an address as one big number; an IPv4 address is in low.
type number struct{ high, low uint64 }

func compare(a, b number) int {
	return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low))
}

// next returns n + 1; 0 after the last.
func (n number) next() number {
	n.low++
	if n.low == 0 {
		n.high++
	}
	return n
}

// NewSet returns the set of the addresses in list.
func NewSet(list []netip.Prefix) *Set {
	var v4, v6 []span
	for _, p := range list {
		if p = normal(p); p.Addr().Is4() {
			v4 = append(v4, spanOf(p))
		} else if p.IsValid() {
			v6 = append(v6, spanOf(p))
		}
	}
	s := &Set{}
	for _, r := range joined(v4) {
		s.v4.first, s.v4.last = append(s.v4.first, uint32(r.first.low)), append(s.v4.last, uint32(r.last.low))
	}
	for _, r := range joined(v6) {
		s.v6.first, s.v6.last = append(s.v6.first, r.first), append(s.v6.last, r.last)
	}
	return s
}

// normal makes IPv4 in the clothes of IPv6 IPv4.
func normal(p netip.Prefix) netip.Prefix {
	if p.IsValid() && p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

func spanOf(p netip.Prefix) span {
	first := numberOf(p.Masked().Addr())
	free := p.Addr().BitLen() - p.Bits() // bits that may have any value
	last := first
	switch {
	case free > 64:
		last.high |= 1<<(free-64) - 1
		last.low = ^uint64(0)
	case free == 64:
		last.low = ^uint64(0)
	default:
		last.low |= 1<<free - 1
	}
	return span{first, last}
}

func numberOf(a netip.Addr) number {
	if a.Is4() {
		b := a.As4()
		return number{low: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return number{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// joined sorts spans and makes one of those that overlap or touch.
func joined(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return compare(a.first, b.first) })
	var out []span
	for _, s := range spans {
		at := len(out) - 1
		if at < 0 || compare(out[at].last, s.first) < 0 && out[at].last.next() != s.first {
			out = append(out, s)
		} else if compare(out[at].last, s.last) < 0 {
			out[at].last = s.last
		}
	}
	return out
}

// Has reports whether a is in the set. The zero Addr is in none.
func (s *Set) Has(a netip.Addr) bool {
	if s == nil || !a.IsValid() {
		return false
	}
	if a = a.Unmap(); a.Is4() {
		return s.v4.has(uint32(numberOf(a).low), cmp.Compare[uint32])
	}
	return s.v6.has(numberOf(a), compare)
}

// Empty reports whether nothing is in the set.
func (s *Set) Empty() bool { return s == nil || len(s.v4.first)+len(s.v6.first) == 0 }

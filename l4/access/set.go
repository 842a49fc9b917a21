package access

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sort"
)

// Set is a set of addresses, made of prefixes. nil and the zero value are empty.
// It never changes, so it is safe for concurrent use.
type Set struct {
	v4, v6 []span // sorted; no two touch
}

// span is a range of addresses of one family, both ends included.
type span struct{ first, last number }

// number is an address as one big number; an IPv4 address is in low.
type number struct{ high, low uint64 }

func (n number) less(m number) bool {
	return n.high < m.high || n.high == m.high && n.low < m.low
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
	s := &Set{}
	for _, p := range list {
		if p = normal(p); !p.IsValid() {
			continue
		}
		spans := &s.v6
		if p.Addr().Is4() {
			spans = &s.v4
		}
		*spans = append(*spans, spanOf(p))
	}
	s.v4, s.v6 = joined(s.v4), joined(s.v6)
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
	slices.SortFunc(spans, func(a, b span) int {
		switch {
		case a.first.less(b.first):
			return -1
		case b.first.less(a.first):
			return 1
		}
		return 0
	})
	var out []span
	for _, s := range spans {
		at := len(out) - 1
		if at < 0 || out[at].last.less(s.first) && out[at].last.next() != s.first {
			out = append(out, s)
		} else if out[at].last.less(s.last) {
			out[at].last = s.last
		}
	}
	return slices.Clip(out)
}

// Has reports whether a is in the set. The zero Addr is in none.
func (s *Set) Has(a netip.Addr) bool {
	if s == nil || !a.IsValid() {
		return false
	}
	a = a.Unmap()
	spans, n := s.v6, numberOf(a)
	if a.Is4() {
		spans = s.v4
	}
	at := sort.Search(len(spans), func(i int) bool { return !spans[i].last.less(n) })
	return at < len(spans) && !n.less(spans[at].first)
}

// Empty reports whether nothing is in the set.
func (s *Set) Empty() bool { return s == nil || len(s.v4)+len(s.v6) == 0 }

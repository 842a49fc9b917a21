package access_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"sluice/l4/access"
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, s := range texts {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

func TestSet(t *testing.T) {
	for _, c := range []struct {
		list     []netip.Prefix
		has, not []string
	}{
		{nil, nil, []string{"127.0.0.1", "::1"}},
		{prefixes("127.0.0.2/32"), []string{"127.0.0.2", "::ffff:127.0.0.2"}, []string{"127.0.0.1", "127.0.0.3", "::7f00:2"}},
		{prefixes("::ffff:127.0.0.2/128"), []string{"127.0.0.2", "::ffff:127.0.0.2"}, []string{"127.0.0.3"}},
		{prefixes("10.1.2.3/8", "10.0.0.0/9"), []string{"10.0.0.0", "10.255.255.255"}, []string{"9.255.255.255", "11.0.0.0"}},
		{prefixes("0.0.0.0/0"), []string{"0.0.0.0", "255.255.255.255"}, []string{"::", "::1"}},
		{prefixes("::/0"), []string{"::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe80::1%eth0"}, []string{"0.0.0.0", "::ffff:1.2.3.4"}},
		{prefixes("2001:db8::/32", "2001:db9::/64", "fe80::/10"), []string{"2001:db8:ffff::", "2001:db9::ffff:ffff:ffff:ffff", "fe80::7%2"},
			[]string{"2001:db9:0:1::", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "32.1.13.184"}},
		{prefixes("192.0.2.0/25", "192.0.2.128/25", "192.0.2.255/32"), []string{"192.0.2.127", "192.0.2.128", "192.0.2.255"}, []string{"192.0.3.0"}},
	} {
		s := access.NewSet(c.list)
		for _, a := range c.has {
			if !s.Has(netip.MustParseAddr(a)) {
				t.Errorf("%v has not %s", c.list, a)
			}
		}
		for _, a := range c.not {
			if s.Has(netip.MustParseAddr(a)) {
				t.Errorf("%v has %s", c.list, a)
			}
		}
		if s.Has(netip.Addr{}) || s.Empty() != (len(c.list) == 0) {
			t.Errorf("%v: has no address: %v, is empty: %v", c.list, s.Has(netip.Addr{}), s.Empty())
		}
	}
	if (*access.Set)(nil).Has(netip.MustParseAddr("127.0.0.1")) || !(*access.Set)(nil).Empty() {
		t.Error("no set is not empty")
	}
}

// random returns an address close to others, so that prefixes overlap and touch.
func random(r *rand.Rand) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], r.Uint64N(4)<<62|r.Uint64N(4))
	binary.BigEndian.PutUint64(b[8:], r.Uint64N(4)<<62|r.Uint64N(4))
	switch r.IntN(3) {
	case 0:
		return netip.AddrFrom4([4]byte{b[0], 0, b[8], b[15] | byte(r.IntN(2))<<7})
	case 1:
		return netip.AddrFrom16(netip.AddrFrom4([4]byte{b[0], 0, b[8], b[15]}).As16()) // IPv4 in IPv6
	}
	return netip.AddrFrom16(b)
}

// neighbours are addresses around the ends of a prefix.
func neighbours(p netip.Prefix) (as []netip.Addr) {
	first := p.Masked().Addr()
	b := first.AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	last, _ := netip.AddrFromSlice(b)
	for _, a := range []netip.Addr{first, last, first.Prev(), last.Next()} {
		if a.IsValid() {
			as = append(as, a)
		}
	}
	return as
}

// naive looks an address up as the documentation says it is.
func naive(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p.Contains(a.Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

func checkAgainstNaive(t *testing.T, seed uint64, n int) {
	r := rand.New(rand.NewPCG(seed, 7))
	var list []netip.Prefix
	for range n {
		a := random(r)
		bits := r.IntN(a.BitLen() + 1)
		if a.Is4In6() && bits < 96 { // means something else to netip than to anybody
			bits = 96
		}
		list = append(list, netip.PrefixFrom(a, bits))
	}
	s := access.NewSet(list)
	asked := []netip.Addr{random(r), random(r)}
	for _, p := range list {
		asked = append(asked, append(neighbours(p), random(r))...)
	}
	for _, a := range asked {
		if got, want := s.Has(a), naive(list, a); got != want {
			t.Fatalf("seed %d: %v has %s: %v, want %v", seed, list, a, got, want)
		}
	}
}

func TestSetAgainstNaive(t *testing.T) {
	for seed := range uint64(2000) {
		checkAgainstNaive(t, seed, int(seed%20))
	}
}

func FuzzSet(f *testing.F) {
	f.Add(uint64(1), uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) { checkAgainstNaive(t, seed, int(n%64)) })
}

// many returns n prefixes of which no two touch.
func many(n int) (list []netip.Prefix) {
	for i := range n {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(i)*2+1<<24)
		list = append(list, netip.PrefixFrom(netip.AddrFrom4(b), 32))
	}
	return list
}

func BenchmarkSet(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		list := many(n)
		s := access.NewSet(list)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if !s.Has(list[i*7919%n].Addr()) {
					b.Fatal("it is not there")
				}
			}
		})
	}
}

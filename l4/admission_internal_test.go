package l4

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"sluice/l4/access"
	"sluice/l4/session"
)

// entries returns n addresses of which no two touch, as a list and as a set.
func entries(n int) (list []netip.Prefix, set *access.Set) {
	for i := range n {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(i)*2+1<<24)
		list = append(list, netip.PrefixFrom(netip.AddrFrom4(b), 32))
	}
	return list, access.NewSet(list)
}

// What it costs to let a client in and out again, and to turn one away: all but
// the socket.
func BenchmarkAdmission(b *testing.B) {
	turned := func(b *testing.B, a Admission, reason string, peers []netip.Prefix) {
		cfg := &Config{Admission: a, Rejected: func(string, netip.AddrPort) {}}
		f := newFrontend(nil, *cfg)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			peer := peers[i*7919%len(peers)].Addr()
			got := f.enter(cfg, peer)
			if got == "" {
				r := session.Record{Cause: session.ClientClosed, Client: netip.AddrPortFrom(peer, 1)}
				f.leave(cfg, &r, true)
				f.report(cfg, r)
			} else {
				f.reject(cfg, got, netip.AddrPortFrom(peer, 1))
			}
			if got != reason {
				b.Fatalf("%s: refused because of %q, want %q", peer, got, reason)
			}
		}
	}
	for _, n := range []int{10, 100_000} {
		list, set := entries(n)
		b.Run(fmt.Sprintf("denied of %d", n), func(b *testing.B) { turned(b, Admission{Deny: set}, "denied", list) })
		outside, _ := entries(2*n + 2)
		b.Run(fmt.Sprintf("let in past %d", n), func(b *testing.B) { turned(b, Admission{Deny: set}, "", outside[n:]) })
	}
	list, _ := entries(1000)
	b.Run("let in", func(b *testing.B) { turned(b, Admission{}, "", list) })
	b.Run("let in and counted apart", func(b *testing.B) {
		turned(b, Admission{PerClient: access.Limits{Sessions: 10, Rate: 1_000_000}}, "", list)
	})
	rules := session.HeaderRules{Mode: session.RequireHeaders, From: &access.Set{}}
	b.Run("may send no header", func(b *testing.B) { turned(b, Admission{Headers: rules}, "proxy_header", list) })
}

package balancer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/discover"
	"sluice/pool"
)

// randomAddr is one of a few dozen, so that names share some, or one that is of no
// use.
func randomAddr(r *rand.Rand) netip.Addr {
	switch r.IntN(12) {
	case 0:
		return netip.IPv4Unspecified()
	case 1, 2, 3, 4:
		var a [16]byte
		a[0], a[1], a[15] = 0x20, 0x01, byte(r.IntN(20))
		if r.IntN(2) == 0 {
			for i := 2; i < 15; i++ {
				a[i] = 0xab // the longest there are
			}
		}
		return netip.AddrFrom16(a)
	}
	return netip.AddrFrom4([4]byte{127, 0, 2, byte(r.IntN(20))})
}

// randomPool is a pool of plain entries and of names with what these stand for.
func randomPool(r *rand.Rand) (c config.Pool, found [][]discover.Found, added []pool.Spec) {
	long := func(n int) string { return fmt.Sprintf("%0*d", n, r.IntN(9)) }
	for at := range 1 + r.IntN(6) {
		spec := pool.Spec{ID: fmt.Sprint("e", at, "/", long(1+r.IntN(76))), Weight: r.IntN(pool.MaxWeight + 1), Backup: r.IntN(10)}
		if r.IntN(3) == 0 {
			a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 2, byte(at)}), uint16(1+r.IntN(2))).String()
			spec.Address = a
			if r.IntN(2) == 0 && len(c.Groups) > 0 { // as what a name may stand for
				spec.ID = c.Groups[0].Spec.ID + "/" + a
			}
			c.Config.Backends = append(c.Config.Backends, spec)
			continue
		}
		g := config.Group{Spec: spec, Host: fmt.Sprint("n", at, ".test"), SRV: r.IntN(2) == 0, At: at}
		g.Port = uint16(1 + r.IntN(2))
		var list []discover.Found
		for range r.IntN(30) {
			f := discover.Found{Addr: randomAddr(r)}
			if g.SRV {
				f.Port, f.Priority, f.Weight = uint16(1+r.IntN(2)), uint16(r.IntN(12)), uint16(r.Uint32())
			}
			list = append(list, f)
		}
		c.Groups, found = append(c.Groups, g), append(found, list)
	}
	for i := range r.IntN(3) {
		added = append(added, pool.Spec{ID: fmt.Sprint("api", i), Address: fmt.Sprintf("127.0.2.%d:1", 10+i)})
	}
	return c, found, added
}

// Whatever names stand for, the backends are ones that a file could have: ids and
// addresses are valid and there once, weights and tiers are in range, and none is
// where this process listens or what the API has added.
func TestWhatIsFoundMakesBackends(t *testing.T) {
	t.Parallel()
	many := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 3))
		c, found, added := randomPool(r)
		s := newStander(c, added, []ear{{"frontend f", "127.0.2.19:1"}}, nil)
		all := c.Config.Backends
		for i, g := range c.Groups {
			all = append(all, s.specs(g, found[i])...)
		}
		many += len(all)
		ids, addresses := map[string]bool{}, map[string]bool{"127.0.2.19:1": true}
		for _, a := range added {
			ids[a.ID], addresses[a.Address] = true, true
		}
		for i, b := range all {
			found := i >= len(c.Config.Backends)
			if pool.CheckName(b.ID) != nil || pool.CheckAddress(b.Address) != nil {
				t.Fatalf("seed %d: %+v: %v, %v", seed, b, pool.CheckName(b.ID), pool.CheckAddress(b.Address))
			}
			if found && (ids[b.ID] || addresses[b.Address] || b.Name == "") {
				t.Fatalf("seed %d: %+v is there twice, or has no name", seed, b)
			}
			if b.Weight < 0 || b.Weight > pool.MaxWeight || b.Backup < 0 || b.Backup > pool.MaxTier {
				t.Fatalf("seed %d: %+v is out of range", seed, b)
			}
			ids[b.ID], addresses[b.Address] = true, true
		}
	}
	if many < 30_000 {
		t.Errorf("only %d backends in all", many)
	}
}

// The weight of the entry counts beside those of the records: 0 is none, and what
// would be too much keeps its proportion.
func TestWeightsOfRecords(t *testing.T) {
	t.Parallel()
	at := func(i byte, priority, weight uint16) discover.Found {
		return discover.Found{Addr: netip.AddrFrom4([4]byte{10, 0, 0, i}), Port: 1, Priority: priority, Weight: weight}
	}
	for _, c := range []struct {
		entry  pool.Spec
		found  []discover.Found
		expect string // weight/tier
	}{
		{pool.Spec{Weight: 1}, []discover.Found{at(1, 0, 10), at(2, 0, 30), at(3, 5, 7)}, "1/0 3/0 1/1"},
		{pool.Spec{Weight: 5, Backup: 2}, []discover.Found{at(1, 0, 10), at(2, 0, 30), at(3, 5, 7)}, "5/2 15/2 5/3"},
		{pool.Spec{Weight: 0}, []discover.Found{at(1, 0, 10), at(2, 0, 30)}, "0/0 0/0"},
		{pool.Spec{Weight: 100}, []discover.Found{at(1, 0, 1), at(2, 0, 1000)}, "100/0 1000/0"},
		{pool.Spec{Weight: 1, Backup: 8}, []discover.Found{at(1, 0, 0), at(2, 1, 0), at(3, 2, 0)}, "1/8 1/9 1/9"},
	} {
		c.entry.ID = "e"
		got := ""
		for _, b := range newStander(config.Pool{}, nil, nil, nil).specs(config.Group{Spec: c.entry, SRV: true, Host: "_s.test"}, c.found) {
			got += fmt.Sprintf(" %d/%d", b.Weight, b.Backup)
		}
		if got != " "+c.expect {
			t.Errorf("%+v: got%s, want %s", c.entry, got, c.expect)
		}
	}
}

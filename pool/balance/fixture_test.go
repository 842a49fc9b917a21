package balance_test

import (
	"fmt"
	"net/netip"
	"testing"

	"sluice/pool"
	"sluice/pool/balance"
)

// bounded returns source_hash with a bound, 0 for none.
func bounded(t testing.TB, percent int) pool.Strategy {
	t.Helper()
	s, err := balance.ByName("source_hash", "")
	if err != nil {
		t.Fatal(err)
	}
	return balance.Bounded(s, percent)
}

// specs returns n backends of weight 1.
func specs(n int) (all []pool.Spec) {
	for i := range n {
		id := fmt.Sprintf("node-%d", i)
		all = append(all, pool.Spec{ID: id, Address: id + ":1", Weight: 1})
	}
	return all
}

// running returns a pool with these backends.
func running(s pool.Strategy, backends []pool.Spec) *pool.Pool {
	return pool.New("p", pool.Config{Strategy: s, Backends: backends}, pool.Hooks{})
}

// client returns a different address for each i.
func client(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// homes returns the id of the backend of each of n clients.
func homes(p *pool.Pool, n int) (ids []string) {
	for i := range n {
		b, _ := p.Preview(pool.Query{Client: client(i)})
		ids = append(ids, b.ID())
	}
	return ids
}

// moved returns how many clients have another backend.
func moved(before, after []string) (n int) {
	for i := range before {
		if before[i] != after[i] {
			n++
		}
	}
	return n
}

// take has a client pick; the session lasts.
func take(t testing.TB, p *pool.Pool, q pool.Query) (*pool.Lease, error) {
	t.Helper()
	l := new(pool.Lease)
	return l, p.Acquire(l, q)
}

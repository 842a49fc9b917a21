package pool_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"sluice/pool"
	"sluice/pool/balance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func strategy(t testing.TB, name, ties string) pool.Strategy {
	t.Helper()
	s, err := balance.ByName(name, ties)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func everyStrategy(t testing.TB) (all []pool.Strategy) {
	t.Helper()
	return []pool.Strategy{
		strategy(t, "round_robin", ""),
		strategy(t, "least_connections", "first"),
		strategy(t, "least_connections", "rotate"),
		strategy(t, "random_two", ""),
		strategy(t, "source_hash", ""),
		balance.Bounded(strategy(t, "source_hash", ""), 125),
		strategy(t, "first", ""),
	}
}

// seedsOf returns how many seeds a test of s takes that has usual of others: each
// change of a pool with source_hash builds a table.
func seedsOf(s pool.Strategy, usual uint64) uint64 {
	if s.Name == "source_hash" {
		return usual / 6
	}
	return usual
}

func title(s pool.Strategy) string {
	if s.Bound > 0 {
		return fmt.Sprintf("%s-%d", s.Name, s.Bound)
	}
	return strings.TrimSuffix(s.Name+"-"+s.Ties, "-")
}

// parse turns "a b=3 c=1/10" into backends: id, weight, limit. The address
// follows from the id, unless it is given as in "a@b".
func parse(t testing.TB, text string) (ss []pool.Spec) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		s := pool.Spec{Weight: 1}
		name, values, _ := strings.Cut(word, "=")
		id, host, other := strings.Cut(name, "@")
		if !other {
			host = id
		}
		s.ID, s.Address = id, host+":1"
		if values != "" {
			if n, _ := fmt.Sscanf(values, "%d/%d", &s.Weight, &s.MaxSessions); n == 0 {
				t.Fatalf("bad backend %q", word)
			}
		}
		ss = append(ss, s)
	}
	return ss
}

func specs(n int) (ss []pool.Spec) {
	for i := range n {
		id := fmt.Sprintf("b%04d", i)
		ss = append(ss, pool.Spec{ID: id, Address: id + ":1", Weight: 1})
	}
	return ss
}

// fixture is a pool and what its hooks said.
type fixture struct {
	*pool.Pool
	t       testing.TB
	changes []pool.Change
	suspect []string
	members int
}

// setup returns a round robin pool of the backends in text.
func setup(t testing.TB, text string, pol pool.Policy) *fixture {
	t.Helper()
	f := &fixture{t: t}
	f.Pool = pool.New("p", config(t, text, pol), pool.Hooks{
		Changed:   func(c pool.Change) { f.changes = append(f.changes, c) },
		Suspected: func(b *pool.Backend) { f.suspect = append(f.suspect, b.ID()) },
		Members:   func() { f.members++ },
	})
	t.Cleanup(f.Close)
	return f
}

func config(t testing.TB, text string, pol pool.Policy) pool.Config {
	t.Helper()
	return pool.Config{Strategy: strategy(t, "round_robin", ""), Policy: pol, Backends: parse(t, text)}
}

func newPool(t testing.TB, c pool.Config) *pool.Pool {
	t.Helper()
	p := pool.New("p", c, pool.Hooks{})
	t.Cleanup(p.Close)
	return p
}

// acquire returns a lease that must be granted.
func acquire(t testing.TB, p *pool.Pool, avoid ...*pool.Backend) *pool.Lease {
	t.Helper()
	l := new(pool.Lease)
	if err := p.Acquire(l, pool.Query{Avoid: avoid}); err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return l
}

// lease holds a lease during f.
func lease(t testing.TB, p *pool.Pool, f func(*pool.Lease)) {
	t.Helper()
	l := acquire(t, p)
	defer l.Release()
	f(l)
}

// hold takes n leases until the test ends.
func hold(t testing.TB, p *pool.Pool, n int) (ls []*pool.Lease) {
	t.Helper()
	for range n {
		l := acquire(t, p)
		t.Cleanup(l.Release)
		ls = append(ls, l)
	}
	return ls
}

// picks returns the ids of n sessions, one after the other.
func picks(t testing.TB, p *pool.Pool, n int) string {
	t.Helper()
	var ids []string
	for range n {
		lease(t, p, func(l *pool.Lease) { ids = append(ids, l.Backend().ID()) })
	}
	return strings.Join(ids, " ")
}

// leaseOf returns a lease of a given backend, which must be eligible.
func leaseOf(t testing.TB, p *pool.Pool, id string) *pool.Lease {
	t.Helper()
	var others []*pool.Backend
	for {
		l := acquire(t, p, others...)
		if l.Backend().ID() == id {
			return l
		}
		others = append(others, l.Backend())
		l.Release()
	}
}

// backend returns an eligible backend.
func backend(t testing.TB, p *pool.Pool, id string) *pool.Backend {
	t.Helper()
	l := leaseOf(t, p, id)
	defer l.Release()
	return l.Backend()
}

func row(t testing.TB, p *pool.Pool, id string) pool.BackendStatus {
	t.Helper()
	bs := p.Status().Backends
	i := slices.IndexFunc(bs, func(b pool.BackendStatus) bool { return b.ID == id })
	if i < 0 {
		t.Fatalf("no backend %q in %+v", id, bs)
	}
	return bs[i]
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

var errDial = errors.New("dial tcp a:1: connection refused")

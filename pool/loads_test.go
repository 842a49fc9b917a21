package pool_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/pool"
)

// What a backend gets of new sessions is its weight; nothing where it gets none, and
// where it gets some only because nobody is better.
func TestLoads(t *testing.T) {
	loads := func(p *pool.Pool) string {
		var words []string
		for _, l := range p.Loads() {
			words = append(words, fmt.Sprintf("%s:%d/%d*%d<%d", l.Backend.ID(), l.Active, l.Total, l.Weight, l.Most))
		}
		return strings.Join(words, " ")
	}
	c := pool.Config{Strategy: strategy(t, "round_robin", ""), Policy: pool.Policy{TryAll: true, Probed: true}, Backends: []pool.Spec{
		{ID: "A", Address: "10.0.0.1:80", Weight: 3, MaxSessions: 7}, {ID: "B", Address: "10.0.0.2:80", Weight: 2}, {ID: "C", Address: "10.0.0.3:80"},
	}}
	p := pool.New("p", c, pool.Hooks{})
	t.Cleanup(p.Close)
	var first, second pool.Lease
	for _, l := range []*pool.Lease{&first, &second} {
		if err := p.Acquire(l, pool.Query{}); err != nil {
			t.Fatal(err)
		}
	}
	first.Connected()
	want := func(when, want string) {
		t.Helper()
		if got := loads(p); got != want {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
	want("at first", "A:1/1*3<7 B:1/0*2<0 C:0/0*0<0")
	second.Release()
	p.SetHealth(backendOf(p, "B"), pool.Down, "no answer")
	want("B is down", "A:1/1*3<7 B:0/0*0<0 C:0/0*0<0")
	p.SetHealth(backendOf(p, "A"), pool.Down, "no answer")
	want("both are down, and tried", "A:1/1*0<7 B:0/0*0<0 C:0/0*0<0")
	p.SetHealth(backendOf(p, "A"), pool.Up, "it answers")
	drain := pool.Drain
	if err := p.Patch("A", pool.Patch{Admin: &drain}); err != nil {
		t.Fatal(err)
	}
	want("A is drained", "A:1/1*0<7 B:0/0*0<0 C:0/0*0<0")
	if err := p.Remove("A"); err != nil {
		t.Fatal(err)
	}
	want("A is removed", "B:0/0*0<0 C:0/0*0<0")
	first.Release()
}

func backendOf(p *pool.Pool, id string) *pool.Backend {
	for _, l := range p.Loads() {
		if l.Backend.ID() == id {
			return l.Backend
		}
	}
	return nil
}

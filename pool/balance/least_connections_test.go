package balance_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"sluice/pool"
)

func TestLeastConnectionsSequence(t *testing.T) {
	for _, c := range []struct {
		ties    string
		weights []int
		want    string // of sessions that all stay
	}{
		{"first", []int{1, 1, 1}, "ABCABC"},
		{"first", []int{2, 1}, "ABAABA"},
		{"first", []int{1, 3}, "ABBBABBB"},
		{"rotate", []int{1, 1, 1}, "ABCABC"},
		{"rotate", []int{3, 1}, "ABAABAAA"},
	} {
		if got := letters(picker(t, "least_connections", c.ties, members(c.weights...), nil), len(c.want)); got != c.want {
			t.Errorf("%s %v: got %s, want %s", c.ties, c.weights, got, c.want)
		}
	}
}

// Reserve stands for a session that lasts.
func TestLeastConnectionsPrefersTheIdle(t *testing.T) {
	ms := members(1, 1, 1)
	for range 3 {
		ms[0].Reserve()
		ms[2].Reserve()
	}
	p := picker(t, "least_connections", "first", ms, nil)
	if got := letters(p, 5); got != "BBBAB" {
		t.Errorf("got %s, want BBBAB", got)
	}
}

func TestLeastConnectionsAvoidsAndSkipsTheFull(t *testing.T) {
	ms := []*pool.Member{member(1, 1, 1), member(2, 1, 0), member(3, 1, 0)}
	p := picker(t, "least_connections", "first", ms, nil)
	if got := letters(p, 4, ms[1].Backend); got != "ACCC" {
		t.Errorf("got %s, want ACCC", got)
	}
}

// The naive model: the smallest active/weight, then the smallest Seq.
func TestLeastConnectionsMatchesTheModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 100 {
		ms := members(randomWeights(rng, 1+rng.IntN(20))...)
		p := picker(t, "least_connections", "first", ms, nil)
		for _, m := range ms {
			for range rng.IntN(50) {
				m.Reserve()
			}
		}
		for range 200 {
			want := ms[0]
			for _, m := range ms {
				if m.Active()*int64(want.Weight) < want.Active()*int64(m.Weight) {
					want = m
				}
			}
			if got := p.Pick(pool.Query{}); got != want {
				t.Fatalf("got member %d, want %d", got.Seq, want.Seq)
			}
		}
	}
}

// Picks at the same time see one another: nobody is far from the mean.
func TestLeastConnectionsSpreadsABurst(t *testing.T) {
	ms := members(1, 1, 1, 1)
	p := picker(t, "least_connections", "first", ms, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				p.Pick(pool.Query{})
			}
		})
	}
	wg.Wait()
	for _, m := range ms {
		// 8 pickers can be wrong by one each
		if n := m.Active(); n < 1000-8 || n > 1000+8 {
			t.Errorf("member %d: got %d sessions of 4000, want 1000 +- 8", m.Seq, n)
		}
	}
}

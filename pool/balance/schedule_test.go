package balance

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/pool"
)

// naive is the algorithm word for word, in fractions.
func naive(weights []uint64) (turns []uint32) {
	n, total := int64(len(weights)), int64(0)
	for _, w := range weights {
		total += int64(w)
	}
	slack := big.NewRat(1, 2*n-2)
	had := make([]int64, n)
	for k := range total {
		best, bestDue := -1, new(big.Rat)
		for i, w := range weights {
			lag := big.NewRat((k+1)*int64(w), total)
			lag.Sub(lag, big.NewRat(had[i], 1))
			due := big.NewRat(had[i]+1, 1)
			due.Sub(due, slack).Quo(due, big.NewRat(int64(w), 1))
			if lag.Cmp(slack) >= 0 && (best < 0 || due.Cmp(bestDue) < 0) {
				best, bestDue = i, due
			}
		}
		had[best]++
		turns = append(turns, uint32(best))
	}
	return turns
}

func TestScheduleMatchesTheNaiveAlgorithm(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 60 {
		weights := make([]uint64, 2+rng.IntN(9))
		for i := range weights {
			weights[i] = 1 + rng.Uint64N(1+rng.Uint64N(60))
		}
		if got, want := schedule(weights), naive(weights); !slices.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", weights, got, want)
		}
	}
}

// No member ever lags or leads by a whole turn, which is the best there is.
func TestScheduleLagStaysBelowOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, n := range []int{2, 3, 17, 60} {
		weights := make([]uint64, n)
		for i := range weights {
			weights[i] = 1 + rng.Uint64N(pool.MaxWeight)
		}
		checkLag(t, weights)
	}
	checkLag(t, []uint64{1000, 1})
	checkLag(t, []uint64{1, 1000, 999, 1, 1})
}

func checkLag(t *testing.T, weights []uint64) {
	t.Helper()
	turns := schedule(weights)
	had := make([]int64, len(weights))
	total := int64(len(turns))
	for k, i := range turns {
		had[i]++
		if len(weights) > 20 && k%len(weights) != 0 && k > 1000 {
			continue // a sample will do
		}
		for j, w := range weights {
			if lag := int64(k+1)*int64(w) - had[j]*total; lag <= -total || lag >= total {
				t.Fatalf("%d members: after %d turns member %d of weight %d/%d had %d", len(weights), k+1, j, w, total, had[j])
			}
		}
	}
}

func TestReduced(t *testing.T) {
	for _, c := range []struct {
		weights []int
		want    []uint64
	}{
		{[]int{4}, nil},
		{[]int{4, 4, 4}, nil},
		{[]int{3, 1}, []uint64{3, 1}},
		{[]int{600, 200, 400}, []uint64{3, 1, 2}},
		{[]int{1, longest}, []uint64{1, longest - 1}}, // scaled, to at least 1
		{[]int{longest, longest, 1}, []uint64{longest/2 - 1, longest/2 - 1, 1}}, // half of longest each
	} {
		var ms []*pool.Member
		for _, w := range c.weights {
			ms = append(ms, &pool.Member{Weight: w})
		}
		if got := reduced(ms); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.weights, got, c.want)
		}
	}
}

func TestScaledWeightsStaySmall(t *testing.T) {
	var ms []*pool.Member
	for i := range 3000 {
		ms = append(ms, &pool.Member{Weight: pool.MaxWeight - i%700})
	}
	weights := reduced(ms)
	var total uint64
	for _, w := range weights {
		total += w
	}
	if total > longest+uint64(len(ms)) {
		t.Errorf("got %d turns, want at most %d", total, longest+len(ms))
	}
}

func BenchmarkSchedule(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			var ms []*pool.Member
			for i := range n {
				ms = append(ms, &pool.Member{Weight: pool.MaxWeight - i%7})
			}
			weights := reduced(ms)
			for b.Loop() {
				schedule(weights)
			}
		})
	}
}

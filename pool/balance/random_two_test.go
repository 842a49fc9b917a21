package balance_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/pool"
)

// The point of two choices: with sessions that stay, the busiest of n is hardly
// above the mean. One choice would have it some 4 times the square root of the
// mean above, 40 here.
func TestRandomTwoIsEven(t *testing.T) {
	ms := members(slices.Repeat([]int{1}, 100)...)
	p := picker(t, "random_two", "", ms, nil)
	letters(p, 10000)
	for _, m := range ms {
		if n := m.Active(); n < 90 || n > 110 {
			t.Errorf("member %d: got %d sessions, want 100 +- 10", m.Seq, n)
		}
	}
}

// Sessions that end at once leave the shares to the lots alone, which go by weight.
func TestRandomTwoGoesByWeight(t *testing.T) {
	weights := []int{1, 2, 5, 8}
	ms := members(weights...)
	p := picker(t, "random_two", "", ms, nil)
	letters(p, 16000)
	for i, m := range ms {
		if n, want := float64(m.Active()), float64(1000*weights[i]); math.Abs(n-want) > 50+want/20 {
			t.Errorf("weight %d: got %v sessions, want %v", weights[i], n, want)
		}
	}
}

func TestRandomTwoTakesTheLessBusy(t *testing.T) {
	ms := members(1, 1)
	for range 1000 {
		ms[0].Reserve()
	}
	if got := letters(picker(t, "random_two", "", ms, nil), 500); got != letters500B {
		t.Errorf("got %s, want B alone", got)
	}
}

var letters500B = string(slices.Repeat([]byte{'B'}, 500))

// One that is left among many full is found, and those that may be had share the
// load of those that may not.
func TestRandomTwoFindsWhatIsLeft(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	var ms []*pool.Member
	for i := range 200 {
		ms = append(ms, member(uint64(i+1), 1+rng.IntN(1000), 1))
		ms[i].Reserve()
	}
	ms[77], ms[78] = member(78, 1, 0), member(79, 1, 0)
	p := picker(t, "random_two", "", ms, nil)
	for range 2000 {
		if m := p.Pick(pool.Query{}); m != ms[77] && m != ms[78] {
			t.Fatalf("got %v", m)
		}
	}
	if n := ms[77].Active(); n < 500 || n > 1500 {
		t.Errorf("got %d of 2000 sessions on one of two, want about half", n)
	}
}

package balance_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/pool"
)

func TestRoundRobinSequence(t *testing.T) {
	for _, c := range []struct {
		weights []int
		want    string
	}{
		{[]int{1}, "AAAA"},
		{[]int{7}, "AAAA"},
		{[]int{1, 1, 1}, "ABCABCA"},
		{[]int{5, 5, 5}, "ABCABCA"},
		{[]int{3, 1}, "AABAAABA"},
		{[]int{300, 100}, "AABAAABA"},
		{[]int{2, 1}, "ABAABA"},
		{[]int{1, 3}, "BABBBABB"},
		{[]int{5, 1, 1}, "AABAACAAABAACA"},
		{[]int{1, 2, 3}, "CBCABCCBCABC"},
		{[]int{2, 2, 1}, "ABCABABCAB"},
	} {
		if got := letters(picker(t, "round_robin", "", members(c.weights...), nil), len(c.want)); got != c.want {
			t.Errorf("weights %v: got %s, want %s", c.weights, got, c.want)
		}
	}
}

func TestRoundRobinSkipsTheFull(t *testing.T) {
	ms := members(1, 1, 1)
	ms[2] = member(3, 1, 1)
	if got := letters(picker(t, "round_robin", "", ms, nil), 8); got != "ABCABABA" {
		t.Errorf("with C full after one session: got %s, want ABCABABA", got)
	}
}

// A client that avoids A has B in A's place; nobody else notices.
func TestRoundRobinSkipsTheAvoided(t *testing.T) {
	ms := members(1, 1, 1)
	p := picker(t, "round_robin", "", ms, nil)
	got := letters(p, 1, ms[0].Backend) + letters(p, 3)
	if got != "BCAB" {
		t.Errorf("got %s, want BCAB", got)
	}
	if got := letters(p, 2, ms[0].Backend, ms[1].Backend, ms[2].Backend); got != "--" {
		t.Errorf("with all avoided: got %s, want --", got)
	}
}

// One full member may own thousands of turns in a row.
func TestRoundRobinFindsTheLightAmongTheHeavyFull(t *testing.T) {
	ms := []*pool.Member{member(1, 1<<19, 1), member(2, 1<<19, 1), member(3, 1, 0)}
	p := picker(t, "round_robin", "", ms, nil)
	got := letters(p, 2002)
	if want := strings.Repeat("C", 2000); strings.Count(got, "C") != 2000 || !strings.HasSuffix(got, want[:1000]) {
		t.Errorf("got %d C of 2002", strings.Count(got, "C"))
	}
}

func TestRoundRobinContinuesAfterAChange(t *testing.T) {
	all := members(1, 1, 1, 1, 1) // A to E
	some := func(letters string) (ms []*pool.Member) {
		for _, l := range letters {
			ms = append(ms, all[l-'A'])
		}
		return ms
	}
	for _, c := range []struct{ steps, want string }{
		{"ABC:2 AC:3", "AB CAC"},         // the last one picked leaves
		{"ABC:1 AC:3", "A CAC"},          // the next one leaves
		{"ABC:1 BC:3", "A BCB"},          // one behind leaves
		{"ABC:2 ABCD:4", "AB CDAB"},      // one joins at the end
		{"ACD:2 ABCD:4", "AC DABC"},      // one comes back to its old place
		{"ABC:2 AC:0 ABC:3", "AB  CAB"},  // gone and back without a pick between
		{"ABC:2 AC:0 AB:3", "AB  ABA"},   // two changes without a pick between
		{"ABC:3 AB:0 ABC:3", "ABC  ABC"}, // at the end of the cycle
		{"ABCDE:3 DE:2 ABCDE:6", "ABC DE ABCDEA"},
		{"ABC:1 D:2 ABCD:4", "A DD ABCD"},
	} {
		var p pool.Picker
		var got []string
		for _, step := range strings.Fields(c.steps) {
			who, n, _ := strings.Cut(step, ":")
			p = picker(t, "round_robin", "", some(who), p)
			got = append(got, letters(p, int(n[0]-'0')))
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: got %q, want %q", c.steps, g, c.want)
		}
	}
}

// With unequal weights a change continues at the same part of the cycle.
func TestRoundRobinKeepsThePhase(t *testing.T) {
	ms := members(3, 1)
	p := picker(t, "round_robin", "", ms, nil)
	got := letters(p, 2)
	p = picker(t, "round_robin", "", ms, p)
	got += letters(p, 3)
	p = picker(t, "round_robin", "", members(6, 2, 1), p)
	if got != "AABAA" {
		t.Errorf("got %s, want AABAA", got)
	}
	fresh := letters(picker(t, "round_robin", "", members(6, 2, 1), nil), 9)
	if got := letters(p, 9); got != fresh[2:]+fresh[:2] { // 1 of 4 is 2 of 9
		t.Errorf("after the change: got %s, want %s from turn 2 on", got, fresh)
	}
}

func TestRoundRobinStartsAfreshAfterAnotherStrategy(t *testing.T) {
	ms := members(1, 1, 1)
	lc := picker(t, "least_connections", "rotate", ms, nil)
	letters(lc, 2)
	if got := letters(picker(t, "round_robin", "", ms, lc), 3); got != "ABC" {
		t.Errorf("got %s, want ABC", got)
	}
}

// Over any unchanged eligible set each backend gets its weight, give or take
// one, per sum-of-weights picks; at any moment it lags or leads by less than one.
func TestRoundRobinSharesMatchTheModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		weights := randomWeights(rng, 2+rng.IntN(12))
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			p := picker(t, "round_robin", "", members(weights...), nil)
			letters(p, rng.IntN(500)) // from anywhere in the cycle
			had := share(p, sum(weights), nil)
			for i, w := range weights {
				if d := had[i] - w; d < -1 || d > 1 {
					t.Errorf("member %d: got %d turns, want %d", i, had[i], w)
				}
			}
		})
	}
}

// With one member down the picker is built without it, and the same holds.
func TestRoundRobinSharesWithOneDown(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		weights := randomWeights(rng, 3+rng.IntN(10))
		ms := members(weights...)
		p := picker(t, "round_robin", "", ms, nil)
		letters(p, rng.IntN(100))
		down := rng.IntN(len(ms))
		up := append(append([]*pool.Member(nil), ms[:down]...), ms[down+1:]...)
		p = picker(t, "round_robin", "", up, p)
		had := share(p, sum(weights)-weights[down], nil)
		for i, w := range weights {
			if d := had[i] - w; i != down && (d < -1 || d > 1) || i == down && had[i] != 0 {
				t.Errorf("%v with %d down: member %d got %d turns, want %d", weights, down, i, had[i], w)
			}
		}
	}
}

// A full member keeps its turns in the schedule: the others get at least theirs.
func TestRoundRobinSharesWithOneFull(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		weights := randomWeights(rng, 3+rng.IntN(10))
		ms := members(weights...)
		full := rng.IntN(len(ms))
		ms[full].MaxSessions = 1
		ms[full].Reserve()
		p := picker(t, "round_robin", "", ms, nil)
		n := sum(weights) - weights[full] // one cycle without its turns
		had := share(p, n, nil)
		for i, w := range weights {
			if i != full && had[i] < w-1 || i == full && had[i] != 0 {
				t.Errorf("%v with %d full: member %d got %d turns in %d, want %d or more", weights, full, i, had[i], n, w)
			}
		}
	}
}

func randomWeights(rng *rand.Rand, n int) (weights []int) {
	top := []int{5, 50, pool.MaxWeight}[rng.IntN(3)]
	for range n {
		weights = append(weights, 1+rng.IntN(top))
	}
	return weights
}

func sum(ns []int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}

// share returns how often each member was picked, by its place.
func share(p pool.Picker, n int, avoid []*pool.Backend) map[int]int {
	had := map[int]int{}
	for range n {
		had[int(p.Pick(pool.Query{Avoid: avoid}).Seq)-1]++
	}
	return had
}

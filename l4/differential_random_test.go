//go:build linux

package l4_test

import (
	"math/rand/v2"
	"slices"

	"sluice/l4/session"
)

// weighted are the operations of random scripts, each as often as it is likely.
var weighted = slices.Concat(
	slices.Repeat([]string{opWrite}, 9),
	slices.Repeat([]string{opRead}, 4),
	slices.Repeat([]string{opSync}, 3),
	slices.Repeat([]string{opTake}, 2),
	slices.Repeat([]string{opEnded}, 2),
	[]string{opHold, opHold, opPush, opLast, opEnd, opUrgent, opDrip},
)

// randomScript returns the script of a seed: half of them end gracefully.
func randomScript(seed uint64) script {
	rng := rand.New(rand.NewPCG(seed, 'd'))
	sizes := []int64{1, 100, 5_000, lightest / 4}
	if rng.IntN(2) == 0 {
		sizes = append(sizes, 150_000, 1<<20)
	}
	var s script
	for range 2 + rng.IntN(14) {
		next := step{side: session.Side(rng.IntN(2)), op: weighted[rng.IntN(len(weighted))]}
		switch {
		case next.op == opPush:
			next.n = 2 << 20
		case sized[next.op]:
			next.n = 1 + rng.Int64N(sizes[rng.IntN(len(sizes))])
		}
		s = append(s, next)
	}
	if rng.IntN(2) == 0 {
		for range 1 + rng.IntN(2) {
			leave := step{side: session.Side(rng.IntN(2)), op: []string{opReset, opClose}[rng.IntN(2)]}
			s = slices.Insert(s, rng.IntN(len(s)+1), leave)
		}
	}
	return s.normal()
}

// shrink drops steps of a script for as long as it fails without them, within
// a number of attempts.
func shrink(s script, attempts int, fails func(script) bool) script {
	for at := len(s) - 1; at >= 0 && attempts > 0; at-- {
		less := slices.Delete(slices.Clone(s), at, at+1).normal()
		if len(less) == 0 {
			continue
		}
		if attempts--; fails(less) {
			s = less
			at = min(at, len(s)) // dropping one can drop others
		}
	}
	return s
}

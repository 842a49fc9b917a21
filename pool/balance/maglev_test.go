package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// newcomers returns n ids in order.
func newcomers(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("backend-%04d", i))
	}
	return ids
}

func ones(n int) []int64 { return slices.Repeat([]int64{1}, n) }

// shares counts the entries of each member.
func shares(m *maglev) []int {
	had := make([]int, len(m.ids))
	for _, i := range m.entries {
		had[i]++
	}
	return had
}

// changed counts the entries that have another member than before.
func changed(before, after *maglev) (n int) {
	for i := range before.entries {
		if before.ids[before.entries[i]] != after.ids[after.entries[i]] {
			n++
		}
	}
	return n
}

func TestMaglevSharesAreEven(t *testing.T) {
	for _, n := range []int{1, 2, 7, 100, 1000} {
		had := shares(newMaglev(newcomers(n), ones(n), tableSize))
		if low, high := slices.Min(had), slices.Max(had); high-low > 1 || low != tableSize/n {
			t.Errorf("%d members: got %d to %d entries", n, low, high)
		}
	}
}

func TestMaglevSharesGoByWeight(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for _, weights := range [][]int64{
		{3, 1}, {1, 1000}, {1000, 1, 1, 1, 1}, append(ones(600), 1000),
		{rng.Int64N(1000) + 1, rng.Int64N(1000) + 1, rng.Int64N(1000) + 1, rng.Int64N(1000) + 1},
	} {
		var sum int64
		for _, w := range weights {
			sum += w
		}
		for i, k := range shares(newMaglev(newcomers(len(weights)), weights, tableSize)) {
			// One entry for the round that is not whole, one for the first; the
			// heaviest lacks what all others have so.
			want := tableSize * weights[i] / sum
			if off := 2 + want/1000; int64(k) < want-off || int64(k) > want+off || k == 0 {
				t.Errorf("%d members: the one of weight %d has %d entries, want %d", len(weights), weights[i], k, want)
			}
		}
	}
}

// The order of turns is that of a credit which grows by the weight in each round,
// and of which a turn costs what the heaviest has.
func TestMaglevTurnsGoByCredit(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	for range 300 {
		weights, turns := make([]int64, 1+rng.IntN(40)), 1+rng.IntN(2000)
		most := []int64{1, 3, 1000}[rng.IntN(3)]
		for i := range weights {
			weights[i] = 1 + rng.Int64N(most)
		}
		heaviest := slices.Max(weights)
		credit := make([]int64, len(weights))
		for i, w := range weights {
			credit[i] = heaviest - w // the first round is a turn of each
		}
		var want []uint32
		for len(want) < turns {
			for i, w := range weights {
				if credit[i] += w; credit[i] >= heaviest {
					credit[i] -= heaviest
					want = append(want, uint32(i))
				}
			}
		}
		if got := turnsOf(weights, turns); !slices.Equal(got, want[:turns]) {
			t.Fatalf("%d turns of %v: got %v, want %v", turns, weights, got, want[:turns])
		}
	}
}

// More members than entries end, too.
func TestMaglevSmallTable(t *testing.T) {
	for _, n := range []int{1, 6, 7, 20} {
		m := newMaglev(newcomers(n), ones(n), 7)
		for i, e := range m.entries {
			if int(e) >= n {
				t.Errorf("%d members in 7 entries: entry %d is %d", n, i, e)
			}
		}
	}
}

// FuzzMaglev takes members out and puts them back: the table follows from who is
// there, and no entry changes hands between those that stay but a few.
func FuzzMaglev(f *testing.F) {
	f.Add("a b c", uint8(1))
	f.Add("10.0.0.1:80 10.0.0.2:80 10.0.0.3:80 10.0.0.4:80", uint8(3))
	f.Fuzz(func(t *testing.T, text string, out uint8) {
		ids := slices.Compact(slices.Sorted(slices.Values(slices.Collect(fields(text)))))
		if len(ids) < 2 || len(ids) > 50 {
			return
		}
		const size = 5003
		before := newMaglev(ids, ones(len(ids)), size)
		gone := int(out) % len(ids)
		rest := slices.Delete(slices.Clone(ids), gone, gone+1)
		after := newMaglev(rest, ones(len(rest)), size)
		own := shares(before)[gone]
		if n := changed(before, after) - own; n > size/10 {
			t.Errorf("without %q of %q: %d entries of others changed hands", ids[gone], ids, n)
		}
		if n := changed(before, newMaglev(ids, ones(len(ids)), size)); n != 0 {
			t.Errorf("%q: %d entries differ the second time", ids, n)
		}
	})
}

func fields(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := 0; i < len(text); i += 3 {
			if !yield(text[i:min(i+3, len(text))]) {
				return
			}
		}
	}
}

// BenchmarkMaglev builds tables of both sizes of the paper (section 5.3), and tells
// beside the time how even the shares are (max/mean, of entries), and which part
// of the entries changes hands when one member of n leaves, in percent: all, and
// those of members that stay.
func BenchmarkMaglev(b *testing.B) {
	for _, size := range []uint32{tableSize, 655373} {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("entries=%d/n=%d", size, n), func(b *testing.B) {
				ids, weights := newcomers(n), ones(n)
				var m *maglev
				for b.Loop() {
					m = newMaglev(ids, weights, size)
				}
				had := shares(m)
				b.ReportMetric(float64(slices.Max(had))*float64(n)/float64(size), "max/mean")
				all, others := 0, 0
				const trials = 20
				for k := range trials {
					gone := k * n / trials
					k := changed(m, newMaglev(slices.Delete(slices.Clone(ids), gone, gone+1), ones(n-1), size))
					all, others = all+k, others+k-had[gone]
				}
				b.ReportMetric(100*float64(all)/trials/float64(size), "%moved")
				b.ReportMetric(100*float64(others)/trials/float64(size), "%others")
			})
		}
	}
	b.Run("skewed/n=1000", func(b *testing.B) {
		ids, weights := newcomers(1000), ones(1000)
		weights[0] = 1000
		for b.Loop() {
			newMaglev(ids, weights, tableSize)
		}
	})
}

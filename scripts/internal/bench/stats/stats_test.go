package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/scripts/internal/bench/stats"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 100, 2}, 3},
	} {
		before := slices.Clone(c.x)
		if got := stats.Median(c.x); got != c.want {
			t.Errorf("Median(%v): got %v, want %v", c.x, got, c.want)
		}
		if !slices.Equal(c.x, before) {
			t.Errorf("Median changed %v to %v", before, c.x)
		}
	}
	if got := stats.Median(nil); !math.IsNaN(got) {
		t.Errorf("Median of nothing: got %v, want NaN", got)
	}
}

func TestRatiosLeaveOutWhatCannotBeDivided(t *testing.T) {
	t.Parallel()
	got := stats.Ratios([]float64{3, 5, 0, 8}, []float64{2, 0, 4, 16, 9})
	if want := []float64{1.5, 0.5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The interval has to hold the true median in about 95 of 100 runs.
func TestBootstrapCoversTheMedian(t *testing.T) {
	t.Parallel()
	const truth, runs = 1.07, 200
	draw := rand.New(rand.NewPCG(2, 3))
	covered := 0
	for range runs {
		x := make([]float64, 20)
		for i := range x {
			x[i] = truth + 0.05*draw.NormFloat64()
		}
		i := stats.Bootstrap(x)
		if i.Low > i.Mid || i.Mid > i.High {
			t.Fatalf("got %+v: not in order", i)
		}
		if i.Low <= truth && truth <= i.High {
			covered++
		}
	}
	if covered < runs*88/100 || covered == runs {
		t.Errorf("the interval held the true median in %d of %d runs", covered, runs)
	}
}

func TestBootstrapRepeats(t *testing.T) {
	t.Parallel()
	x := []float64{1, 1.2, 0.9, 1.1, 1.05, 0.97}
	if a, b := stats.Bootstrap(x), stats.Bootstrap(x); a != b {
		t.Errorf("the same values gave %+v and %+v", a, b)
	}
	if got, want := stats.Bootstrap([]float64{3}), (stats.Interval{Low: 3, Mid: 3, High: 3}); got != want {
		t.Errorf("one value: got %+v, want %+v", got, want)
	}
}

// A quantile of the histogram is the exact one, give or take half a bucket.
func TestHistogram(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(4, 5))
	var all []time.Duration
	var a, b stats.Histogram
	for i := range 20_000 {
		d := time.Duration(math.Exp(4 + 12*draw.Float64()))
		all = append(all, d)
		if i%3 == 0 {
			a.Add(d)
		} else {
			b.Add(d)
		}
	}
	a.Merge(&b)
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.99, 0.999, 1} {
		want := all[int(q*float64(len(all)-1))]
		got := a.Quantile(q)
		if off := math.Abs(float64(got-want)) / float64(want); off > 0.01 {
			t.Errorf("quantile %v: got %v, want %v", q, got, want)
		}
	}
	if a.Count() != int64(len(all)) {
		t.Errorf("got %d values, want %d", a.Count(), len(all))
	}
}

func TestHistogramEnds(t *testing.T) {
	t.Parallel()
	var h stats.Histogram
	if got := h.Quantile(0.99); got != 0 {
		t.Errorf("empty: got %v, want 0", got)
	}
	h.Add(-time.Second)
	if got := h.Quantile(1); got != 0 {
		t.Errorf("below zero: got %v, want 0", got)
	}
	h.Add(math.MaxInt64)
	if got := h.Quantile(1); got < math.MaxInt64/100*98 {
		t.Errorf("the longest: got %v", got)
	}
}

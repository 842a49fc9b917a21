// Package stats turns rounds of a measurement into a figure, and says how far
// that figure can be trusted.
//
// The figure of a comparison is the median of the ratios of its pairs; its
// interval comes from a bootstrap, which assumes nothing about how the ratios
// are spread. The bootstrap draws from a fixed seed: the same rounds always give
// the same interval. Latencies go into a Histogram, which is small however many
// there are.
package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// resamples gives the ends of a 95 % interval of 20 pairs to about 1 % of
	// its width.
	resamples = 4000
	seed      = 1
)

// Interval is a median and the 95 % interval around it.
type Interval struct {
	Low  float64 `json:"low"`
	Mid  float64 `json:"median"`
	High float64 `json:"high"`
}

// Spread returns how far the interval reaches from one end to the other.
func (i Interval) Spread() float64 { return i.High - i.Low }

// Median returns the middle of x, the mean of the middle two if there is no
// one in the middle, and NaN if x is empty. It leaves x as it is.
func Median(x []float64) float64 {
	return median(slices.Clone(x))
}

// median is Median on values that it may sort.
func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	slices.Sort(x)
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// Bootstrap returns the median of x with the 95 % percentile interval of the
// medians of samples drawn from x. One value alone has an interval of no width,
// which says nothing.
func Bootstrap(x []float64) Interval {
	draw := rand.New(rand.NewPCG(seed, seed))
	sample := make([]float64, len(x))
	medians := make([]float64, resamples)
	for i := range medians {
		for j := range sample {
			sample[j] = x[draw.IntN(len(x))]
		}
		medians[i] = median(sample)
	}
	slices.Sort(medians)
	return Interval{
		Low:  medians[resamples*25/1000],
		Mid:  Median(x),
		High: medians[resamples*975/1000-1],
	}
}

// Ratios returns a[i]/b[i]. Pairs without two positive values are left out:
// there is nothing to divide.
func Ratios(a, b []float64) (ratios []float64) {
	for i := range min(len(a), len(b)) {
		if a[i] > 0 && b[i] > 0 {
			ratios = append(ratios, a[i]/b[i])
		}
	}
	return ratios
}

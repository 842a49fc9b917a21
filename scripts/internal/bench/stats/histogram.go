package stats

import (
	"math/bits"
	"time"
)

// Each power of two has this many buckets, so a bucket is at most 1.6 % wide.
const (
	subBits    = 6
	subBuckets = 1 << subBits
	buckets    = (64 - subBits) * subBuckets
)

// Histogram counts durations in buckets that grow with the duration. The zero
// value is ready. It is not safe for concurrent use: give every writer its own,
// and merge them.
type Histogram struct {
	count  int64
	counts [buckets]int64
}

// bucket returns where ns is counted. Below subBuckets every nanosecond has a
// bucket of its own.
func bucket(ns uint64) int {
	if ns < subBuckets {
		return int(ns)
	}
	shift := bits.Len64(ns) - subBits - 1
	return (shift+1)*subBuckets + int(ns>>shift) - subBuckets
}

// middle returns the duration that stands for a bucket.
func middle(bucket int) time.Duration {
	if bucket < subBuckets {
		return time.Duration(bucket)
	}
	shift := bucket/subBuckets - 1
	low := uint64(bucket%subBuckets+subBuckets) << shift
	return time.Duration(low + 1<<shift/2)
}

// Add counts d once; what is below zero counts as zero.
func (h *Histogram) Add(d time.Duration) {
	h.counts[min(bucket(uint64(max(d, 0))), buckets-1)]++
	h.count++
}

// Merge adds what o has counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.count += o.count
}

// Count returns how many durations were added.
func (h *Histogram) Count() int64 { return h.count }

// Quantile returns the duration that a share q of all does not exceed, 0 if
// there is none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(q*float64(h.count-1)) + 1
	for i, n := range h.counts {
		if rank -= n; rank <= 0 && h.count > 0 {
			return middle(i)
		}
	}
	return 0
}

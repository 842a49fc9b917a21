package pool

import (
	"slices"
	"sync/atomic"
	"time"
)

// Durations counts durations by length, at one moment: plain values.
type Durations struct {
	Bounds []time.Duration // upper bounds, inclusive, rising; shared: not to be changed
	Counts []int64         // by bound, and one more for what was longer
	Sum    time.Duration
}

// dialBounds are 0.25 ms, as on one rack, to 10 s, as long as a patient
// connect_timeout, three to four a decade. Chosen.
var dialBounds = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// dials are the dials of a backend by length. Safe for concurrent use.
type dials struct {
	counts [len(dialBounds) + 1]atomic.Int64
	sum    atomic.Int64 // nanoseconds
}

func (d *dials) add(took time.Duration) {
	i, _ := slices.BinarySearch(dialBounds[:], took)
	d.counts[i].Add(1)
	d.sum.Add(int64(took))
}

// totals returns how many there were, and how long they took together.
func (d *dials) totals() (n int64, took time.Duration) {
	for i := range d.counts {
		n += d.counts[i].Load()
	}
	return n, time.Duration(d.sum.Load())
}

func (d *dials) durations() Durations {
	out := Durations{Bounds: dialBounds[:], Counts: make([]int64, len(d.counts)), Sum: time.Duration(d.sum.Load())}
	for i := range d.counts {
		out.Counts[i] = d.counts[i].Load()
	}
	return out
}

// failureWords are why a dial may fail in a way that counts against its backend.
var failureWords = [...]string{"unreachable", "refused", "timeout", "reset"}

// failures counts failed dials by reason. Safe for concurrent use.
type failures [len(failureWords)]atomic.Int64

// add counts one; what is none of the words is said of who cannot be reached.
func (f *failures) add(reason string) { f[max(0, slices.Index(failureWords[:], reason))].Add(1) }

func (f *failures) total() (n int64) {
	for i := range f {
		n += f[i].Load()
	}
	return n
}

// byReason has every word, also those that never occurred.
func (f *failures) byReason() map[string]int64 {
	by := make(map[string]int64, len(f))
	for i := range f {
		by[failureWords[i]] = f[i].Load()
	}
	return by
}

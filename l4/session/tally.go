package session

import (
	"slices"
	"sync/atomic"
	"time"

	"sluice/pool"
)

// lifeBounds are 10 ms, a query, to a week, a replica's connection. Chosen.
var lifeBounds = [...]time.Duration{
	10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond,
	time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, 15 * time.Minute,
	time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
}

// Tally counts sessions that are over, by cause and by duration. Its zero value
// is ready to use. Safe for concurrent use.
type Tally struct {
	ended [len(causes)][len(lifeBounds) + 1]atomic.Int64 // one addition counts both
	sum   atomic.Int64                                   // nanoseconds
}

// Add counts a session. Who was not let in was none.
func (t *Tally) Add(c Cause, took time.Duration) {
	if c.Rejected() {
		return
	}
	i, _ := slices.BinarySearch(lifeBounds[:], took)
	t.ended[c.place()][i].Add(1)
	t.sum.Add(int64(took))
}

// ByCause returns how many there were of each cause, zeros included.
func (t *Tally) ByCause() map[Cause]int64 {
	by := make(map[Cause]int64, len(causes)-1)
	for i, c := range causes[1:] {
		if c.Rejected() {
			continue
		}
		n := int64(0)
		for j := range t.ended[i+1] {
			n += t.ended[i+1][j].Load()
		}
		by[c] = n
	}
	return by
}

// Durations returns how long they lasted.
func (t *Tally) Durations() pool.Durations {
	d := pool.Durations{Bounds: lifeBounds[:], Counts: make([]int64, len(lifeBounds)+1), Sum: time.Duration(t.sum.Load())}
	for i := range t.ended {
		for j := range t.ended[i] {
			d.Counts[j] += t.ended[i][j].Load()
		}
	}
	return d
}

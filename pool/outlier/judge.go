package outlier

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/pool"
)

const (
	// apart is how many times the usual share of failed sessions is far from it.
	// Chosen: less is noise, and with three times nobody would stand out where the
	// others lose a third.
	apart = 2
	// leastDelay is how much longer than usual dials have to take at least. On one
	// machine or rack a factor alone is noise of the scheduler. Chosen: what a user
	// begins to notice in a page of some queries.
	leastDelay = 5 * time.Millisecond
)

// finding is a backend that stands out.
type finding struct {
	backend *pool.Backend
	share   int64         // of failed sessions, in thousandths; 0: it is the dials
	delay   time.Duration // of the dials, beside the usual
	reason  string
}

// judge returns the backends that stand out by what was counted in one interval,
// the worst first: there may not be room for all.
func judge(list []pool.Tally, pol Policy) (found []finding) {
	shares, times := usual(list)
	for _, t := range list {
		f, ok := failing(t, shares, pol)
		if !ok {
			f, ok = slow(t, times, pol)
		}
		if ok {
			f.backend = t.Backend
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(b.delay, a.delay), cmp.Compare(a.backend.ID(), b.backend.ID()))
	})
	return found
}

// usual returns the shares and the dial times of all that had any.
func usual(list []pool.Tally) (shares, times values) {
	for _, t := range list {
		if t.Sessions > 0 {
			shares = append(shares, share(t))
		}
		if t.Dials > 0 {
			times = append(times, mean(t))
		}
	}
	slices.Sort(shares)
	slices.Sort(times)
	return shares, times
}

// share returns the share of failed sessions in thousandths. Some may have begun
// in an earlier interval, and all of those that begin be held still.
func share(t pool.Tally) int64 { return 1000 * min(t.Early+t.Empty, t.Sessions) / t.Sessions }

// mean returns the mean dial time in nanoseconds.
func mean(t pool.Tally) int64 { return int64(t.DialTime) / t.Dials }

// failing reports whether too many sessions of a backend failed.
func failing(t pool.Tally, shares values, pol Policy) (f finding, ok bool) {
	if pol.FailureShare == 0 || t.Sessions < int64(pol.MinSessions) {
		return f, false
	}
	own := share(t)
	others, compared := shares.without(own)
	if own < 10*int64(pol.FailureShare) || own < apart*others {
		return f, false
	}
	f.share = own
	f.reason = fmt.Sprintf("%d sessions failed in %s (%d reset early, %d empty) where %d began",
		t.Early+t.Empty, pol.Interval, t.Early, t.Empty, t.Sessions)
	if compared {
		f.reason += fmt.Sprintf(", usual among the others is %d%%", others/10)
	}
	return f, true
}

// slow reports whether the dials of a backend take too long.
func slow(t pool.Tally, times values, pol Policy) (f finding, ok bool) {
	if pol.DialFactor == 0 || t.Dials < int64(pol.MinSessions) {
		return f, false
	}
	own := mean(t)
	others, compared := times.without(own)
	f.delay = time.Duration(own - others)
	if !compared || f.delay < leastDelay || own/int64(pol.DialFactor) < others {
		return f, false
	}
	f.reason = fmt.Sprintf("its %d dials in %s took %s on average, usual among the others is %s",
		t.Dials, pol.Interval, short(own), short(others))
	return f, true
}

func short(nanoseconds int64) time.Duration {
	return time.Duration(nanoseconds).Round(10 * time.Microsecond)
}

// values are those of several backends, rising.
type values []int64

// without returns the median of all but one, whose value is v; ok is false if
// there is no other.
func (vs values) without(v int64) (median int64, ok bool) {
	n := len(vs) - 1
	if n < 1 {
		return 0, false
	}
	skip, _ := slices.BinarySearch(vs, v)
	at := func(i int) int64 {
		if i >= skip {
			i++
		}
		return vs[i]
	}
	low, high := at((n-1)/2), at(n/2)
	return low + (high-low)/2, true
}

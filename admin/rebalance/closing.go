package rebalance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// close has as many sessions end as are due, those of the backends with most above
// their share first: each gets the part that its surplus is of all. What one has
// nobody for is for the next.
func (r *run) close(now time.Time) {
	due := r.due(now)
	donors, total := r.donors()
	due = min(due, total, r.may())
	if due <= 0 {
		return
	}
	closed := int64(0)
	for _, d := range donors {
		part := min(d.n, (due-closed)*d.n/total+1, due-closed) // rounded up
		total -= d.n
		if part > 0 {
			closed += r.end(now, d, part)
		}
	}
	r.all += closed
	r.wait(now, closed)
}

// due takes the sessions out of the credit that the rate allows by now. What was
// not used earlier is not made up for.
func (r *run) due(now time.Time) int64 {
	rate := time.Duration(r.order.Rate)
	r.credit = min(r.credit+now.Sub(r.last), 2*r.step)
	r.last = now
	n := r.credit * rate / time.Second
	r.credit -= n * time.Second / rate
	return int64(n)
}

// donor is a backend with n sessions too many.
type donor struct {
	load pool.Load
	n    int64
}

// donors returns the backends with sessions too many that were not told to end yet,
// those with most of them first.
func (r *run) donors() (list []donor, total int64) {
	for i, l := range r.loads {
		if n := r.shares[i].ToClose - r.ending(l); n > 0 {
			list = append(list, donor{l, n})
			total += n
		}
	}
	slices.SortStableFunc(list, func(a, b donor) int { return cmp.Compare(b.n, a.n) })
	return list, total
}

// ending returns how many sessions were told to end and are counted still: none of
// those that were told long enough ago.
func (r *run) ending(l pool.Load) int64 {
	n := int64(0)
	for _, b := range r.sent {
		if b.backend == l.Backend {
			n += b.n
		}
	}
	return min(n, r.account(l).ending)
}

// end has n sessions of d end, or as many as there are.
func (r *run) end(now time.Time, d donor, n int64) int64 {
	m := session.Match{On: d.load.Backend, State: "relaying", MinAge: r.order.MinAge, MinIdle: r.order.MinIdle}
	ended := int64(r.work.End(m, int(n)))
	if ended > 0 {
		a := r.account(d.load)
		a.closed += ended
		a.ending += ended
		r.sent = append(r.sent, batch{at: now, backend: d.load.Backend, n: ended})
	}
	return ended
}

// wait ends the run if it found nobody for too long.
func (r *run) wait(now time.Time, closed int64) {
	switch {
	case closed > 0:
		r.silent = time.Time{}
	case r.silent.IsZero():
		r.silent = now
	case now.Sub(r.silent) >= patience:
		r.finish(Busy, fmt.Sprintf("for %v the backends with too many had no session that was %v old and idle for %v",
			patience, r.order.MinAge, r.order.MinIdle))
	}
}

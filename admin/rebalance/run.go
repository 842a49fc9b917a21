package rebalance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

const (
	// shortestStep bounds how often all sessions are looked at. Chosen: the rate
	// is smooth to the eye of whoever watches it.
	shortestStep = 200 * time.Millisecond
	// lookShare is the part of the time that looking may take: a step is so many
	// times as long as its work. Chosen.
	lookShare = 20
	// longestStep bounds that: after a look during which the process stood still it
	// would close nobody for minutes, and as many at once as were due since. Chosen:
	// what comes at once is bearable at any rate that is bearable.
	longestStep = 2 * time.Second
	// settleTime is how long a session that was told to end may be counted: its
	// linger, and as long again as its client may take to come back. Chosen.
	settleTime = session.LingerTime + 500*time.Millisecond
	// patience is how long it waits for somebody to be idle enough. Chosen.
	patience = 10 * time.Second
	// longest is what it may take beside the time that its rate makes it take, once
	// more. Chosen.
	longest = time.Hour
)

// run is a rebalance at work. It is not safe for concurrent use.
type run struct {
	order Order
	work  Work
	each  time.Duration // between two sessions, by the rate
	step  time.Duration // from one turn to the next

	loads    []pool.Load
	shares   []Share
	sessions int64 // that the shares divide
	accounts map[*pool.Backend]*account
	surplus  int64 // at the start
	least    int64 // of all since
	vain     int64 // closed since then, and gone
	all      int64 // closed
	sent     []batch
	until    time.Time
	credit   time.Duration // not used for sessions yet
	last     time.Time     // the last turn
	silent   time.Time     // since when nobody is idle enough; zero: somebody was
	finished State
	reason   string
}

// account is what a run knows of one backend.
type account struct {
	first  pool.Load // as it was seen first
	closed int64     // by the run
	ending int64     // that were told to end, and are counted still
	left   int64     // see departures, the most so far
}

// batch are sessions that were told to end, and may be counted still.
type batch struct {
	at      time.Time
	backend *pool.Backend
	n       int64
	helped  bool // the pool got more even since
}

func newRun(now time.Time, o Order, w Work) *run {
	each := time.Second / time.Duration(o.Rate)
	r := &run{
		order: o, work: w, each: each, last: now,
		accounts: map[*pool.Backend]*account{},
	}
	r.pace(0)
	r.look()
	r.surplus = surplus(r.shares)
	r.least = r.surplus
	r.until = now.Add(longest + 2*time.Duration(r.surplus)*each)
	return r
}

// pace sets the next step, after one whose work took so long.
func (r *run) pace(took time.Duration) {
	r.step = max(shortestStep, r.each+1, min(lookShare*took, longestStep))
}

// turn does what is due, and perhaps finishes.
func (r *run) turn(now time.Time) {
	r.settle(now)
	r.look()
	r.learn()
	r.judge(now)
	if r.finished == "" {
		r.close(now)
	}
}

// look brings the loads and the shares up to date. Who was just closed is on the way
// back, and has a share: without that the others would seem to have too many. So
// there are as many sessions as before, if those account for who is missing.
func (r *run) look() {
	r.loads = r.work.Loads()
	here, away := sessions(r.loads), int64(0)
	for _, b := range r.sent {
		away += b.n
	}
	r.sessions = min(max(r.sessions, here), here+away)
	r.shares = shares(r.loads, r.sessions, r.order.Target)
	for _, l := range r.loads {
		r.account(l).see(l)
	}
}

func (r *run) account(l pool.Load) *account {
	a := r.accounts[l.Backend]
	if a == nil {
		a = &account{first: l}
		r.accounts[l.Backend] = a
	}
	return a
}

// see takes what left since the last look for those that were told to end.
func (a *account) see(l pool.Load) {
	if left := a.departures(l); left > a.left {
		a.ending = max(0, a.ending-(left-a.left))
		a.left = left
	}
}

// departures returns how many sessions left the backend since it was seen first,
// less the dials under way.
func (a *account) departures(l pool.Load) int64 {
	return a.first.Active + l.Total - a.first.Total - l.Active
}

// settle forgets sessions that are gone by now.
func (r *run) settle(now time.Time) {
	r.sent = slices.DeleteFunc(r.sent, func(b batch) bool {
		gone := now.Sub(b.at) >= settleTime
		if gone && !b.helped {
			r.vain += b.n
		}
		return gone
	})
}

// learn notes whether it helped that sessions were closed.
func (r *run) learn() {
	if n := surplus(r.shares); n < r.least {
		r.least, r.vain = n, 0
		for i := range r.sent {
			r.sent[i].helped = true
		}
	}
}

// judge ends the run where there is no sense in going on.
func (r *run) judge(now time.Time) {
	left := surplus(r.shares)
	switch over := r.work.Over(); {
	case over == Removed:
		r.finish(over, "the pool was removed")
	case over != "":
		r.finish(over, "the process ends")
	case left == 0 && len(r.sent) == 0:
		r.finish(Even, fmt.Sprintf("no backend has more than its share and %d %% of it", r.order.Target))
	case r.vain >= r.enough():
		r.finish(Stalled, fmt.Sprintf("clients come back to the same backends: with the last %d that were closed the pool got no more even", r.vain))
	case now.After(r.until):
		r.finish(Late, fmt.Sprintf("%d sessions are still too many", left))
	case r.may() <= 0 && len(r.sent) == 0:
		r.finish(Spent, fmt.Sprintf("as many were closed as were too many at the start; the pool has changed, and %d are too many now", left))
	}
}

func (r *run) finish(s State, reason string) { r.finished, r.reason = s, reason }

// enough is how many may be closed in a row without any good. By chance some come
// back to where they were, as many as their backend gets of all new sessions. Of
// few some are enough; of many, a part. Chosen.
func (r *run) enough() int64 { return min(max(10, r.surplus/4), 100) }

// may returns how many more may be closed: those too many at the start, and those
// that came since to backends that have too many now.
func (r *run) may() int64 {
	n := r.surplus - r.all
	for i, l := range r.loads {
		if r.shares[i].ToClose > 0 {
			n += l.Total - r.account(l).first.Total
		}
	}
	return n
}

// progress puts what there is to tell into p.
func (r *run) progress(p *Progress) {
	p.State = cmp.Or(r.finished, Running)
	p.Reason, p.Surplus, p.Closed, p.Remaining = r.reason, r.surplus, r.all, surplus(r.shares)
	p.Backends = slices.Clone(r.shares)
	for i, l := range r.loads {
		p.Backends[i].Closed = r.account(l).closed
	}
}

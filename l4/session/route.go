package session

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"sluice/pool"
)

// cutShort is the share of connect_timeout below which a dial counts as cut by
// the budget. It is not 1, because after one dial that used its whole timeout
// the rest of the budget is a scheduling delay short of whole timeouts. Chosen,
// not measured.
const cutShort = 0.9

// mostNoted bounds the attempts of a session that is held for long: of more, the
// first and the last are kept. Chosen.
const mostNoted = 40

// Route finds one client a backend: it picks, shares out the dial budget, and
// judges each dial. A session holds one; an HTTP request through /proxy uses
// one alone. It is not safe for concurrent use and must not be copied once
// Start was called.
type Route struct {
	pool     *pool.Pool
	set      *Settings
	client   netip.Addr
	lease    *pool.Lease
	avoid    []*pool.Backend
	attempts []Attempt
	tried    int           // attempts since it began, or began anew after it was held
	first    time.Time     // of the first pick, later by what was waited since
	from     time.Time     // the same for the first of these attempts
	eligible int           // backends there were then
	started  time.Time     // of the attempt under way
	timeout  time.Duration // of its dials
	lookup   time.Duration // what the look-up before them took
	waited   waited        // in the queue of the pool
	own      pool.Lease    // the lease of a route that is used alone
	one      [1]Attempt    // holds attempts while there is one
}

// Try is the next backend to dial, and until when. Without a backend it is to
// wait for one: see Queue.
type Try struct {
	Backend  *pool.Backend
	Deadline time.Time
}

// Start prepares the route. set must not change while the route is in use;
// client is the zero Addr if it has no address.
func (r *Route) Start(p *pool.Pool, set *Settings, client netip.Addr) {
	r.start(p, set, client, &r.own)
}

// start prepares a route that fills somebody else's lease.
func (r *Route) start(p *pool.Pool, set *Settings, client netip.Addr, l *pool.Lease) {
	r.pool, r.set, r.client, r.lease = p, set, client, l
	r.attempts = r.one[:0]
}

// Next picks a backend that was not tried yet and reserves it; Dialed or Cancel
// must follow. A cause other than "" means that there is none: the route is over,
// unless it Queues.
func (r *Route) Next(now time.Time) (Try, Cause) {
	if r.first.IsZero() {
		r.first, r.from, r.eligible = now, now, r.pool.Eligible()
	}
	r.waited.worth = false
	if r.tried >= r.set.Attempts || r.left(now) <= 0 {
		r.exhausted()
		return Try{}, ConnectFailed
	}
	err := r.pool.Acquire(r.lease, r.query())
	if err != nil {
		r.waited.worth = err == pool.ErrFull || r.holds()
		return Try{}, r.none(err)
	}
	return r.try(now), ""
}

func (r *Route) query() pool.Query { return pool.Query{Client: r.client, Avoid: r.avoid} }

// left returns what is left of the budget.
func (r *Route) left(now time.Time) time.Duration { return r.from.Add(r.set.DialBudget).Sub(now) }

// try begins an attempt with the backend of the lease.
func (r *Route) try(now time.Time) Try {
	r.started, r.lookup = now, 0
	r.timeout = min(r.set.ConnectTimeout, r.left(now)/time.Duration(r.candidates()))
	return Try{r.lease.Backend(), now.Add(r.timeout)}
}

// none returns the cause for a pick that found nothing.
func (r *Route) none(err error) Cause {
	switch {
	case err == pool.ErrLate:
		return QueueTimeout
	case err == pool.ErrHeldLate:
		return HoldTimeout
	case len(r.attempts) > 0:
		return ConnectFailed
	case errors.Is(err, pool.ErrFull):
		return BackendLimit
	}
	return NoBackend
}

// candidates returns how many backends the rest of the budget is for, the one
// just picked included. It counts those of the first pick: the pool may have
// taken out the ones that failed since, so what is eligible now says too little.
func (r *Route) candidates() int {
	return max(1, min(r.set.Attempts, r.eligible)-r.tried)
}

// resolved says that the dials start only now: a backend is not to blame for
// the time that its name took.
func (r *Route) resolved(now time.Time) {
	r.lookup = now.Sub(r.started)
	r.timeout -= r.lookup
}

// measure notes with the backend how long the dial took that is over.
func (r *Route) measure(now time.Time) {
	r.lease.Backend().Dialed(now.Sub(r.started) - r.lookup)
}

// Dialed says how the dial of the last Try ended, and answers whether to call
// Next again. If not, either err was nil and the lease is connected, or the
// cause says why the route is over.
func (r *Route) Dialed(now time.Time, err error) (again bool, c Cause) {
	if err == nil {
		r.note(now, "")
		r.lease.Connected()
		return false, ""
	}
	return r.failed(now, FaultOf(err), err)
}

// failed ends the attempt under way with a fault.
func (r *Route) failed(now time.Time, f Fault, err error) (again bool, c Cause) {
	r.note(now, f.Word)
	r.avoid = append(r.avoid, r.lease.Backend())
	switch {
	case f.Blame == OnBackend && !r.cut(f):
		r.lease.Failed(f.Word, err)
	case f.Word != diverted.Word:
		r.lease.Backend().NoteDial(f.Word, err)
	}
	r.lease.Release()
	if f.Blame == OnUs {
		return false, LocalFault
	}
	return true, ""
}

// cut reports whether the budget or a look-up, not the backend, ended the dial.
func (r *Route) cut(f Fault) bool {
	return f.Word == "timeout" && float64(r.timeout) < cutShort*float64(r.set.ConnectTimeout)
}

// Cancel gives up the dial under way, or the place in the queue, because the
// client left or an order came. It counts against nobody. Without either it does
// nothing.
func (r *Route) Cancel(now time.Time) {
	if r.waited.in {
		r.waited.place.Leave()
		r.leaveQueue(now)
	}
	if r.lease.Backend() == nil {
		return
	}
	r.note(now, "canceled")
	r.lease.Release()
}

func (r *Route) note(now time.Time, word string) {
	a := Attempt{r.lease.Backend().ID(), word, now.Sub(r.started)}
	if r.tried++; len(r.attempts) == mostNoted {
		r.attempts = slices.Delete(r.attempts, mostNoted/2, mostNoted/2+1)
	}
	r.attempts = append(r.attempts, a)
}

// Lease returns the lease, which holds a backend from Next to a failed Dialed,
// to Cancel, or to its own release.
func (r *Route) Lease() *pool.Lease { return r.lease }

// Attempts returns the dials that are over. The slice belongs to the route.
func (r *Route) Attempts() []Attempt { return r.attempts }

// TimedOut reports whether the last dial ran out of time.
func (r *Route) TimedOut() bool { return timedOut(r.attempts) }

// Package rebalance moves sessions on from backends that have more than their
// share: it closes some, and their clients come back to wherever new sessions go.
//
// It owns the arithmetic of shares ([Shares]), the pace at which sessions are
// closed and when to stop ([Desk] runs that in the background, one at a time for
// each pool). It neither picks the sessions nor ends them, and knows no HTTP: it
// works through the funcs of [Work].
//
//	Loads --> Shares --> surplus of each backend
//	                         |
//	            rate, bound  v
//	                     Work.End: the idlest of them
//	                         |
//	            clients      v
//	        come back ... to Loads
//
// Invariants:
//
//   - It never closes more sessions than were too many at the start, and those that
//     came to the same backends meanwhile.
//   - It ends by itself: when the pool is even, when closing does not help, when
//     nobody is idle enough, when it takes too long.
//   - A session that was told to end may be counted until its linger is over; it is
//     not taken for one too many again.
package rebalance

import (
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// Order is what a rebalance is to do. Zero MinAge and MinIdle protect nobody.
type Order struct {
	Rate    int           // sessions a second, at least 1
	Target  int           // percent above its fair share that a backend may keep
	MinAge  time.Duration // younger sessions are left alone
	MinIdle time.Duration // and those that moved something within this time
}

// Work are the funcs through which a rebalance sees and acts. All are required, and
// called by one goroutine at a time.
type Work struct {
	Loads func() []pool.Load
	// End ends those n of the sessions that m matches that are idle for the longest,
	// and returns how many that were.
	End func(m session.Match, n int) int
	// Over returns Removed or Shutdown once there is no sense in going on, else "".
	Over func() State
}

// State is how a rebalance goes.
type State string

// The states. All but Planned and Running are ends.
const (
	Planned  State = "planned"  // a dry run: nothing was done
	Running  State = "running"  // sessions are being closed
	Even     State = "even"     // no backend has more than the target allows
	Stalled  State = "stalled"  // closing does not help: clients come back to the same backends
	Busy     State = "busy"     // nobody is idle or old enough
	Spent    State = "spent"    // as many were closed as it may, and the pool is not even
	Late     State = "late"     // it took too long
	Stopped  State = "stopped"  // by an operator
	Removed  State = "removed"  // the pool was removed
	Shutdown State = "shutdown" // the process ends
)

// Progress is a rebalance at one moment: plain values, as the API shows them.
type Progress struct {
	Pool      string    `json:"pool"`
	State     State     `json:"state"`
	Reason    string    `json:"reason,omitempty"` // of an end
	By        string    `json:"by,omitempty"`     // who asked for it
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Rate      int       `json:"rate"`
	Target    int       `json:"target"`
	MinAge    string    `json:"min_age"`
	MinIdle   string    `json:"min_idle"`
	Surplus   int64     `json:"surplus"`   // sessions too many at the start
	Closed    int64     `json:"closed"`    // so far
	Remaining int64     `json:"remaining"` // sessions too many now
	Backends  []Share   `json:"backends"`  // in order of registration
}

// Foresee returns the progress of a rebalance that has not begun.
func Foresee(name string, loads []pool.Load, o Order) Progress {
	p := Progress{
		Pool: name, State: Planned, Rate: o.Rate, Target: o.Target,
		MinAge: o.MinAge.String(), MinIdle: o.MinIdle.String(),
		Backends: Shares(loads, o.Target),
	}
	p.Surplus = surplus(p.Backends)
	p.Remaining = p.Surplus
	return p
}

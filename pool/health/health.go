// Package health decides from active probes which backends are up.
//
// A [Monitor] visits every backend that its pool wants probed, each on its own
// schedule, and tells the pool what follows. It owns schedules and streaks of
// results; the verdicts themselves belong to the pool. It does not know sockets
// or protocols: those are in the [Probe] that it is given, such as [TCP],
// [Ask] and [HTTP]. Probes that need a library are packages of their own below
// this one: redis, postgres and mysql.
//
//	Run -- one goroutine per backend: probe, judge, pool.SetHealth, wait
//	        ^ Sync: the pool's membership changed
//	        ^ Suspect: a dial failed, probe now
//
// Invariants:
//
//   - No backend is probed twice at the same time.
//   - No lock is held during a probe.
//   - Nothing runs any more when Run has returned, what probes left for
//     [Afterwards] included.
package health

import (
	"context"
	"errors"
	"time"

	"sluice/pool"
)

// ErrNoEvidence is wrapped by the error of a probe that failed for want of
// something on our side, descriptors say. It makes no verdict, and does not
// count: else a busy balancer would take healthy backends out.
var ErrNoEvidence = errors.New("says nothing about the backend")

// Probe is one active check of one target. It returns nil if the backend is
// fit for new sessions, and must return soon after ctx ends. See ErrNoEvidence.
type Probe func(ctx context.Context, t Target) error

// Policy is how often to probe and how many results make a verdict.
type Policy struct {
	Interval     time.Duration // between probes of a backend that is up
	DownInterval time.Duration // between probes of one that is down
	Timeout      time.Duration // of one probe; 0 means none
	Rise, Fall   int           // passes that bring back, failures that take out; at least 1
}

// shortestGap bounds the rate of probes whatever the policy says. Chosen: a
// hundred times shorter than the shortest interval that makes sense.
const shortestGap = time.Millisecond

// gap is the time from the start of one probe to the next, if all goes well.
func (p Policy) gap(h pool.Health) time.Duration {
	if h == pool.Down {
		return max(p.DownInterval, shortestGap)
	}
	return max(p.Interval, shortestGap)
}

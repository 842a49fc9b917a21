// Package outlier ejects backends whose sessions go far worse than those of the
// others in their pool, for some time and whatever their probes say.
//
// A [Detector] looks at the counts of one pool in intervals. What a session was
// worth is judged where it ends, and counted by the pool; who may be ejected, and
// for how long, is the pool's business too: see [pool.Ejection]. This package
// decides from the counts of one interval who stands out, by two signs:
//
//	failed sessions   the backend reset them soon after the connect, or ended them
//	                  first without a byte to the client: at least a share of all,
//	                  and twice what is usual among the others
//	dial time         the mean: many times what is usual among the others
//
// Usual is the median of the others. Where all do badly nobody stands out: it is
// the clients, or the network. A backend that had all the sessions has nobody to
// be compared with, and its failed sessions speak for themselves: to try another
// costs nothing then.
//
// Envoy's outlier detection is the model, with its interval, least number of
// requests, budget and growing time. It knows more of each request (HTTP status),
// compares by the standard deviation, or not at all (failure_percentage), and
// knows neither resets nor empty sessions of TCP, nor dial time.
//
// Invariants: nothing is kept but the counts of the last look, no lock is held
// while the pool is asked or told, and nothing runs any more when Run has returned.
package outlier

import (
	"context"
	"sync"
	"time"

	"sluice/pool"
)

// Policy is what makes a backend an outlier, and what follows.
type Policy struct {
	Interval     time.Duration // whose sessions are judged together; more than 0
	MinSessions  int           // of a backend in an interval, and dials: with fewer there is no judgement; at least 1
	FailureShare int           // percent of the sessions; 0: they are not looked at
	DialFactor   int           // of the dial time in those of the others; 0: it is not looked at

	MaxEjected         int           // percent of the members
	EjectFor, EjectMax time.Duration // see [pool.Ejection]
}

// Detector judges the backends of one pool. Safe for concurrent use.
type Detector struct {
	pool    *pool.Pool
	changed chan struct{} // holds a token while the policy is to be read again

	mu     sync.Mutex // guards policy
	policy Policy
}

// New returns a detector that has not started.
func New(p *pool.Pool, pol Policy) *Detector {
	return &Detector{pool: p, changed: make(chan struct{}, 1), policy: pol}
}

// Use changes the policy. The interval under way goes on with it.
func (d *Detector) Use(pol Policy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.policy = pol
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *Detector) using() Policy {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.policy
}

// Run judges until ctx ends. It is called once. What is ejected then stays so:
// see [pool.Pool.EndEjections].
func (d *Detector) Run(ctx context.Context) {
	began, last := time.Now(), d.look()
	for {
		over := time.NewTimer(time.Until(began.Add(d.using().Interval)))
		select {
		case <-ctx.Done():
			over.Stop()
			return
		case <-d.changed:
			over.Stop()
		case <-over.C:
			began = time.Now()
			last = d.act(last)
		}
	}
}

// look returns the counts so far.
func (d *Detector) look() map[*pool.Backend]pool.Tally {
	counts := make(map[*pool.Backend]pool.Tally)
	for _, t := range d.pool.Tallies() {
		counts[t.Backend] = t
	}
	return counts
}

// act ejects who stood out since the last look, and returns the new one.
func (d *Detector) act(last map[*pool.Backend]pool.Tally) map[*pool.Backend]pool.Tally {
	pol, now := d.using(), d.look()
	var list []pool.Tally
	for b, t := range now {
		if before, ok := last[b]; ok && before.InUse {
			list = append(list, since(t, before))
		}
	}
	for _, f := range judge(list, pol) {
		d.pool.Eject(f.backend, pool.Ejection{For: pol.EjectFor, Most: pol.EjectMax, Budget: pol.MaxEjected, Reason: f.reason})
	}
	return now
}

// since returns what was counted between two looks.
func since(t, before pool.Tally) pool.Tally {
	t.Sessions -= before.Sessions
	t.Early -= before.Early
	t.Empty -= before.Empty
	t.Dials -= before.Dials
	t.DialTime -= before.DialTime
	return t
}

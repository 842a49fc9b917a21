package pool

import (
	"fmt"
	"time"
)

// Panic says that a pool began, or ended, to use all its backends whatever is
// known of them, since too few are up: see Policy.TryAll and PanicBelow.
type Panic struct {
	At     time.Time
	Pool   string
	On     bool
	Reason string // how many are up
}

// census counts the members that an operator lets sessions in to.
type census struct {
	wanted int
	known  int // of them, those that do not wait for their first probe result
	fit    int
}

func (p *Pool) censusLocked() (c census) {
	for _, e := range p.roster.entries {
		if !e.wanted() {
			continue
		}
		c.wanted++
		fit := e.fit(p.policy)
		if fit {
			c.fit++
		}
		if fit || !p.policy.Probed || e.Health() != Unknown {
			c.known++
		}
	}
	return c
}

// all reports whether every member is to be used.
func (c census) all(pol Policy) bool { return pol.TryAll && c.fit == 0 || c.panics(pol) }

// panics reports whether that is because of what is known of them. As with
// Envoy's panic threshold, too few that are up are believed to be the fault of
// the probes, or to break down under the load of all; there the default is 50 %,
// and here none.
func (c census) panics(pol Policy) bool {
	return pol.TryAll && c.known > 0 && (c.fit == 0 || c.fit*100 < pol.PanicBelow*c.known)
}

func (c census) String() string {
	return fmt.Sprintf("%d of %s up", c.fit, count(int64(c.known), "backend"))
}

// alarmLocked tells where a panic begins or ends.
func (p *Pool) alarmLocked(c census) {
	on := c.panics(p.policy)
	if on == p.panics {
		return
	}
	p.panics = on
	if p.hooks.Panicked == nil {
		return
	}
	a := Panic{At: time.Now(), Pool: p.name, On: on, Reason: c.String()}
	p.news.queue = append(p.news.queue, func() { p.hooks.Panicked(a) })
}

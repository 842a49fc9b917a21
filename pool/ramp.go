package pool

import "time"

// rampSteps is how many equal steps a slow start takes. Chosen: each is a new
// snapshot, and a newcomer's share grows by a sixteenth of its weight.
const rampSteps = 16

// shortestStep bounds the rate of these snapshots. Measured: the longest schedule
// of round_robin takes 17 ms to build.
const shortestStep = 100 * time.Millisecond

// ramp is how a member gets its share. It starts slowly when it comes up after
// it was down or in maintenance, or when it joins a pool that runs already; not
// with the pool: then somebody has to take the load.
type ramp struct {
	cold  bool // the next time up is a slow start
	up    bool // at the last publication
	began time.Time
	step  int // of rampSteps; 0: it has its full share
}

// starting reports whether the member has less than its full share.
func (r *ramp) starting() bool { return r.step > 0 }

// pace brings the ramp up to date.
func (r *ramp) pace(up bool, window time.Duration, now time.Time) {
	switch {
	case !up:
		r.cold, r.step = r.cold || r.up, 0
	case r.cold:
		r.cold, r.began, r.step = false, now, 1
	}
	r.up = up
	if !r.starting() {
		return
	}
	if gone := now.Sub(r.began); gone >= window {
		r.step = 0
	} else {
		r.step = max(1, int(gone*rampSteps/window))
	}
}

// paceLocked brings all ramps up to date, and sees to it that this happens again
// while there are any.
func (p *Pool) paceLocked() {
	now, starting := time.Now(), false
	for _, e := range p.roster.entries {
		e.ramp.pace(e.admin != Maint && e.fit(p.policy), p.policy.SlowStart, now)
		starting = starting || e.ramp.starting()
	}
	switch {
	case starting && p.pacer == nil:
		var t *time.Timer
		t = time.AfterFunc(p.stride(), func() { p.paceAgain(&t) })
		p.pacer = t
	case !starting:
		p.stopPacer()
	}
}

// stride is the length of a step, rounded up: after all of them the window is
// over.
func (p *Pool) stride() time.Duration {
	return max(shortestStep, (p.policy.SlowStart+rampSteps-1)/rampSteps)
}

// paceAgain is called by the timer *t, which is read under the mutex that its
// starter holds until it is set.
func (p *Pool) paceAgain(t **time.Timer) {
	p.mu.Lock()
	defer p.unlock()
	if p.pacer != *t || p.pacer == nil {
		return // stopped too late
	}
	p.pacer = nil
	p.publishLocked()
}

func (p *Pool) stopPacer() {
	if p.pacer != nil {
		p.pacer.Stop()
		p.pacer = nil
	}
}

// scaleLocked is what all weights are multiplied by, so that the smallest that
// starts can grow in whole steps. It is no more than that needs: weights make
// the schedules of round_robin long.
func (p *Pool) scaleLocked() int {
	scale := 1
	for _, e := range p.roster.entries {
		if e.ramp.starting() && e.weight > 0 {
			scale = max(scale, (rampSteps+e.weight-1)/e.weight)
		}
	}
	return scale
}

// of returns the part of a weight that a member has now.
func (r *ramp) of(weight float64) float64 {
	if !r.starting() {
		return weight
	}
	return weight * float64(r.step) / rampSteps
}

// share returns the part of full that a member has now, at least 1.
func (r *ramp) share(full int) int {
	if !r.starting() {
		return full
	}
	return max(1, full*r.step/rampSteps)
}

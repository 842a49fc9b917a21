package pool

import (
	"fmt"
	"time"
)

// A backend that goes down again soon after it came back flaps, and is held out:
// each repeat doubles the time. All three are the specification's.
const (
	flapSpan = 5 * time.Minute // down again within this of coming back is a repeat
	holdMin  = time.Second
	holdMax  = time.Minute
)

// flap is what is remembered of how steady a member is, and its hold.
type flap struct {
	fallen  bool      // it has been down
	back    time.Time // when it last came back; zero: never
	found   string    // the evidence for that
	repeats int       // times in a row that it went down soon after
	until   time.Time // end of the hold; zero: none
	timer   *time.Timer
}

// fell notes that the member went down, and returns what that means for the
// evidence.
func (f *flap) fell(now time.Time) (more string) {
	f.fallen = true
	if f.back.IsZero() || now.Sub(f.back) >= flapSpan {
		f.repeats = 0
		return ""
	}
	f.repeats++
	hold := holdMax
	if doublings := f.repeats - 1; doublings < 6 { // 2^6 s is more than holdMax
		hold = holdMin << doublings
	}
	f.until = now.Add(hold)
	return fmt.Sprintf("; held out for %s, since it went down %s soon after it had come back", hold, times(f.repeats))
}

// rose notes that the member was found up, and returns what that means for the
// evidence.
func (f *flap) rose(found string, now time.Time) (more string) {
	if f.fallen {
		f.back, f.found = now, found
	}
	if !f.held() {
		return ""
	}
	return fmt.Sprintf("; held out for another %s", f.until.Sub(now).Round(time.Millisecond))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times in a row", n)
}

func (f *flap) held() bool { return !f.until.IsZero() }

// holdLocked makes the timer of a hold run as long as the hold.
func (p *Pool) holdLocked(e *entry) {
	e.stopHold()
	if !e.flap.held() {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(time.Until(e.flap.until), func() { p.holdOver(e, &t) })
	e.flap.timer = t
}

// holdOver is called by the timer *t, which is read under the mutex that its
// starter holds until it is set.
func (p *Pool) holdOver(e *entry, t **time.Timer) {
	p.mu.Lock()
	defer p.unlock()
	if e.flap.timer != *t || e.flap.timer == nil {
		return // stopped too late
	}
	p.letInLocked(e, "its hold is over")
	p.publishLocked()
}

// letInLocked ends a hold. What comes of it is what the probes have found.
func (p *Pool) letInLocked(e *entry, why string) {
	from := e.summary(p.policy)
	e.stopHold()
	e.flap.until = time.Time{}
	if to := e.summary(p.policy); to != from {
		e.flap.back = time.Now()
		p.tellLocked(e, from, to, e.flap.found+"; "+why)
	}
}

func (e *entry) stopHold() {
	if e.flap.timer != nil {
		e.flap.timer.Stop()
		e.flap.timer = nil
	}
}

// relentLocked ends the holds of a pool that could use nobody else: refusing
// everybody helps nobody.
func (p *Pool) relentLocked() {
	if first(p.roster.entries, p.worksLocked) != nil {
		return
	}
	for _, e := range p.roster.entries {
		switch {
		case !e.wanted() || !e.flap.held():
		case e.healthy(p.policy):
			p.letInLocked(e, "its hold ends early, since no other backend works")
		case !p.policy.Probed:
			e.stopHold()
			e.flap.until = time.Time{}
			e.stopRetry()
			p.retryLocked(e)
		}
	}
}

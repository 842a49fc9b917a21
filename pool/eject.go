package pool

import (
	"fmt"
	"time"
)

// Ejection is an order to give a backend no new sessions for some time, because
// of how those that it had went. It is a passive sign: probes that pass do not
// end it, no session is ended for it, and it never takes the last one out.
//
// The time grows as in Envoy's outlier detection: that of the first times how
// many there were in a row, up to a most. There a backend earns one time back with
// each interval that it is good; here all are forgotten once it was good for as
// long as the most, which needs no count of intervals.
type Ejection struct {
	For    time.Duration // the first time
	Most   time.Duration // at least For
	Budget int           // percent of the members that may be ejected at the same time: see allowance
	Reason string        // the evidence
}

// ejection is what is remembered of the times that a member was ejected.
type ejection struct {
	until time.Time // zero: it is not ejected
	row   int       // times in a row
	most  time.Duration
	over  time.Time // when the last ended; zero: never
	timer *time.Timer
	told  LastChange // of the last
}

func (x *ejection) on() bool { return !x.until.IsZero() }

// begin starts the next time, and returns how long it is.
func (x *ejection) begin(o Ejection, now time.Time) time.Duration {
	if now.Sub(x.over) >= x.most {
		x.row = 0
	}
	x.row++
	x.most = o.Most
	long := o.Most
	if o.For < o.Most/time.Duration(x.row) { // a product of the two might be too large
		long = o.For * time.Duration(x.row)
	}
	x.until = now.Add(long)
	return long
}

// end ends it, without a word on what comes of that.
func (x *ejection) end(now time.Time) {
	x.stop()
	x.until, x.over = time.Time{}, now
}

// still says for how long it goes on, if it does.
func (x *ejection) still(now time.Time) string {
	if !x.on() {
		return ""
	}
	return fmt.Sprintf("; ejected for another %s", x.until.Sub(now).Round(time.Millisecond))
}

func (x *ejection) stop() {
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
}

// Eject carries out the order, and reports whether it did. It does not where b is
// in no use anyway, where as many are ejected as may be, and where too few would
// be left: nobody, fewer of its tier than keep backups out, or so few that all
// would be tried. In a pool with Policy.Single it never does: passive signs do not
// choose the primary.
func (p *Pool) Eject(b *Backend, o Ejection) bool {
	p.mu.Lock()
	defer p.unlock()
	e := p.roster.of(b)
	if e == nil || !p.sparesLocked(e, o.Budget) {
		return false
	}
	from := e.summary(p.policy)
	long := e.out.begin(o, time.Now())
	e.ejections.Add(1)
	reason := fmt.Sprintf("%s; ejected for %s", o.Reason, long)
	if e.out.row > 1 {
		reason += ", since it is the " + ordinal(e.out.row) + " time in a row"
	}
	e.out.told = LastChange{time.Now(), reason}
	p.ejectedLocked(e)
	p.tellLocked(e, from, e.summary(p.policy), reason)
	p.publishLocked()
	return true
}

// sparesLocked reports whether the pool can do without a member.
func (p *Pool) sparesLocked(e *entry, budget int) bool {
	if !p.worksLocked(e) || p.policy.Single { // a passive sign must not choose another
		return false
	}
	var ejected, tier int
	for _, o := range p.roster.entries {
		switch {
		case o.wanted() && o.out.on():
			ejected++
		case o != e && o.spec.Backup == e.spec.Backup && p.worksLocked(o):
			tier++
		}
	}
	c := p.censusLocked()
	c.fit--
	return ejected < allowance(c.wanted, budget) && tier >= max(1, p.policy.BackupMin) && !c.panics(p.policy)
}

// worksLocked reports whether a member is one to rely on: a suspect is in use
// only because it is the last.
func (p *Pool) worksLocked(e *entry) bool {
	return e.wanted() && e.fit(p.policy) && !e.suspect.Load()
}

// allowance is how many of n members a budget in percent lets be ejected. It is
// at least one, unless the budget is 0: in a small pool a part of a backend would
// be none, as Envoy found (always_eject_one_host).
func allowance(n, percent int) int {
	if percent == 0 {
		return 0
	}
	return max(1, n*percent/100)
}

// ejectedLocked makes the timer of an ejection run as long as that lasts.
func (p *Pool) ejectedLocked(e *entry) {
	e.out.stop()
	if e.out.on() && !time.Now().Before(e.out.until) { // it was no member meanwhile
		e.out.end(e.out.until)
	}
	if !e.out.on() {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(time.Until(e.out.until), func() { p.ejectionOver(e, &t) })
	e.out.timer = t
}

// ejectionOver is called by the timer *t, which is read under the mutex that its
// starter holds until it is set.
func (p *Pool) ejectionOver(e *entry, t **time.Timer) {
	p.mu.Lock()
	defer p.unlock()
	if e.out.timer != *t || e.out.timer == nil {
		return // stopped too late
	}
	p.readmitEjectedLocked(e, "its ejection is over")
	p.publishLocked()
}

// readmitEjectedLocked ends an ejection, if there is one. What comes of it is
// what the probes have found.
func (p *Pool) readmitEjectedLocked(e *entry, why string) {
	if !e.out.on() {
		return
	}
	from := e.summary(p.policy)
	e.out.end(time.Now())
	if to := e.summary(p.policy); to != from {
		p.tellLocked(e, from, to, why)
	}
}

// EndEjections lets all that are ejected back in, and forgets how often they were.
func (p *Pool) EndEjections(why string) {
	p.mu.Lock()
	defer p.unlock()
	for _, e := range p.roster.entries {
		p.forgiveLocked(e, why)
	}
	p.publishLocked()
}

// forgiveLocked ends an ejection, if there is one, and forgets all there were.
func (p *Pool) forgiveLocked(e *entry, why string) {
	p.readmitEjectedLocked(e, why)
	e.out = ejection{}
}

// pardonLocked ends the ejections of a pool in which nobody else works: refusing
// everybody helps nobody.
func (p *Pool) pardonLocked() {
	if first(p.roster.entries, p.worksLocked) != nil {
		return
	}
	for _, e := range p.roster.entries {
		p.readmitEjectedLocked(e, "its ejection ends early, since no other backend works")
	}
}

// ordinal returns the word for the nth, n being at least 2.
func ordinal(n int) string {
	if n%100/10 != 1 {
		switch n % 10 {
		case 1:
			return fmt.Sprintf("%dst", n)
		case 2:
			return fmt.Sprintf("%dnd", n)
		case 3:
			return fmt.Sprintf("%drd", n)
		}
	}
	return fmt.Sprintf("%dth", n)
}

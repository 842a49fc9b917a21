package pool

import (
	"fmt"
	"time"
)

// SetHealth records a verdict with its evidence and reports whether it changed
// anything. A verdict on a backend that was removed changes nothing. That one which
// counts as down from the start is down is told the first time.
func (p *Pool) SetHealth(b *Backend, h Health, reason string) bool {
	p.mu.Lock()
	defer p.unlock()
	e := p.roster.of(b)
	if e == nil {
		return false
	}
	if e.Health() == h {
		p.stillDownLocked(e, h, reason)
		return false
	}
	p.judgeLocked(e, h, reason)
	p.publishLocked()
	return true
}

// stillDownLocked tells, once, what keeps a member down that has been so since it
// was configured (InitDown): until then nothing says why.
func (p *Pool) stillDownLocked(e *entry, h Health, reason string) {
	if h != Down || e.verdict.Reason != "" {
		return
	}
	e.verdict = LastChange{time.Now(), reason}
	state := e.summary(p.policy)
	p.tellLocked(e, state, state, reason)
}

// judgeLocked changes the health of a member. Coming back is a fresh start: the
// failures that took it out do not count again.
func (p *Pool) judgeLocked(e *entry, h Health, reason string) {
	from := e.summary(p.policy)
	if h == Down && e.Health() != Down {
		p.fellLocked(e)
	}
	e.health.Store(int32(h))
	e.waits = false
	switch h {
	case Up:
		e.succeeded()
		reason += e.flap.rose(reason, time.Now()) + e.out.still(time.Now())
	case Down:
		reason += e.flap.fell(time.Now())
		p.holdLocked(e)
	}
	e.verdict = LastChange{time.Now(), reason}
	p.retryLocked(e)
	p.tellLocked(e, from, e.summary(p.policy), reason)
}

// failed draws the consequences of a failed dial. Its suspicion comes last, so
// that the probe it causes finds the backend as it is now.
func (p *Pool) failed(b *Backend, onTrial bool, reason string, err error) {
	limit := int64(p.current.Load().policy.MaxFailures)
	if onTrial || limit > 0 && b.streak.Load() >= limit && b.Health() != Down {
		p.afterFailure(b, onTrial, fmt.Sprintf("%s: %v", reason, err))
	}
	if p.hooks.Suspected != nil {
		p.hooks.Suspected(b)
	}
}

func (p *Pool) afterFailure(b *Backend, onTrial bool, last string) {
	p.mu.Lock()
	defer p.unlock()
	e := p.triedLocked(b, onTrial)
	if e == nil {
		return
	}
	p.retryLocked(e)
	p.takeOutLocked(e, last)
	p.publishLocked()
}

// triedLocked ends the trial of a backend whose dial is over, and returns its
// entry; nil if it is no member any more.
func (p *Pool) triedLocked(b *Backend, onTrial bool) *entry {
	if onTrial {
		b.trial.Store(trialNone)
	}
	return p.roster.of(b)
}

// takeOutLocked ends the use of a backend whose dials keep failing. The last
// one that the pool could use stays: refusing everybody helps nobody.
func (p *Pool) takeOutLocked(e *entry, last string) {
	n, limit := e.streak.Load(), int64(p.policy.MaxFailures)
	if limit == 0 || n < limit || e.Health() == Down {
		return
	}
	if p.current.Load().others(e.Backend) == 0 {
		e.suspect.Store(true)
		return
	}
	e.suspect.Store(false)
	p.judgeLocked(e, Down, fmt.Sprintf("%s in a row, the last: %s", count(n, "failure"), last))
}

// proved draws the consequences of a dial that succeeded although the backend
// was down. With probes it proves nothing: they decide.
func (p *Pool) proved(b *Backend, onTrial bool) {
	if p.current.Load().policy.Probed && !onTrial {
		return
	}
	p.mu.Lock()
	defer p.unlock()
	e := p.triedLocked(b, onTrial)
	if e == nil {
		return
	}
	if e.Health() == Down && !p.policy.Probed {
		reason := "a dial succeeded"
		if onTrial {
			reason = "the dial of its trial session succeeded"
		}
		p.judgeLocked(e, Up, reason)
	}
	p.publishLocked()
}

// onTrialLocked reports whether a member is to be had by one trial session.
func (p *Pool) onTrialLocked(e *entry) bool {
	return e.Health() == Down && !p.policy.Probed && !e.out.on() && e.trial.Load() != trialNone
}

// retryLocked makes the retry timer of a member fit its state: it runs while the
// member is down, no probe will bring it back, and no trial is open or taken. It
// is not shorter than a hold.
func (p *Pool) retryLocked(e *entry) {
	if e.Health() != Down || p.policy.Probed {
		e.stopRetry()
		e.trial.CompareAndSwap(trialOpen, trialNone)
		return
	}
	if e.retry != nil || e.trial.Load() != trialNone {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(max(p.policy.RetryAfter, time.Until(e.flap.until)), func() { p.openTrial(e, &t) })
	e.retry = t
}

// openTrial is called by the timer *t, which is read under the mutex that its
// starter holds until it is set.
func (p *Pool) openTrial(e *entry, t **time.Timer) {
	p.mu.Lock()
	defer p.unlock()
	if e.retry != *t || e.retry == nil {
		return // stopped too late
	}
	e.retry = nil
	if e.trial.CompareAndSwap(trialNone, trialOpen) {
		e.events.note(EventTrial, "one session may try whether it is back")
	}
	p.publishLocked()
}

func (e *entry) stopRetry() {
	if e.retry != nil {
		e.retry.Stop()
		e.retry = nil
	}
}

// Probed returns the backends that active probes should visit now: all members
// but those in maint. Empty unless the policy says Probed.
func (p *Pool) Probed() (bs []*Backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.policy.Probed {
		return nil
	}
	for _, e := range p.roster.entries {
		if e.admin != Maint {
			bs = append(bs, e.Backend)
		}
	}
	return bs
}

// Settled reports whether no backend still waits for the first probe result
// that its policy (InitProbe) makes it wait for.
func (p *Pool) Settled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.policy.Probed || p.policy.Init != InitProbe ||
		first(p.roster.entries, func(e *entry) bool { return e.waits && e.admin != Maint }) == nil
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

package pool

// Apply makes the file's view c current. Backends added by the API stay; values
// set by the API stand until the file's own value of that key changes. It
// returns what changed.
func (p *Pool) Apply(c Config) []Edit {
	p.mu.Lock()
	defer p.unlock()
	d := p.compareLocked(c)
	d.carryOut()
	if len(d.steps) > 0 {
		p.publishLocked()
	}
	return d.edits()
}

// adoptLocked gives every member what the new policy makes of its state, which is
// kept: the timers, and the summary.
func (p *Pool) adoptLocked(pol Policy) {
	old := p.policy
	p.policy = pol
	if old.SlowStart != pol.SlowStart {
		p.stopPacer()
	}
	for _, e := range p.roster.entries {
		if old.RetryAfter != pol.RetryAfter {
			e.stopRetry()
		}
		p.retryLocked(e)
		p.greetLocked(e)
		if from, to := e.summary(old), e.summary(pol); from != to {
			p.tellLocked(e, from, to, "the file's policy changed")
		}
	}
	if old.DrainFor != pol.DrainFor {
		p.redrainLocked()
	}
	if old.Probed != pol.Probed {
		p.tellMembersLocked()
	}
}

// takeOver makes s the file's entry, and each value of it that changed the one in
// force; an override of a value that did not change stands.
func (e *entry) takeOver(s Spec) {
	weight, most := e.weight, e.maxSessions
	if e.spec.Weight != s.Weight {
		weight = s.Weight
	}
	if e.spec.MaxSessions != s.MaxSessions {
		most = s.MaxSessions
	}
	e.become(weight, most, "the file")
	e.greets.Store(int32(s.SendProxy))
	e.fromFile, e.spec = true, s
}

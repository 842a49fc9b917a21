package pool

import "fmt"

// Apply makes the file's view c current. Backends added by the API stay; values
// set by the API stand until the file's own value of that key changes. It
// returns one line for each thing that changed, for the reload's answer.
func (p *Pool) Apply(c Config) (changes []string) {
	p.mu.Lock()
	defer p.unlock()
	r := reload{p: p}
	r.strategy(c.Strategy)
	r.policy(c.Policy)
	r.removals(c.Backends)
	for _, s := range c.Backends {
		r.backend(s)
	}
	if len(r.lines) > 0 {
		p.publishLocked()
	}
	return r.lines
}

// reload is one Apply. Its methods need the pool's mutex.
type reload struct {
	p     *Pool
	lines []string
}

func (r *reload) say(format string, args ...any) {
	r.lines = append(r.lines, "pool "+r.p.name+": "+fmt.Sprintf(format, args...))
}

func (r *reload) strategy(s Strategy) {
	p := r.p
	overridden := !p.strategy.same(p.file)
	switch {
	case s.same(p.file):
	case overridden && s.Name == p.file.Name:
		r.say("ties %s -> %s", p.file.Ties, s.Ties)
		p.file = s
	default:
		r.say("strategy %s%s -> %s", describe(p.strategy), byAPI(overridden), describe(s))
		p.file, p.strategy = s, s
	}
}

func describe(s Strategy) string {
	if s.Ties == "" {
		return s.Name
	}
	return s.Name + " (ties " + s.Ties + ")"
}

// byAPI marks a value in force that the API had set.
func byAPI(overridden bool) string {
	if overridden {
		return " (set by the API)"
	}
	return ""
}

func (r *reload) policy(pol Policy) {
	old := r.p.policy
	if pol == old {
		return
	}
	r.differs("max_failures", old.MaxFailures, pol.MaxFailures)
	r.differs("retry_after", old.RetryAfter, pol.RetryAfter)
	r.differs("slow_start", old.SlowStart, pol.SlowStart)
	r.differs("on_down", onDown(old.CloseDown), onDown(pol.CloseDown))
	r.differs("on_remove", onRemove(old.CloseGone), onRemove(pol.CloseGone))
	r.differs("drain_timeout", old.DrainFor, pol.DrainFor)
	r.differs("queue_max", old.QueueMax, pol.QueueMax)
	r.differs("queue_timeout", old.QueueFor, pol.QueueFor)
	r.differs("all_down", allDown(old.TryAll), allDown(pol.TryAll))
	r.differs("active probes", onOff(old.Probed), onOff(pol.Probed))
	r.differs("init", old.Init, pol.Init)
	r.adopt(old, pol)
}

// adopt gives every member what the new policy makes of its state, which is
// kept: the timers, and the summary.
func (r *reload) adopt(old, pol Policy) {
	p := r.p
	p.policy = pol
	for _, e := range p.roster.entries {
		if old.RetryAfter != pol.RetryAfter {
			e.stopRetry()
		}
		p.retryLocked(e)
		if from, to := e.summary(old), e.summary(pol); from != to {
			p.tellLocked(e, from, to, "the file's policy changed")
		}
	}
	if old.Probed != pol.Probed {
		p.tellMembersLocked()
	}
}

func (r *reload) differs(key string, old, now any) {
	if old != now {
		r.say("%s %v -> %v", key, old, now)
	}
}

func allDown(try bool) string {
	if try {
		return "try"
	}
	return "refuse"
}

func onDown(ends bool) string {
	if ends {
		return "close"
	}
	return "keep"
}

func onRemove(ends bool) string {
	if ends {
		return "close"
	}
	return "drain"
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// removals drops what the file no longer has, and what the API added in the
// place of an entry of the file.
func (r *reload) removals(specs []Spec) {
	byID, byAddress := map[string]Spec{}, map[string]Spec{}
	for _, s := range specs {
		if own, ok := r.p.roster.deleted[s.ID]; ok && own == s {
			continue // it stays deleted
		}
		byID[s.ID], byAddress[s.Address] = s, s
	}
	r.forgetDeleted(specs)
	for _, e := range append([]*entry(nil), r.p.roster.entries...) {
		same := byID[e.id].Address == e.address
		_, idTaken := byID[e.id]
		_, addressTaken := byAddress[e.address]
		switch {
		case same:
		case e.fromFile:
			r.remove(e, "removed from the file", "")
		case idTaken || addressTaken:
			r.remove(e, "the file defines its id or address", ": added by the API, and the file now has its id or address")
		}
	}
}

func (r *reload) remove(e *entry, reason, more string) {
	r.say("backend %s removed (%s)%s", e.id, e.address, more)
	r.p.leaveLocked(e, reason)
}

// forgetDeleted ends the memory of what the API deleted where the file's entry
// has left or changed.
func (r *reload) forgetDeleted(specs []Spec) {
	now := make(map[string]Spec, len(specs))
	for _, s := range specs {
		now[s.ID] = s
	}
	for id, own := range r.p.roster.deleted {
		s, ok := now[id]
		if ok && s == own {
			continue
		}
		delete(r.p.roster.deleted, id)
		if !ok {
			r.say("backend %s removed (%s): the API had removed it already", id, own.Address)
		}
	}
}

// backend adds, adopts or updates what the file says of one backend.
func (r *reload) backend(s Spec) {
	if _, ok := r.p.roster.deleted[s.ID]; ok {
		return
	}
	e := r.p.roster.byID(s.ID)
	switch {
	case e == nil:
		r.say("backend %s added (%s)", s.ID, s.Address)
		r.p.enterLocked(s, true, "configured in the file")
	case !e.fromFile:
		r.say("backend %s (%s), added by the API, is the file's now", s.ID, s.Address)
		e.fromFile = true
		r.values(e, s)
	default:
		r.values(e, s)
	}
}

// values takes over each value of the file that changed; an override of a value
// that did not change stands.
func (r *reload) values(e *entry, s Spec) {
	r.value(e, "weight", &e.weight, e.spec.Weight, s.Weight)
	r.value(e, "max_sessions", &e.maxSessions, e.spec.MaxSessions, s.MaxSessions)
	if e.spec.SendProxy != s.SendProxy {
		r.say("backend %s send_proxy %s -> %s", e.id, proxyVersion(e.spec.SendProxy), proxyVersion(s.SendProxy))
		e.greets.Store(int32(s.SendProxy))
	}
	e.spec = s
}

func proxyVersion(n int) string {
	if n == 0 {
		return "off"
	}
	return fmt.Sprintf("v%d", n)
}

func (r *reload) value(e *entry, key string, inForce *int, old, now int) {
	if old == now {
		return
	}
	r.say("backend %s %s %d%s -> %d", e.id, key, *inForce, byAPI(*inForce != old), now)
	*inForce = now
}

package pool

import (
	"fmt"
	"time"
)

// Admin is what an operator wants of a backend.
type Admin int32

const (
	Ready Admin = iota // new sessions, as far as it is fit
	Drain              // no new sessions
	Maint              // no new sessions and no probes
)

// String returns ready, drain or maint.
func (a Admin) String() string {
	switch a {
	case Drain:
		return "drain"
	case Maint:
		return "maint"
	default:
		return "ready"
	}
}

// Add adds a backend by the API. It wraps ErrExists if the id or the address is
// configured; one that is only draining out is continued.
func (p *Pool) Add(s Spec) error {
	p.mu.Lock()
	defer p.unlock()
	if p.roster.byID(s.ID) != nil {
		return fmt.Errorf("backend %q %w", s.ID, ErrExists)
	}
	if e := p.roster.byAddress(s.Address); e != nil {
		return fmt.Errorf("address %s (backend %q) %w", s.Address, e.id, ErrExists)
	}
	p.addLocked(s)
	p.publishLocked()
	return nil
}

// addLocked adds what is the API's own, or takes back the removal of an entry
// of the file; then the values given override the file's.
func (p *Pool) addLocked(s Spec) {
	own, ok := p.roster.deleted[s.ID]
	if !ok || own.Spec.Address != s.Address {
		e := p.enterLocked(s, false, "added by the API")
		e.since.Added = now()
		return
	}
	delete(p.roster.deleted, s.ID)
	e := p.enterLocked(own.Spec, true, "added again by the API")
	e.set(Patch{Weight: &s.Weight, MaxSessions: &s.MaxSessions})
}

// now is when the API sets something, as exact as it is written down.
func now() time.Time { return time.Now().Truncate(time.Millisecond) }

// Remove takes a backend out by the API: no new sessions, no probes, and it is
// shown until its last session has ended. It wraps ErrNotFound.
func (p *Pool) Remove(id string) error {
	p.mu.Lock()
	defer p.unlock()
	e := p.roster.byID(id)
	if e == nil {
		return notFound(id)
	}
	if e.fromFile {
		p.roster.deleted[id] = Deletion{e.spec, now()}
	}
	p.leaveLocked(e, "removed by the API")
	p.publishLocked()
	return nil
}

// Patch holds the values that an operator sets; nil leaves a value alone.
type Patch struct {
	Weight      *int
	MaxSessions *int
	Admin       *Admin
	Readmit     bool   // end its ejection, and forget how often it was
	By          string // who asks for it, in words, for Explain and the events; empty: not known
}

// Patch changes a backend by the API. It wraps ErrNotFound.
func (p *Pool) Patch(id string, c Patch) error {
	p.mu.Lock()
	defer p.unlock()
	e := p.roster.byID(id)
	if e == nil {
		return notFound(id)
	}
	e.set(c)
	if c.Readmit {
		p.forgiveLocked(e, "let back in by the API")
	}
	if c.Admin != nil && *c.Admin != e.admin {
		e.by = c.By
		p.setAdminLocked(e, *c.Admin)
	}
	p.publishLocked()
	return nil
}

// set takes over weight and limit of c. What the API added has no other.
func (e *entry) set(c Patch) {
	weight, most := e.weight, e.maxSessions
	if c.Weight != nil && *c.Weight != weight {
		weight, e.since.Weight = *c.Weight, now()
	}
	if c.MaxSessions != nil && *c.MaxSessions != most {
		most, e.since.MaxSessions = *c.MaxSessions, now()
	}
	e.become(weight, most, byAPI(c.By))
	if !e.fromFile {
		e.spec.Weight, e.spec.MaxSessions = e.weight, e.maxSessions
	}
}

// become sets weight and limit, and notes what is new with the events.
func (e *entry) become(weight, most int, by string) {
	note := func(key string, from, to int) {
		if from != to {
			e.events.note(EventChange, fmt.Sprintf("%s %d -> %d by %s", key, from, to, by))
		}
	}
	note("weight", e.weight, weight)
	note("max_sessions", e.maxSessions, most)
	e.weight, e.maxSessions = weight, most
}

func byAPI(who string) string {
	if who == "" {
		return "the API"
	}
	return "the API (" + who + ")"
}

func (p *Pool) setAdminLocked(e *entry, a Admin) {
	if e.admin == a {
		return
	}
	from := e.summary(p.policy)
	probed := e.admin != Maint
	if a == Maint { // it is serviced: what comes back is another one
		e.out.stop()
		e.out = ejection{}
	}
	e.admin, e.since.State = a, now()
	if a == Ready {
		e.back()
	} else {
		p.drainLocked(e)
	}
	p.tellLocked(e, from, e.summary(p.policy), "set to "+a.String()+" by "+byAPI(e.by))
	if probed != (a != Maint) {
		p.tellMembersLocked()
	}
}

// SetStrategy switches the strategy by the API; running sessions are untouched.
func (p *Pool) SetStrategy(s Strategy) {
	p.mu.Lock()
	defer p.unlock()
	if !p.strategy.same(s) {
		p.strategy, p.switched = s, now()
	}
	p.publishLocked()
}

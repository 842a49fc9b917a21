package pool

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Conflict says that several backends of a pool with Policy.Single claim to be the
// one that gets the sessions, or that this is over.
type Conflict struct {
	At     time.Time
	Pool   string
	IDs    []string // who claims it, in order of registration; nil: it is over
	Chosen string   // id of the one that gets them, "" for none
	Reason string
}

// single is the choice of a pool with Policy.Single. Its zero value is that of
// another pool, or of one that has chosen nobody yet.
type single struct {
	chosen *Backend // may get sessions; nil: nobody
	claim  bool     // chosen was found fit by a probe: it stays it as long as it is
	rivals []string // ids of those that claim it, if they are several
}

// claims reports whether a member is found to be the one. Without an answer of a
// probe nothing is known of it.
func (p *Pool) claims(e *entry) bool {
	return e.wanted() && e.fit(p.policy) && (!p.policy.Probed || e.Health() != Unknown)
}

// chooseLocked decides who may get the sessions of a pool with Policy.Single.
func (p *Pool) chooseLocked() {
	old := p.single
	p.single = single{}
	if !p.policy.Single {
		p.rivalryLocked(nil, old)
		return
	}
	var claims, wanted []*entry
	unknown := false
	for _, e := range p.roster.entries {
		if !e.wanted() {
			continue
		}
		wanted = append(wanted, e)
		if p.claims(e) {
			claims = append(claims, e)
		}
		unknown = unknown || p.policy.Probed && e.Health() == Unknown
	}
	stays := old.claim && slices.ContainsFunc(claims, func(e *entry) bool { return e.Backend == old.chosen })
	switch {
	case stays:
		p.single.chosen, p.single.claim = old.chosen, true
	case len(claims) == 1 && !unknown:
		p.single.chosen, p.single.claim = claims[0].Backend, true
	case len(claims) == 0 && len(wanted) == 1: // nobody else could be it
		p.single.chosen = wanted[0].Backend
	}
	p.rivalryLocked(claims, old)
}

// admits reports whether the choice lets a member have sessions.
func (p *Pool) admits(e *entry) bool { return !p.policy.Single || e.Backend == p.single.chosen }

// keptOut says why a member that is wanted and fit gets no sessions, "" if it is
// not because of the choice.
func (p *Pool) keptOut(e *entry) string {
	switch {
	case p.admits(e) || !e.wanted() || !e.fit(p.policy):
		return ""
	case len(p.single.rivals) == 0:
		return "single = true: no backend gets sessions before each was probed once"
	}
	return p.single.String()
}

// String says what the conflict is.
func (s single) String() string {
	who := strings.Join(s.rivals, " and ")
	if s.chosen == nil {
		return fmt.Sprintf("single = true: %s claim to be the one at the same time, and none was it before: nobody gets sessions", who)
	}
	return fmt.Sprintf("single = true: %s claim to be the one at the same time: %s was it before, and stays it", who, s.chosen.id)
}

// rivalryLocked tells where a conflict begins, changes or ends.
func (p *Pool) rivalryLocked(claims []*entry, old single) {
	if len(claims) > 1 {
		for _, e := range claims {
			p.single.rivals = append(p.single.rivals, e.id)
		}
	}
	if slices.Equal(old.rivals, p.single.rivals) && (len(claims) < 2 || old.chosen == p.single.chosen) {
		return
	}
	c := Conflict{At: time.Now(), Pool: p.name, IDs: p.single.rivals, Reason: p.single.String()}
	if len(c.IDs) == 0 {
		c.Reason = "no two backends claim to be the one any more"
	}
	if p.single.chosen != nil {
		c.Chosen = p.single.chosen.id
	}
	for _, e := range p.roster.entries {
		if slices.Contains(old.rivals, e.id) || slices.Contains(c.IDs, e.id) {
			e.events.note(EventState, c.Reason)
		}
	}
	if p.hooks.Conflicted != nil {
		p.news.queue = append(p.news.queue, func() { p.hooks.Conflicted(c) })
	}
}

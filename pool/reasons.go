package pool

import (
	"fmt"
	"strings"
)

// chosenFrom says what keeps a member of the snapshot from being the pick.
func (v view) chosenFrom(r *Reason, e *entry, m *Member) {
	switch {
	case v.pick == m:
		r.Word, r.Text = Picked, "gets the next session"
	case m.MaxSessions > 0 && r.Active >= int64(m.MaxSessions):
		r.Word, r.Text = Full, fmt.Sprintf("has %s, of max_sessions = %d", count(r.Active, "session"), m.MaxSessions)
	case m.onTrial && m.trial.Load() != trialOpen:
		r.Word, r.Text = OnTrial, "one session tries whether it is back"
	case v.q.avoids(m.Backend):
		r.Word, r.Text = Paused, "dials to it failed; who waits tries it again, and then the others"
	default:
		r.Word, r.Text = v.notItsTurn(m)
	}
	switch unfit := e.unfit(v.p.policy); {
	case m.onTrial:
		r.Text += "; " + unfit.Text
		r.Since = unfit.Since
	case unfit.Word != "":
		r.Text += ", although it is not fit: " + unfit.Text
	case e.suspect.Load():
		r.Text += fmt.Sprintf("; suspect: %s in a row, but it is the last that could be used", count(e.streak.Load(), "failed dial"))
	}
}

// notItsTurn says why the strategy has another first.
func (v view) notItsTurn(m *Member) (Word, string) {
	if v.turn {
		return NextTurns, "sessions that were held come first, at release_rate"
	}
	on, at := v.levels[m], v.levels[v.pick]
	switch why, ok := v.s.levels[on].picker.(Reasoner); {
	case on > at:
		return v.standsBy(m)
	case on < at || v.pick == nil:
		return NextTurns, "has room since a moment ago"
	case ok:
		return why.Why(v.q, m, v.pick)
	}
	return NextTurns, "the strategy has another first"
}

// standsBy says why a member is not in use, which is on a level behind that of the
// pick, or behind the first if there is none.
func (v view) standsBy(m *Member) (Word, string) {
	first, own := v.s.levels[v.levels[v.pick]], v.s.levels[v.levels[m]]
	switch {
	case first.group == own.group:
		return OtherZone, fmt.Sprintf("is not in zone %s, where enough are usable", v.s.policy.Zone)
	case v.pick == nil:
		return Backup, fmt.Sprintf("is a backup (tier %d), and enough others are up, though full", m.tier)
	}
	return Backup, fmt.Sprintf("is a backup (tier %d), and enough others are usable", m.tier)
}

// leftOut says why a member of the pool is not in the snapshot: the conditions of
// eligibleLocked, in its order. One that is out by order may be unfit too.
func (p *Pool) leftOut(r *Reason, e *entry) {
	unfit := e.unfit(p.policy)
	switch {
	case !e.wanted():
		e.unwanted(r)
		if unfit.Word != "" {
			r.Text += "; it is not fit either: " + unfit.Text
		}
	case p.keptOut(e) != "":
		r.Word, r.Text = KeptOut, p.keptOut(e)
	case unfit.Word != "":
		r.Word, r.Text, r.Since, r.Until = unfit.Word, unfit.Text, unfit.Since, unfit.Until
	default:
		r.Word, r.Text = PassedOver, "is usable, but a rule of the pool has others used"
	}
}

// unfit says why a member is not fit; without a word it is. The conditions are
// those of fit.
func (e *entry) unfit(pol Policy) (r Reason) {
	switch {
	case e.healthy(pol) && e.flap.held():
		r.Word, r.Since, r.Until = HeldOut, e.verdict.At, e.flap.until
		r.Text = fmt.Sprintf("%s; it went down %s soon after it had come back", e.verdict.Reason, times(e.flap.repeats))
	case e.healthy(pol) && e.out.on():
		r.Word, r.Text, r.Since, r.Until = Ejected, e.out.told.Reason, e.out.told.At, e.out.until
	case e.healthy(pol):
	case e.Health() == Unknown:
		r.Word, r.Text, r.Since = Unprobed, "no probe has ended yet", e.last.At
	case e.verdict.Reason == "":
		r.Word, r.Text, r.Since = Downed, `init = "down", and it has not passed enough probes yet`, e.last.At
	default:
		r.Word, r.Text, r.Since, r.Until = Downed, e.verdict.Reason+e.foundSince(), e.verdict.At, e.flap.until
	}
	return r
}

// foundSince is what the newest probe found of a member that is down, where its
// verdict does not say that: what took it out may not be what keeps it out.
func (e *entry) foundSince() string {
	p := e.events.newest(EventProbe)
	if p == nil || strings.Contains(sourceless(e.verdict.Reason), strings.TrimPrefix(p.Text, failedProbe)) {
		return ""
	}
	return "; the last probe " + p.Text
}

// unwanted says which order keeps new sessions out.
func (e *entry) unwanted(r *Reason) {
	switch {
	case e.admin == Ready && e.fromFile && e.weight == e.spec.Weight:
		r.Word, r.Text = WeightZero, "its weight is 0 in the file"
		return
	case e.admin == Ready:
		r.Word, r.Text, r.Since = WeightZero, "its weight is 0 by the API", e.since.Weight
		return
	case e.admin == Maint:
		r.Word = Maintained
	default:
		r.Word = Draining
	}
	r.Text, r.Since, r.Until = "set to "+e.admin.String()+" by "+byAPI(e.by), e.since.State, e.ends
	if !e.ends.IsZero() {
		r.Text += "; its sessions end when drain_timeout is over"
	}
}

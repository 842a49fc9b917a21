package l4

import (
	"net/netip"

	"sluice/l4/access"
	"sluice/l4/session"
)

// Admission is who may come in through a frontend. Its zero value lets everybody
// in. It must not change once it is in use.
type Admission struct {
	Allow     *access.Set // nil or empty is everybody
	Deny      *access.Set // wins
	PerClient access.Limits
	Headers   session.HeaderRules
}

// permits reports whether the lists let a client in. Who has no address, behind a
// unix socket, is in none of them, and may come in.
func (a *Admission) permits(client netip.Addr) bool {
	if !client.IsValid() {
		return true
	}
	return !a.Deny.Has(client) && (a.Allow.Empty() || a.Allow.Has(client))
}

// limits reports whether the sessions of a client are counted.
func (a *Admission) limits(client netip.Addr) bool {
	return !a.PerClient.None() && client.IsValid()
}

// enter counts a client in, or returns why it may not come in. leave and report
// are its counterparts. One that is to begin with a PROXY header only takes a
// place: it is admitted behind the header.
func (f *Frontend) enter(cfg *Config, peer netip.Addr) (reason string) {
	if !f.running.enter() {
		return "shutdown"
	}
	rules := &cfg.Admission
	waits := rules.Headers.Expects(peer)
	if !waits && rules.Headers.Mode == session.RequireHeaders {
		reason = string(session.BadHeader)
	} else if !waits {
		reason = string(f.admit(cfg, peer))
	}
	if reason == "" {
		if reason = f.place(cfg); reason != "" && !waits && rules.limits(peer) {
			f.clients.Undo(peer, rules.PerClient)
		}
	}
	if reason != "" {
		f.running.leave()
		return reason
	}
	if !waits {
		f.started.Add(1)
	}
	return ""
}

// place counts a client among the sessions of the frontend and of the process.
func (f *Frontend) place(cfg *Config) (reason string) {
	switch {
	case !f.counters.enter(int64(cfg.MaxSessions)):
		return "frontend_limit"
	case cfg.Limit != nil && !cfg.Limit.enter():
		f.counters.active.Add(-1)
		return "process_limit"
	}
	return ""
}

// admit lets a client in by its address, and counts it among its own sessions; or
// returns why not. depart is its counterpart.
func (f *Frontend) admit(cfg *Config, client netip.Addr) session.Cause {
	if !cfg.Admission.permits(client) {
		return session.Denied
	}
	if !cfg.Admission.limits(client) {
		return ""
	}
	switch f.clients.Enter(client, cfg.Admission.PerClient) {
	case access.TooMany:
		return session.ClientLimit
	case access.TooOften:
		return session.ClientRate
	}
	return ""
}

// admitLate is admit for a client whose header was waited for: it becomes a
// session now.
func (f *Frontend) admitLate(cfg *Config, client netip.Addr) session.Cause {
	c := f.admit(cfg, client)
	if c == "" {
		f.started.Add(1)
	}
	return c
}

// depart counts a client out that admit let in. What decides is the configuration
// that it came in under.
func (f *Frontend) depart(cfg *Config, client netip.Addr) {
	if cfg.Admission.limits(client) {
		f.clients.Leave(client)
	}
}

// reject counts a client that is not let in.
func (f *Frontend) reject(cfg *Config, reason string, client netip.AddrPort) {
	f.counters.reject(reason)
	if cfg.Rejected != nil {
		cfg.Rejected(reason, client)
	}
}

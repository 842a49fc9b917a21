package l4

import (
	"net/netip"

	"sluice/l4/session"
)

// origin returns what the sessions of one configuration and listener share: the
// last one built, if it is of these, else a new one.
func (f *Frontend) origin(cfg *Config, listen string) *session.Origin {
	o := f.shared.Load()
	if o != nil && o.Settings == &cfg.Settings && o.Listen == listen {
		return o
	}
	o = &session.Origin{
		Process:  f.process,
		Frontend: f.name,
		Listen:   listen,
		Pool:     cfg.Pool,
		Settings: &cfg.Settings, // tells configurations apart as well
		Lag:      window(&cfg.Settings),
		Headers:  cfg.Admission.Headers,
		Admit:    f.admitter(cfg),
	}
	f.shared.Store(o)
	return o
}

// admitter returns what lets in who had to begin with a PROXY header; nil if
// nobody has to.
func (f *Frontend) admitter(cfg *Config) func(client netip.Addr) session.Cause {
	if cfg.Admission.Headers.Mode == session.NoHeaders {
		return nil
	}
	return func(client netip.Addr) session.Cause { return f.admitLate(cfg, client) }
}

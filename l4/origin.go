package l4

import "sluice/l4/session"

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
	}
	f.shared.Store(o)
	return o
}

package balancer

import (
	"net/netip"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/logs"
	"sluice/l4"
	"sluice/pool"

	"go.uber.org/zap"
)

// swap makes p's configuration current and returns what that changed.
// The order keeps every new session possible throughout: pools first, then the
// frontends that choose among them, then the sockets that feed those; what is
// no longer used goes last.
func (b *Balancer) swap(p *plan, opened []*socket) []pool.Edit {
	c := p.config
	b.options.Logs.Use(c.Log)
	b.limit.Set(c.Process.MaxSessions)
	b.limit.Fit()
	b.advise(c)
	b.resolver.Store(b.resolverOf(c))
	pools := b.usePools(c.Pools, b.ears(opened))
	edits := b.edits(c, func(p config.Pool) []pool.Edit { return pools[p.Name] })
	edits = append(edits, b.regained(opened)...)
	b.useFrontends(c)
	b.useSockets(p, opened)
	b.retire(c)
	b.config = c
	b.publish()
	b.admin.Use(c.Admin.Settings)
	b.useWatch(c)
	return orOrder(edits)
}

// orOrder says what it is when nothing else differs.
func orOrder(edits []pool.Edit) []pool.Edit {
	if len(edits) > 0 {
		return edits
	}
	return []pool.Edit{{Kind: "file", Change: "altered", Keys: []pool.Key{{Key: "order of its entries"}}}}
}

// regained tells of the addresses that were lost (see restore) and are back.
func (b *Balancer) regained(opened []*socket) (edits []pool.Edit) {
	for _, w := range wanted(b.config) {
		for _, s := range opened {
			if s.place == w.place {
				edits = append(edits, pool.Edit{Kind: "address", Name: s.listen, Change: "regained", Note: "by " + s.who()})
			}
		}
	}
	return edits
}

// usePools applies the file's view of every pool, and returns what that changed,
// by the pools' names.
func (b *Balancer) usePools(cs []config.Pool, ears []ear) map[string][]pool.Edit {
	changed := make(map[string][]pool.Edit)
	for _, c := range cs {
		c = b.standing(c, ears)
		w := b.pools[c.Name]
		if w == nil {
			w = b.retired.pool(c.Name)
		}
		if w == nil {
			changed[c.Name] = b.foresee(c)
			w = b.newPool(c)
		} else {
			changed[c.Name] = w.apply(c)
		}
		b.pools[c.Name] = w
		w.probe(c, b.probe(c))
		w.outliers.use(w.pool, c.Outliers)
	}
	return changed
}

// useFrontends gives every frontend of the file its pool and settings.
func (b *Balancer) useFrontends(all *config.Config) {
	for _, c := range all.Frontends {
		settings := b.frontendConfig(c, all.Log)
		f := b.frontends[c.Name]
		if f == nil {
			f = b.retired.frontend(c.Name)
		}
		if f == nil {
			f = b.engine.NewFrontend(settings)
		} else {
			f.Use(settings)
		}
		b.frontends[c.Name] = f
	}
}

// frontendConfig translates what the file says of a frontend.
func (b *Balancer) frontendConfig(c config.Frontend, log config.Log) l4.Config {
	name, record := c.Name, b.options.Logs.Session
	if log.Access == "off" {
		record = nil // costs more than the line that is not written
	}
	return l4.Config{
		Name:        name,
		Pool:        b.pools[c.Pool].pool,
		Names:       b.names,
		Limit:       b.limit,
		Settings:    c.Settings,
		MaxSessions: c.MaxSessions,
		Admission:   admission(c.Admission),
		Record:      record,
		Rejected: func(reason string, client netip.AddrPort) {
			b.options.Logs.Rejected(name, reason, client)
		},
		Fault: func(err error) { b.options.Logs.Fault(name, err) },
	}
}

// useSockets feeds every frontend from its socket and closes what p closes.
func (b *Balancer) useSockets(p *plan, opened []*socket) {
	for at, w := range p.keep {
		s := b.sockets[at]
		if err := s.chmod(w); err != nil {
			b.log.Warn("mode of a unix socket", zap.NamedError(logs.Error, err))
		}
		s.want = w
		if s.clients != nil {
			s.clients.Assign(b.frontends[w.frontend])
		}
	}
	for _, s := range opened {
		b.feed(s)
	}
	for at, s := range p.close {
		s.close()
		delete(b.sockets, at)
	}
}

// feed begins to serve a socket that was just opened.
func (b *Balancer) feed(s *socket) {
	b.sockets[s.place] = s
	if s.admin != nil {
		ln, w := s.admin, s.want // of which the next reload may change the latter
		b.serves.Go(func() { b.serveAdmin(ln, w) })
		return
	}
	s.clients.Assign(b.frontends[s.frontend])
	go s.clients.Serve()
}

// publish lets the admin side see the configuration in force.
func (b *Balancer) publish() {
	c := b.config
	v := &view{config: c, generation: b.view.Load().generation + 1, listens: make(map[string]string)}
	for _, s := range b.sockets {
		if s.clients != nil {
			v.listens[s.frontend] = s.addr()
		}
	}
	for _, f := range c.Frontends {
		v.frontends = append(v.frontends, b.frontends[f.Name])
	}
	for _, f := range b.retired.frontends {
		v.leaving = append(v.leaving, f.Frontend)
	}
	for _, p := range c.Pools {
		v.pools = append(v.pools, b.pools[p.Name].pool)
	}
	for _, p := range b.retired.pools {
		v.removed = append(v.removed, p.pool)
	}
	b.view.Store(v)
}

// pool returns what the file says of p.
func (v *view) pool(p *pool.Pool) (config.Pool, bool) {
	for _, c := range v.config.Pools {
		if c.Name == p.Name() {
			return c, true
		}
	}
	return config.Pool{}, false
}

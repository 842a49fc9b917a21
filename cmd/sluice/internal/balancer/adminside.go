package balancer

import (
	"context"
	"net"
	"slices"
	"time"

	"sluice/admin"
	"sluice/admin/proxy"
	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/logs"
	"sluice/l4"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"

	"go.uber.org/zap"
)

// newAdmin returns the admin side, which listens nowhere yet.
func (b *Balancer) newAdmin(set admin.Settings) *admin.Server {
	return admin.New(admin.Sources{
		About:     b.about,
		Frontends: b.Frontends,
		Pools:     func() []*pool.Pool { return b.view.Load().pools },
		Leaving:   func() []*pool.Pool { return b.view.Load().removed },
		Add:       b.add,
		Strategy:  b.strategy,
		Keep:      func() { b.state.Save() },
		Unlike:    b.unlike,
		Names:     b.namesIn,
		Reload:    b.Reload,
		Sessions:  b.engine.Sessions,
		End:       func(m session.Match) int { return b.engine.End(m, session.Killed) },
		EndIdlest: func(m session.Match, n int) int { return b.engine.EndIdlest(m, n, session.Rebalanced) },
		Plan:      b.Plan,
		Draining:  b.draining.Load,
		Bound:     func() bool { return b.view.Load().generation > 0 },
	}, set, proxy.Options{Dial: b.dial, Settings: b.web, Record: b.options.Logs.Session}, b.log)
}

func (b *Balancer) about() admin.About {
	return admin.About{
		Generation: b.view.Load().generation,
		Started:    b.started,
		Engine:     b.engine.Name(),
		Loops:      b.engine.Loops(),
		Version:    b.options.Version,
		LogDropped: b.options.Logs.Dropped() + b.engine.Dropped(),
		Sessions:   b.limit.Active(),
		Limit:      b.limit.Max(),
		StateFile:  b.state.Status(),
		Drain:      b.drainStatus(),

		LastReload:    *b.last.Load(),
		RestartNeeded: b.restartNeeded(b.view.Load().config),
	}
}

// restartNeeded lists the keys of c whose value only the next start takes.
func (b *Balancer) restartNeeded(c *config.Config) []string {
	keys := []string{}
	asked, was := c.Process, b.asStarted
	if asked.Engine != was.Engine && asked.Engine != b.engine.Name() {
		keys = append(keys, "process.engine")
	}
	if asked.Loops != was.Loops && asked.Loops != b.engine.Loops() {
		keys = append(keys, "process.loops")
	}
	return keys
}

// Frontends returns the frontends in the order of the file, then those that
// were removed and still have sessions.
func (b *Balancer) Frontends() []l4.Status {
	v := b.view.Load()
	list := make([]l4.Status, 0, len(v.frontends))
	for _, f := range v.frontends {
		s := f.Status()
		s.Listen = v.listens[s.Name]
		list = append(list, s)
	}
	for _, f := range v.leaving {
		if s := f.Status(); s.Active > 0 {
			list = append(list, s)
		}
	}
	return list
}

// strategy returns the strategy of that name with the ties and the bound that the
// file gives the pool.
func (b *Balancer) strategy(p *pool.Pool, name string) (pool.Strategy, error) {
	var file pool.Strategy
	if c, ok := b.view.Load().pool(p); ok {
		file = c.Config.Strategy
	}
	s, err := balance.ByName(name, file.Ties)
	return balance.Bounded(s, file.Bound), err
}

// lookupFailed tells the log of a failed look-up, and the pools that use the name.
func (b *Balancer) lookupFailed(host string, err error) {
	b.options.Logs.LookupFailed(host, err)
	for _, p := range b.view.Load().pools {
		p.LookupFailed(host)
	}
}

// dial is how /proxy reaches a backend: by the path that sessions take.
func (b *Balancer) dial(ctx context.Context, address string) (net.Conn, error) {
	return l4.Dial(ctx, b.names, &b.web, address)
}

// serveAdmin serves until ln is closed.
func (b *Balancer) serveAdmin(ln net.Listener, w want) {
	scope, _ := w.scope()
	if err := b.admin.Serve(ln, scope); err != nil {
		b.log.Error(w.who()+" ended", zap.NamedError(logs.Error, err))
	}
}

// AdminAddr returns the address that the admin side is bound to; empty if it is
// off.
func (b *Balancer) AdminAddr() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.adminAddrLocked(admin.Everything)
}

func (b *Balancer) adminAddrLocked(scope admin.Scope) string {
	for _, s := range b.sockets {
		if s.owner == owners[scope] {
			return s.addr()
		}
	}
	return ""
}

// advise writes what is unwise in c, unless that was said of the configuration
// in force.
func (b *Balancer) advise(c *config.Config) {
	if !slices.Equal(c.Warnings, b.config.Warnings) {
		for _, w := range c.Warnings {
			b.log.Warn("configuration", zap.String(logs.Reason, w))
		}
	}
	if c.Process.MaxSessions != b.config.Process.MaxSessions && b.limit.Cut() {
		b.log.Warn("process limit", zap.Int64(logs.Limit, b.limit.Max()), zap.String(logs.Reason, b.limit.Explain()))
	}
}

// warnings are what advise writes of c, which is in force, in words for the
// answer to a reload.
func (b *Balancer) warnings(c *config.Config) []string {
	if !b.limit.Cut() {
		return c.Warnings
	}
	return append(slices.Clone(c.Warnings), "process limit: "+b.limit.Explain())
}

// announce writes what was started.
func (b *Balancer) announce() {
	v := b.view.Load()
	for _, f := range b.config.Frontends {
		b.log.Info("listening", zap.String(logs.Frontend, f.Name),
			zap.String(logs.Listen, f.Listen), zap.String(logs.Address, v.listens[f.Name]))
	}
	b.log.Info("started",
		zap.String(logs.Version, b.options.Version),
		zap.String(logs.Engine, b.engine.Name()),
		zap.Int(logs.Loops, b.engine.Loops()),
		zap.Int64(logs.Generation, v.generation),
		zap.String(logs.Admin, b.adminAddrLocked(admin.Everything)),
		zap.String(logs.Probes, b.adminAddrLocked(admin.Probes)),
		zap.String(logs.Proxy, b.adminAddrLocked(admin.Traffic)),
		zap.Int64(logs.Limit, b.limit.Max()),
		zap.String(logs.Reason, b.limit.Explain()),
		zap.Duration(logs.Took, time.Since(b.started)))
}

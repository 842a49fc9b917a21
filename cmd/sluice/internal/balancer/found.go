package balancer

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"sluice/admin"
	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/discover"
	"sluice/cmd/sluice/internal/logs"
	"sluice/pool"

	"go.uber.org/zap"
)

// firstAnswers is how long a start, or a reload with new names, waits for what
// these stand for. A server near by answers in milliseconds; one that does not
// must hold nobody up. Chosen.
const firstAnswers = 2 * time.Second

// keyOf says what of a group is looked up.
func keyOf(pool string, g config.Group) discover.Key {
	return discover.Key{Pool: pool, Host: g.Host, SRV: g.SRV}
}

// namesOf returns how the names of c are looked up that stand for several backends.
func namesOf(c *config.Config, r *discover.Resolver) map[discover.Key]discover.Policy {
	names := make(map[discover.Key]discover.Policy)
	for _, p := range c.Pools {
		for _, g := range p.Groups {
			names[keyOf(p.Name, g)] = discover.Policy{Every: p.ResolveEvery, Source: r.Source()}
		}
	}
	return names
}

// resolverOf returns the resolver that c asks for: the one in force if it is that.
func (b *Balancer) resolverOf(c *config.Config) *discover.Resolver {
	if r := b.resolver.Load(); r != nil && r.Server() == c.Process.Resolver {
		return r
	}
	return discover.NewResolver(c.Process.Resolver)
}

// lookUp begins to look up the names that only c has, and waits for their first
// answers, for a moment. What it returns is called when c is in force, or is not
// to be. It needs the turn, and waits without b.mu.
func (b *Balancer) lookUp(c *config.Config) (settle func()) {
	now := namesOf(b.view.Load().config, b.resolver.Load())
	next := namesOf(c, b.resolverOf(c))
	if len(now)+len(next) == 0 {
		return func() {}
	}
	fresh := slices.DeleteFunc(slices.Collect(maps.Keys(next)), func(k discover.Key) bool {
		_, known := now[k]
		return known
	})
	maps.Copy(next, now)
	b.found.Use(next)
	ctx, cancel := context.WithTimeout(b.lasting, firstAnswers)
	defer cancel()
	b.found.First(ctx, fresh)
	return func() { b.found.Use(namesOf(b.view.Load().config, b.resolver.Load())) }
}

// answered has a name stand for what it was found to stand for.
func (b *Balancer) answered(k discover.Key) {
	if b.restand(k.Pool) {
		b.state.Save() // the name may have won over what the API had set
	}
}

// restand applies what the names of a pool stand for now, and reports whether that
// changed anything.
func (b *Balancer) restand(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.pools[name]
	i := slices.IndexFunc(b.config.Pools, func(c config.Pool) bool { return c.Name == name })
	if b.stopping || w == nil || i < 0 {
		return false
	}
	edits := w.apply(b.standing(b.config.Pools[i], b.ears(nil)))
	// Who comes and who goes, the pool has told.
	altered := slices.DeleteFunc(slices.Clone(edits), func(e pool.Edit) bool { return e.Change != "altered" })
	if len(altered) > 0 {
		b.log.Info("found backends changed", zap.String(logs.Pool, name), zap.Strings(logs.Changes, linesOf(altered)))
	}
	return len(edits) > 0
}

// unanswered tells of a look-up that failed. What the name stood for stays.
func (b *Balancer) unanswered(k discover.Key, err error) {
	b.options.Logs.LookupFailed(k.Host, err)
	for _, p := range b.view.Load().pools {
		if p.Name() == k.Pool {
			p.NameFailed()
		}
	}
}

// lookupAddresses is how names are looked up that are one backend each.
func (b *Balancer) lookupAddresses(ctx context.Context, host string) ([]netip.Addr, error) {
	return b.resolver.Load().Addresses(ctx, host)
}

// namesIn shows what the names of a pool stand for.
func (b *Balancer) namesIn(p *pool.Pool) (list []admin.Name) {
	c, _ := b.view.Load().pool(p)
	skipped := (*b.skipped.Load())[p.Name()]
	for _, g := range c.Groups {
		s := b.found.Status(keyOf(c.Name, g))
		n := admin.Name{
			ID: g.Spec.ID, Name: g.Host, Resolve: resolveWord(g), Found: []string{}, Skipped: skipped[g.Spec.ID],
			Missing: s.Missing, LeftOut: s.LeftOut, Rotates: s.Rotates,
			LastAnswer: s.Answered, Error: s.Error,
		}
		if s.Error != "" {
			n.Since = s.Since
		}
		for _, f := range s.Found {
			n.Found = append(n.Found, addressOf(g, f))
		}
		list = append(list, n)
	}
	return list
}

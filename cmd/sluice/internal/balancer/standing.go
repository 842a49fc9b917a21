package balancer

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"sluice/admin"
	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/discover"
	"sluice/cmd/sluice/internal/logs"
	"sluice/pool"

	"go.uber.org/zap"
)

// skips are the addresses that a pool's names have and do not stand for, by the id
// of the entry.
type skips map[string][]admin.Skipped

// ear is where this process listens.
type ear struct{ who, listen string }

// ears returns where this process listens, as configured and as bound, and will
// with what was just opened.
func (b *Balancer) ears(opened []*socket) (list []ear) {
	for _, s := range append(slices.Collect(maps.Values(b.sockets)), opened...) {
		list = append(list, ear{s.who(), s.listen}, ear{s.who(), s.addr()})
	}
	return list
}

// standing returns c with what its names stand for now among its backends. What it
// leaves out is told once. It needs b.mu.
func (b *Balancer) standing(c config.Pool, ears []ear) config.Pool {
	full, left := b.stand(c, ears)
	all := *b.skipped.Load()
	for id, list := range left {
		for _, s := range list {
			if !slices.Contains(all[c.Name][id], s) {
				b.log.Warn("found address not used", zap.String(logs.Pool, c.Name), zap.String(logs.Backend, id),
					zap.String(logs.Address, s.Address), zap.String(logs.Reason, s.Reason))
			}
		}
	}
	next := maps.Clone(all)
	next[c.Name] = left
	b.skipped.Store(&next)
	return full
}

// stand is standing for a plan: it tells nobody.
func (b *Balancer) stand(c config.Pool, ears []ear) (config.Pool, skips) {
	if len(c.Groups) == 0 {
		return c, nil
	}
	s := newStander(c, b.addedBy(c.Name), ears, ownHosts())
	list := make([]pool.Spec, 0, len(c.Config.Backends))
	groups, plain := c.Groups, c.Config.Backends
	for place := 0; len(groups)+len(plain) > 0; place++ {
		if len(plain) > 0 && (len(groups) == 0 || place < groups[0].At) {
			list, plain = append(list, plain[0]), plain[1:]
			continue
		}
		found, _ := b.found.Found(keyOf(c.Name, groups[0]))
		list = append(list, s.specs(groups[0], found)...)
		c.Config.Names = append(c.Config.Names, groups[0].Host)
		groups = groups[1:]
	}
	c.Config.Backends = list
	return c, s.left
}

// addedBy returns what the API has added to a pool, or had before a restart.
func (b *Balancer) addedBy(name string) (list []pool.Spec) {
	for _, o := range b.restored.kept[name].Backends {
		if o.Added {
			list = append(list, o.Spec)
		}
	}
	if w := b.pools[name]; w != nil {
		for _, s := range w.pool.Status().Backends {
			if s.Origin == "api" && s.Admin != "removing" {
				list = append(list, pool.Spec{ID: s.ID, Address: s.Address})
			}
		}
	}
	return list
}

// stander turns what the names of one pool stand for into backends. What others
// have already, and what this process itself is, it leaves out.
type stander struct {
	ears      []ear
	own       []string                // hosts of this machine
	ids       map[string]pool.Address // taken, with whose they are
	addresses map[pool.Address]string // taken, by the backend of that id
	left      skips
}

func newStander(c config.Pool, added []pool.Spec, ears []ear, own []string) *stander {
	s := &stander{ears: ears, own: own, ids: map[string]pool.Address{}, addresses: map[pool.Address]string{}, left: skips{}}
	for _, o := range append(slices.Clone(c.Config.Backends), added...) {
		at, _ := pool.ParseAddress(o.Address) // it was checked
		s.ids[o.ID], s.addresses[at] = at, o.ID
	}
	for _, o := range c.Config.Backends {
		s.ids[o.ID] = pool.Address{} // of the file: nothing found can be it
	}
	return s
}

// specs returns the backends that a group stands for.
func (s *stander) specs(g config.Group, found []discover.Found) (list []pool.Spec) {
	shares := discover.Shares(found, max(1, pool.MaxWeight/max(1, g.Spec.Weight)))
	for i, f := range found {
		spec := g.Spec
		spec.Address, spec.Name = addressOf(g, f), g.Host
		spec.ID = g.Spec.ID + "/" + f.Addr.String()
		if g.SRV {
			spec.ID = g.Spec.ID + "/" + spec.Address
		}
		spec.Weight *= shares[i].Weight
		spec.Backup = min(spec.Backup+shares[i].Tier, pool.MaxTier)
		if why := s.refuse(spec); why != "" {
			s.left[g.Spec.ID] = append(s.left[g.Spec.ID], admin.Skipped{Address: spec.Address, Reason: why})
			continue
		}
		at, _ := pool.ParseAddress(spec.Address)
		s.ids[spec.ID], s.addresses[at] = pool.Address{}, spec.ID
		list = append(list, spec)
	}
	return list
}

// addressOf returns the address of one that was found.
func addressOf(g config.Group, f discover.Found) string {
	return netip.AddrPortFrom(f.Addr, cmp.Or(f.Port, g.Port)).String()
}

// refuse says why a backend that was found cannot be one; empty: it can. What the
// API added as exactly this one becomes it.
func (s *stander) refuse(spec pool.Spec) string {
	at, err := pool.ParseAddress(spec.Address)
	if err == nil {
		err = pool.CheckAddress(spec.Address)
	}
	if err == nil {
		err = pool.CheckName(spec.ID)
	}
	if err != nil {
		return err.Error()
	}
	for _, e := range s.ears {
		if config.Reaches(e.listen, spec.Address, s.own) {
			return "it is where " + e.who + " of this process listens"
		}
	}
	if id, taken := s.addresses[at]; taken && id != spec.ID {
		return fmt.Sprintf("it is the address of backend %s already", id)
	}
	if of, taken := s.ids[spec.ID]; taken && of != at {
		return fmt.Sprintf("another backend has the id %s already", spec.ID)
	}
	return ""
}

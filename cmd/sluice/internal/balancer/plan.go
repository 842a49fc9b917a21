package balancer

import (
	"reflect"
	"slices"

	"sluice/admin"
	"sluice/cmd/internal/config"
	"sluice/pool"
)

// plan is what a reload would change.
type plan struct {
	config *config.Config
	open   []want         // sockets to be bound
	keep   map[place]want // sockets that stay, as the new configuration wants them
	close  map[place]*socket
}

// plan compares c with what runs. It changes nothing.
func (b *Balancer) plan(c *config.Config) *plan {
	p := &plan{
		config: c,
		keep:   make(map[place]want),
		close:  make(map[place]*socket),
	}
	for _, w := range wanted(c) {
		if b.sockets[w.place] == nil {
			p.open = append(p.open, w)
		} else {
			p.keep[w.place] = w
		}
	}
	for at, s := range b.sockets {
		if _, stays := p.keep[at]; !stays {
			p.close[at] = s
		}
	}
	return p
}

// edits tells what c changes, and what it means to the sessions there are. pools
// tells it of the pools that c has.
func (b *Balancer) edits(c *config.Config, pools func(config.Pool) []pool.Edit) []pool.Edit {
	listed := make(map[string]bool)
	for _, p := range c.Pools {
		listed[p.Name] = true
	}
	all := differences(b.config, c, func(p config.Pool) []pool.Edit {
		if !listed[p.Name] {
			return b.pools[p.Name].pool.CompareClose()
		}
		return pools(p)
	})
	for i := range all {
		switch e := &all[i]; e.Kind {
		case "frontend":
			b.touch(e)
		case "process":
			b.mark(e, c)
		}
	}
	return all
}

// touch tells of the sessions of a frontend. They outlive it, and keep what they
// began with.
func (b *Balancer) touch(e *pool.Edit) {
	if f := b.frontends[e.Name]; f != nil {
		e.Sessions = f.Status().Active
	}
	if e.Sessions > 0 {
		e.Fate = pool.FateStay
	}
}

// mark tells which keys take effect at the next start only.
func (b *Balancer) mark(e *pool.Edit, c *config.Config) {
	waits := b.restartNeeded(c)
	for i, k := range e.Keys {
		switch {
		case slices.Contains(waits, "process."+k.Key):
			e.Keys[i].Note = "takes effect at the next start"
		case k.Key == "engine" || k.Key == "loops":
			e.Keys[i].Note = "which is what runs"
		}
	}
}

// foresee returns what applying c would change in its pool.
func (b *Balancer) foresee(c config.Pool) []pool.Edit {
	w := b.pools[c.Name]
	if w == nil {
		w = b.retired.pools[c.Name].watchedPool
	}
	if w != nil {
		return w.pool.Compare(c.Config)
	}
	empty := c.Config
	empty.Backends = nil
	return pool.New(c.Name, empty, pool.Hooks{}).Compare(c.Config)
}

// linesOf says the same as edits, in words. The backends of a pool that comes or
// goes are not told one by one.
func linesOf(edits []pool.Edit) (lines []string) {
	whole := make(map[string]bool)
	for _, e := range edits {
		if e.Kind == "pool" && e.Change != "altered" {
			whole[e.Name] = true
		}
		if e.Pool == "" || !whole[e.Pool] {
			lines = append(lines, e.Lines()...)
		}
	}
	return lines
}

// wanted lists the sockets that c asks for, in the order of the file.
func wanted(c *config.Config) []want {
	var ws []want
	for _, f := range c.Frontends {
		ws = append(ws, want{placeOf(f.Listen, f.Name), f.Mode, f.Name})
	}
	if c.Admin.Listen != "" {
		ws = append(ws, wantAdmin(admin.Everything, c.Admin.Listen, c.Admin.Mode))
	}
	if c.Admin.ProbeListen != "" {
		ws = append(ws, wantAdmin(admin.Probes, c.Admin.ProbeListen, socketMode))
	}
	if c.Admin.Settings.Proxy.Listens {
		ws = append(ws, wantAdmin(admin.Traffic, c.Admin.ProxyListen, socketMode))
	}
	return ws
}

// bound reports whether every socket that c asks for is open. One is missing
// only after it was closed for another that then could not be bound.
func (b *Balancer) bound(c *config.Config) bool {
	return !slices.ContainsFunc(wanted(c), func(w want) bool { return b.sockets[w.place] == nil })
}

// same reports whether two configurations mean the same.
func same(a, b *config.Config) bool {
	return reflect.DeepEqual(plainOf(a), plainOf(b))
}

// plainOf returns c without what does not compare: funcs, and warnings,
// whose lines move with every comment.
func plainOf(c *config.Config) config.Config {
	plain := *c
	plain.Warnings = nil
	plain.Pools = slices.Clone(c.Pools)
	for i := range plain.Pools {
		plain.Pools[i].Config.Strategy.Build = nil
	}
	return plain
}

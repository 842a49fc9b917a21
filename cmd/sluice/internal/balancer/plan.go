package balancer

import (
	"reflect"
	"slices"

	"sluice/admin"
	"sluice/cmd/internal/config"
)

// plan is what a reload would change.
type plan struct {
	config *config.Config
	lines  []string       // what changes, but for what only the pools can tell
	open   []want         // sockets to be bound
	keep   map[place]want // sockets that stay, as the new configuration wants them
	close  map[place]*socket
}

// plan compares c with what runs. It changes nothing.
func (b *Balancer) plan(c *config.Config) *plan {
	p := &plan{
		config: c,
		lines:  differences(b.config, c),
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

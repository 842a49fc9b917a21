package config

import "slices"

// config reads the whole file and checks its parts against each other.
func (in *input) config(root table) *Config {
	c := &Config{
		Process: root.sub("process").process(),
		Log:     root.sub("log").log(),
	}
	var listens, frontends, pools claims
	admin := root.sub("admin")
	proxy := admin.sub("proxy")
	var at adminSockets
	c.Admin, at = admin.admin(proxy)
	listens.listen(admin, "listen", "the admin side", c.Admin.Listen, at.api)
	listens.listen(admin, "probe_listen", "probe_listen of the admin side", c.Admin.ProbeListen, at.probes)
	listens.listen(proxy, "listen", "[admin.proxy]", c.Admin.ProxyListen, at.proxy)
	for _, t := range root.subs("pool") {
		p := t.pool()
		p.Config.Policy.Zone = c.Process.Zone
		pools.name(t, p.Name)
		c.Pools = append(c.Pools, p)
	}
	forward := c.Admin.Settings.Proxy
	pools.refer(proxy, forward.Pool)
	used := map[string]bool{forward.Pool: forward.Enabled && (c.Admin.Listen != "" || c.Admin.ProxyListen != "")}
	for _, t := range root.subs("frontend") {
		f, at := t.frontend()
		frontends.name(t, f.Name)
		listens.listen(t, "listen", t.at(""), f.Listen, at)
		pools.refer(t, f.Pool)
		t.noCircle(f, at, c.Pools)
		used[f.Pool] = true
		c.Frontends = append(c.Frontends, f)
	}
	if len(c.Frontends) == 0 {
		root.wrong("frontend", "missing; write at least one [[frontend]] with name, listen and pool")
	}
	pools.adviseUnused(used)
	return c
}

// noCircle refuses a frontend that is a backend of its own pool: one client would
// become sessions without end. Of this machine's hosts it knows loopback alone:
// whether a file is valid does not depend on where it is checked.
func (t table) noCircle(f Frontend, at *endpoint, pools []Pool) {
	i := slices.IndexFunc(pools, func(p Pool) bool { return p.Name == f.Pool })
	if at == nil || i < 0 {
		return
	}
	for _, b := range pools[i].Config.Backends {
		if e, err := parseBackend(b.Address); err == nil && at.reaches(e, nil) {
			t.wrong("listen", "%s is a backend of pool %s as well, so that sessions would go in a circle",
				quote(f.Listen), quote(f.Pool))
			return
		}
	}
}

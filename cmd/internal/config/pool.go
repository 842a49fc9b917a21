package config

import (
	"cmp"
	"slices"
	"time"

	"sluice/pool"
	"sluice/pool/balance"
	"sluice/pool/health"
)

// pool reads one [[pool]].
func (t table) pool() Pool {
	var p Pool
	var named bool
	if p.Name, named = t.required("name"); named {
		t.checkName("name", p.Name)
	}
	h := t.sub("health")
	p.Probe, p.Health = h.health()
	p.Config = pool.Config{
		Strategy: t.strategy(),
		Policy: pool.Policy{
			MaxFailures: t.whole("max_failures", 3, 0, 1000),
			RetryAfter:  t.duration("retry_after", 10*time.Second, spanRetry),
			SlowStart:   t.duration("slow_start", 0, spanDelay),
			TryAll:      t.word("all_down", "refuse", []string{"refuse", "try"}) == "try",
			CloseDown:   t.word("on_down", "keep", []string{"keep", "close"}) == "close",
			CloseGone:   t.word("on_remove", "drain", []string{"drain", "close"}) == "close",
			DrainFor:    t.duration("drain_timeout", 0, spanLimit),
			SendProxy:   t.sendProxy(),
			QueueMax:    t.whole("queue_max", 0, 0, pool.MaxSessionLimit),
			QueueFor:    t.duration("queue_timeout", 5*time.Second, spanDial),
			HoldFor:     t.duration("hold_timeout", 0, spanDelay),
			ReleaseRate: t.whole("release_rate", 0, 0, pool.MaxSessionLimit),
			Single:      t.boolean("single", false),
			PanicBelow:  t.whole("panic_threshold", 0, 0, 100),
			BackupMin:   t.whole("backup_minimum", 1, 1, 1000),
			ZoneMin:     t.whole("zone_minimum", 1, 1, 1000),
			Probed:      p.Probe.Kind != "none",
			Init:        h.initial(),
		},
	}
	p.Outliers = t.sub("outliers").outliers()
	p.ResolveEvery = t.duration("resolve_interval", 10*time.Second, spanEvery)
	if t.has("queue_timeout") && p.Config.Policy.QueueMax == 0 {
		t.warn("queue_timeout", "has no effect, since queue_max is 0: nobody waits")
	}
	if t.has("retry_after") && p.Probe.Kind != "none" {
		t.warn("retry_after", `has no effect: probes decide when a backend returns, unless health.probe is "none"`)
	}
	p.Config.Backends, p.Groups = t.backends(p.Probe, p.Config.Policy.SendProxy)
	t.advisePolicy(p)
	limited := func(s pool.Spec) bool { return s.MaxSessions > 0 }
	if p.Config.Policy.QueueMax > 0 && p.Config.Policy.HoldFor == 0 && len(p.Config.Backends) > 0 && !slices.ContainsFunc(p.Config.Backends, limited) {
		t.warn("queue_max", "has no effect, since no backend has max_sessions: none is ever full")
	}
	return p
}

// strategy reads strategy, ties and hash_balance_factor.
func (t table) strategy() pool.Strategy {
	name := t.word("strategy", "round_robin", balance.Names())
	ties := t.word("ties", "", []string{"first", "rotate"})
	s, err := balance.ByName(name, ties)
	switch {
	case err != nil:
		t.wrong("strategy", "%v", err)
	case s.Ties == "" && ties != "" && (name == t.values["strategy"] || !t.has("strategy")):
		t.wrong("ties", "%s has no ties; remove it", name)
	}
	bound := t.whole("hash_balance_factor", 0, 0, 10000)
	switch {
	case bound > 0 && bound <= 100:
		t.wrong("hash_balance_factor", "%d leaves no room above a fair share; write more than 100, such as 125, or 0 for no bound", bound)
	case bound > 0 && err == nil && s.Name != "source_hash":
		t.warn("hash_balance_factor", "has no effect, since %s does not hash", s.Name)
	}
	return balance.Bounded(s, bound)
}

// health reads all of [pool.health] but init.
func (t table) health() (probe Probe, p health.Policy) {
	probe = t.probe()
	p = health.Policy{
		Interval:     t.duration("interval", 2*time.Second, spanEvery),
		DownInterval: t.duration("down_interval", time.Second, spanEvery),
		Timeout:      t.duration("timeout", time.Second, spanDial),
		Rise:         t.whole("rise", 2, 1, 1000),
		Fall:         t.whole("fall", 3, 1, 1000),
	}
	if probe.Kind == "none" {
		t.adviseUnprobed()
		return probe, p
	}
	if least := min(p.Interval, p.DownInterval); p.Timeout > least {
		t.warn("timeout", "%s is longer than the shortest interval (%s); a probe that hangs delays the next",
			short(p.Timeout), short(least))
	}
	return probe, p
}

// adviseUnprobed notes the keys that need a probe and have none.
func (t table) adviseUnprobed() {
	if init := t.values["init"]; init == "probe" || init == "down" {
		t.wrong("init", `%q waits for a probe, and probe is "none"; write init = "up", or choose a probe`, init)
	}
	for _, key := range []string{"interval", "down_interval", "timeout", "rise", "fall", "port", "address"} {
		if t.has(key) {
			t.warn(key, `has no effect, since probe is "none"`)
		}
	}
}

// sendProxy reads the version of the PROXY header that sessions to a backend
// begin with; 0 is none.
func (t table) sendProxy() int {
	switch t.word("send_proxy", "off", []string{"off", "v1", "v2"}) {
	case "v1":
		return 1
	case "v2":
		return 2
	}
	return 0
}

// initial reads init.
func (t table) initial() pool.Init {
	switch t.word("init", "up", []string{"up", "probe", "down"}) {
	case "probe":
		return pool.InitProbe
	case "down":
		return pool.InitDown
	default:
		return pool.InitUp
	}
}

// mysqlPort is where MySQL and MariaDB listen. To them a connection that ends
// without a login is an error; after max_connect_errors of them (100) they refuse
// every client from the address of the prober.
const mysqlPort = 3306

// backends reads every [[pool.backend]] and checks them against each other.
func (t table) backends(p Probe, sendProxy int) (specs []pool.Spec, groups []Group) {
	var ids, addresses claims
	for i, b := range t.subs("backend") {
		spec, at := b.backend(sendProxy)
		ids.id(b, spec.ID)
		if at != nil {
			addresses.backend(b, spec.Address, *at)
		}
		if g := b.group(spec, at, i); g != nil {
			groups = append(groups, *g)
			continue
		}
		specs = append(specs, spec)
	}
	if len(groups) == 0 {
		t.adviseBackends(specs)
	}
	for _, c := range addresses.all {
		adviseUnix(c, p)
	}
	i := slices.IndexFunc(addresses.all, func(c claim) bool { return cmp.Or(p.Port, c.at.Port) == mysqlPort })
	if p.Kind == "tcp" && i >= 0 {
		addresses.all[i].table.warn("address", "a plain TCP probe against MySQL or MariaDB (port %d) "+
			`makes the server block this machine in time; write probe = "mysql" in [pool.health], or "none"`, mysqlPort)
	}
	return specs, groups
}

// adviseUnix notes half of another address to probe: a unix socket has neither
// host nor port of its own to complete it.
func adviseUnix(c claim, p Probe) {
	if c.at.Unix != "" && (p.Port == 0) != (p.Address == "") {
		c.table.warn("address", "health.port and health.address have no effect for a unix socket, unless both are given")
	}
}

// adviseBackends warns of a pool that nobody gets a session from.
func (t table) adviseBackends(specs []pool.Spec) {
	switch {
	case len(specs) == 0:
		t.warn("", "has no backend; every session is refused, or held for hold_timeout, until one is added by the API")
	case !slices.ContainsFunc(specs, func(s pool.Spec) bool { return s.Weight > 0 }):
		t.warn("", "every backend has weight 0; every session is refused, or held for hold_timeout")
	}
}

// backend reads one [[pool.backend]]. The endpoint is nil if it is not known.
func (t table) backend(sendProxy int) (pool.Spec, *endpoint) {
	parse := parseBackend
	if t.values["resolve"] == "srv" {
		parse = parseService
	}
	address, at := t.endpoint("address", parse)
	s := pool.Spec{
		ID:          t.text("id", address),
		Address:     address,
		Weight:      t.whole("weight", 1, 0, pool.MaxWeight),
		MaxSessions: t.whole("max_sessions", 0, 0, pool.MaxSessionLimit),
		SendProxy:   sendProxy,
		Backup:      t.whole("backup", 0, 0, pool.MaxTier),
		Zone:        t.text("zone", ""),
	}
	if t.has("send_proxy") && t.values["send_proxy"] != "" {
		s.SendProxy = t.sendProxy()
	}
	switch {
	case t.has("id") && t.values["id"] == s.ID:
		t.checkName("id", s.ID)
	case at != nil && pool.CheckName(address) != nil:
		t.wrong("id", "missing; the address has characters that an id cannot have, so it cannot stand for one")
	}
	return s, at
}

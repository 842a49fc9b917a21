package balancer

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"sluice/cmd/internal/config"
	"sluice/pool"
)

// differences tells what differs between two configurations, in the words of the
// file. What a pool makes of its backends, pools tell.
func differences(old, new *config.Config, pools func(config.Pool) []pool.Edit) []pool.Edit {
	d := &differ{own: pools}
	d.process(old.Process, new.Process)
	d.log(old.Log, new.Log)
	d.admin(old.Admin, new.Admin)
	d.frontends(old.Frontends, new.Frontends)
	d.pools(old.Pools, new.Pools)
	return d.edits
}

// differ collects edits.
type differ struct {
	own   func(config.Pool) []pool.Edit
	edits []pool.Edit
}

// altered adds an edit, unless nothing differs.
func (d *differ) altered(kind, name string, e edit) {
	if len(e.Keys) > 0 {
		e.Kind, e.Name, e.Change = kind, name, "altered"
		d.edits = append(d.edits, e.Edit)
	}
}

func (d *differ) note(kind, name, change, note string) {
	d.edits = append(d.edits, pool.Edit{Kind: kind, Name: name, Change: change, Note: note})
}

// edit is one in the making.
type edit struct{ pool.Edit }

// secret is Alter for values that must not be shown.
func (e *edit) secret(key string, differs bool) {
	if differs {
		e.Keys = append(e.Keys, pool.Key{Key: key})
	}
}

// list is Alter for a list that may be too long to show.
func (e *edit) list(key string, old, new []netip.Prefix) {
	if slices.Equal(old, new) {
		return
	}
	k := pool.Key{Key: key, From: fmt.Sprint(len(old), " entries"), To: fmt.Sprint(len(new), " entries")}
	if len(old) == len(new) {
		k.Note = "not the same ones"
	}
	e.Keys = append(e.Keys, k)
}

func (d *differ) process(old, new config.Process) {
	var e edit
	e.Alter("drain_timeout", old.DrainTimeout, new.DrainTimeout)
	e.Alter("pre_drain_delay", old.PreDrainDelay, new.PreDrainDelay)
	e.Alter("watch", old.Watch, new.Watch)
	e.Alter("state_file", old.StateFile, new.StateFile)
	e.Alter("engine", old.Engine, new.Engine)
	e.Alter("loops", old.Loops, new.Loops)
	e.Alter("max_sessions", old.MaxSessions, new.MaxSessions)
	e.Alter("zone", old.Zone, new.Zone)
	e.Alter("resolver", old.Resolver, new.Resolver)
	d.altered("process", "", e)
}

func (d *differ) log(old, new config.Log) {
	var e edit
	e.Alter("level", old.Level, new.Level)
	e.Alter("format", old.Format, new.Format)
	e.Alter("access", old.Access, new.Access)
	e.Alter("log_empty", old.LogEmpty, new.LogEmpty)
	d.altered("log", "", e)
}

func (d *differ) admin(old, new config.Admin) {
	var e edit
	e.Alter("listen", old.Listen, new.Listen)
	e.Alter("mode", octal(old.Mode), octal(new.Mode))
	e.Alter("probe_listen", old.ProbeListen, new.ProbeListen)
	e.Alter("hosts", old.Settings.Hosts, new.Settings.Hosts)
	e.Alter("token_file", old.TokenFile, new.TokenFile)
	e.secret("tokens", !slices.Equal(old.Settings.Tokens, new.Settings.Tokens))
	d.altered("admin", "", e)

	var p edit
	was, is := old.Settings.Proxy, new.Settings.Proxy
	p.Alter("enabled", was.Enabled, is.Enabled)
	p.Alter("pool", was.Pool, is.Pool)
	p.Alter("listen", old.ProxyListen, new.ProxyListen)
	p.list("trusted_from", was.TrustedFrom, is.TrustedFrom)
	p.Alter("response_timeout", was.ResponseTimeout, is.ResponseTimeout)
	d.altered("admin.proxy", "", p)
}

func octal(mode uint32) string { return fmt.Sprintf("%#o", mode) }

func (d *differ) frontends(old, new []config.Frontend) {
	before := make(map[string]config.Frontend)
	for _, f := range old {
		before[f.Name] = f
	}
	for _, f := range new {
		if was, ok := before[f.Name]; ok {
			d.frontend(was, f)
		} else {
			d.note("frontend", f.Name, "added", "listens on "+f.Listen)
		}
		delete(before, f.Name)
	}
	for _, f := range old {
		if _, gone := before[f.Name]; gone {
			d.note("frontend", f.Name, "removed", "no longer listens on "+f.Listen)
		}
	}
}

func (d *differ) frontend(old, new config.Frontend) {
	var e edit
	e.Alter("listen", old.Listen, new.Listen)
	e.Alter("mode", octal(old.Mode), octal(new.Mode))
	e.Alter("pool", old.Pool, new.Pool)
	e.Alter("max_sessions", old.MaxSessions, new.MaxSessions)
	e.admission(old.Admission, new.Admission)
	was, is := old.Settings, new.Settings
	e.Alter("attempts", was.Attempts, is.Attempts)
	e.Alter("connect_timeout", was.ConnectTimeout, is.ConnectTimeout)
	e.Alter("dial_budget", was.DialBudget, is.DialBudget)
	e.Alter("idle_timeout", was.IdleTimeout, is.IdleTimeout)
	e.Alter("half_close_timeout", was.HalfCloseTimeout, is.HalfCloseTimeout)
	e.Alter("keepalive.idle", was.KeepAlive.Idle, is.KeepAlive.Idle)
	e.Alter("keepalive.interval", was.KeepAlive.Interval, is.KeepAlive.Interval)
	e.Alter("keepalive.count", was.KeepAlive.Count, is.KeepAlive.Count)
	e.Alter("user_timeout", was.UserTimeout, is.UserTimeout)
	e.Alter("max_session_age", was.MaxAge, is.MaxAge)
	e.Alter("max_session_age_jitter", was.AgeJitter, is.AgeJitter)
	d.altered("frontend", new.Name, e)
}

// admission tells what differs in who may come in.
func (e *edit) admission(old, new config.Admission) {
	e.Alter("max_sessions_per_client", old.SessionsPerClient, new.SessionsPerClient)
	e.Alter("max_rate_per_client", old.RatePerClient, new.RatePerClient)
	e.list("allow", old.Allow, new.Allow)
	e.list("deny", old.Deny, new.Deny)
	e.Alter("proxy_protocol", old.Header, new.Header)
	e.list("proxy_protocol_from", old.HeaderFrom, new.HeaderFrom)
	e.Alter("proxy_header_timeout", old.HeaderTimeout, new.HeaderTimeout)
}

func (d *differ) pools(old, new []config.Pool) {
	before := make(map[string]config.Pool)
	for _, p := range old {
		before[p.Name] = p
	}
	for _, p := range new {
		var health edit
		was, ok := before[p.Name]
		if ok {
			health.probing(was, p)
		} else {
			d.note("pool", p.Name, "added", contents(p))
		}
		d.pool(p, health)
		d.names(p.Name, was.Groups, p.Groups)
		delete(before, p.Name)
	}
	for _, p := range old {
		if _, gone := before[p.Name]; gone {
			d.gone(p)
		}
	}
}

// contents says what a pool has.
func contents(p config.Pool) string {
	text := fmt.Sprintf("backends: %d", len(p.Config.Backends))
	if len(p.Groups) > 0 {
		text += fmt.Sprintf(", names: %d", len(p.Groups))
	}
	return text
}

// names tells what differs in the names that stand for several backends. These
// the pool tells one by one.
func (d *differ) names(in string, old, new []config.Group) {
	before := make(map[string]config.Group)
	for _, g := range old {
		before[g.Spec.ID] = g
	}
	for _, g := range new {
		var e edit
		e.Kind, e.Pool, e.Name, e.Address, e.Change = "name", in, g.Spec.ID, g.Spec.Address, "added"
		if was, ok := before[g.Spec.ID]; ok {
			e.Change = "altered"
			e.group(was, g)
		}
		if delete(before, g.Spec.ID); e.Change == "added" || len(e.Keys) > 0 {
			d.edits = append(d.edits, e.Edit)
		}
	}
	for _, g := range old {
		if _, gone := before[g.Spec.ID]; gone {
			d.edits = append(d.edits, pool.Edit{Kind: "name", Pool: in, Name: g.Spec.ID, Address: g.Spec.Address, Change: "removed"})
		}
	}
}

// group tells what differs in one name.
func (e *edit) group(old, new config.Group) {
	e.Alter("address", old.Spec.Address, new.Spec.Address)
	e.Alter("resolve", resolveWord(old), resolveWord(new))
	e.Alter("weight", old.Spec.Weight, new.Spec.Weight)
	e.Alter("max_sessions", old.Spec.MaxSessions, new.Spec.MaxSessions)
	e.Alter("send_proxy", old.Spec.SendProxy, new.Spec.SendProxy)
	e.Alter("backup", old.Spec.Backup, new.Spec.Backup)
	e.Alter("zone", old.Spec.Zone, new.Spec.Zone)
}

// resolveWord is how the file says what a name stands for.
func resolveWord(g config.Group) string {
	if g.SRV {
		return "srv"
	}
	return "all"
}

// pool adds what the pool itself tells. That of the pool as a whole is one edit.
func (d *differ) pool(p config.Pool, health edit) {
	var backends []pool.Edit
	whole := health
	for _, e := range d.own(p) {
		if e.Kind != "pool" {
			backends = append(backends, e)
			continue
		}
		whole.Keys = append(whole.Keys, e.Keys...)
		whole.Sessions, whole.Fate = e.Sessions, e.Fate
	}
	d.altered("pool", p.Name, whole)
	d.edits = append(d.edits, backends...)
}

// gone adds a pool that is removed, and its backends with it.
func (d *differ) gone(p config.Pool) {
	whole := pool.Edit{Kind: "pool", Name: p.Name, Change: "removed"}
	backends := d.own(config.Pool{Name: p.Name})
	for _, e := range backends {
		whole.Sessions += e.Sessions
		whole.Fate = cmp.Or(whole.Fate, e.Fate)
	}
	d.edits = append(append(d.edits, whole), backends...)
}

// probing notes what a pool cannot know: how it is probed.
func (e *edit) probing(old, new config.Pool) {
	e.Alter("health.probe", old.Probe.Kind, new.Probe.Kind)
	e.secret("health.send", old.Probe.Send != new.Probe.Send)
	e.Alter("health.expect", old.Probe.Expect, new.Probe.Expect)
	e.secret("health.path", old.Probe.Path != new.Probe.Path) // its query may hold a token
	e.Alter("health.host", old.Probe.Host, new.Probe.Host)
	e.Alter("health.status", old.Probe.Status, new.Probe.Status)
	e.Alter("health.port", old.Probe.Port, new.Probe.Port)
	e.Alter("health.address", old.Probe.Address, new.Probe.Address)
	e.Alter("health.interval", old.Health.Interval, new.Health.Interval)
	e.Alter("health.down_interval", old.Health.DownInterval, new.Health.DownInterval)
	e.Alter("health.timeout", old.Health.Timeout, new.Health.Timeout)
	e.Alter("health.rise", old.Health.Rise, new.Health.Rise)
	e.Alter("health.fall", old.Health.Fall, new.Health.Fall)
	e.login(old.Probe, new.Probe)
	e.encryption(old.Probe.TLS, new.Probe.TLS)
	e.outliers(old.Outliers, new.Outliers)
	e.Alter("resolve_interval", old.ResolveEvery, new.ResolveEvery)
}

// login notes what differs in the probes that log in.
func (e *edit) login(old, new config.Probe) {
	e.Alter("health.role", old.Role, new.Role)
	e.Alter("health.user", old.User, new.User)
	e.Alter("health.password_file", old.PasswordFile, new.PasswordFile)
	e.Alter("health.password_env", old.PasswordEnv, new.PasswordEnv)
	e.secret("health.password", old.Password != new.Password)
	e.Alter("health.database", old.Database, new.Database)
	e.Alter("health.max_lag", old.MaxLag, new.MaxLag)
	e.Alter("health.min_replicas", old.MinReplicas, new.MinReplicas)
	e.Alter("health.wsrep_ready", old.WsrepReady, new.WsrepReady)
}

func (e *edit) encryption(old, new config.TLS) {
	e.Alter("health.tls", old.Mode, new.Mode)
	e.Alter("health.tls_ca_file", old.CAFile, new.CAFile)
	e.Alter("health.tls_cert_file", old.CertFile, new.CertFile)
	e.Alter("health.tls_key_file", old.KeyFile, new.KeyFile)
	e.Alter("health.tls_server_name", old.ServerName, new.ServerName)
	e.secret("health.tls files", !bytes.Equal(old.CA, new.CA) || !bytes.Equal(old.Cert, new.Cert) || old.Key != new.Key)
}

func (e *edit) outliers(old, new config.Outliers) {
	e.Alter("outliers.detect", old.Detect, new.Detect)
	e.Alter("outliers.interval", old.Interval, new.Interval)
	e.Alter("outliers.min_sessions", old.MinSessions, new.MinSessions)
	e.Alter("outliers.failure_share", old.FailureShare, new.FailureShare)
	e.Alter("outliers.early", old.Early, new.Early)
	e.Alter("outliers.dial_factor", old.DialFactor, new.DialFactor)
	e.Alter("outliers.max_ejected", old.MaxEjected, new.MaxEjected)
	e.Alter("outliers.eject_for", old.EjectFor, new.EjectFor)
	e.Alter("outliers.eject_max", old.EjectMax, new.EjectMax)
}

package balancer

import (
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

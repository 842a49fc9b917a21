package balancer

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"sluice/cmd/internal/config"
)

// differences tells what differs between two configurations, one line each, in
// the words of the file. What a pool makes of its backends, the pool tells.
func differences(old, new *config.Config) []string {
	d := &differ{}
	d.process(old, new)
	d.admin(old.Admin, new.Admin)
	d.frontends(old.Frontends, new.Frontends)
	d.pools(old.Pools, new.Pools)
	return d.lines
}

// differ collects lines about one thing after the other.
type differ struct {
	about string // what the keys belong to
	lines []string
}

// key notes a key whose value changed. note, which may be empty, is added.
func (d *differ) key(name string, old, new any, note string) {
	if !reflect.DeepEqual(old, new) {
		d.say("%s %v -> %v%s", name, old, new, note)
	}
}

// secret is key for values that must not be shown.
func (d *differ) secret(name string, old, new any) {
	if !reflect.DeepEqual(old, new) {
		d.say("%s changed", name)
	}
}

func (d *differ) say(format string, args ...any) {
	d.lines = append(d.lines, d.about+": "+fmt.Sprintf(format, args...))
}

func (d *differ) process(old, new *config.Config) {
	d.about = "process"
	d.key("drain_timeout", old.Process.DrainTimeout, new.Process.DrainTimeout, "")
	d.key("pre_drain_delay", old.Process.PreDrainDelay, new.Process.PreDrainDelay, "")
	d.key("watch", old.Process.Watch, new.Process.Watch, "")
	d.key("state_file", old.Process.StateFile, new.Process.StateFile, "")
	d.key("engine", old.Process.Engine, new.Process.Engine, ", takes effect at the next start")
	d.key("loops", old.Process.Loops, new.Process.Loops, ", takes effect at the next start")
	d.key("max_sessions", old.Process.MaxSessions, new.Process.MaxSessions, "")
	d.about = "log"
	d.key("level", old.Log.Level, new.Log.Level, "")
	d.key("format", old.Log.Format, new.Log.Format, "")
	d.key("access", old.Log.Access, new.Log.Access, "")
	d.key("log_empty", old.Log.LogEmpty, new.Log.LogEmpty, "")
}

func (d *differ) admin(old, new config.Admin) {
	d.about = "admin"
	d.key("listen", old.Listen, new.Listen, "")
	d.key("mode", fmt.Sprintf("%#o", old.Mode), fmt.Sprintf("%#o", new.Mode), "")
	d.key("probe_listen", old.ProbeListen, new.ProbeListen, "")
	d.key("hosts", old.Settings.Hosts, new.Settings.Hosts, "")
	d.key("token_file", old.TokenFile, new.TokenFile, "")
	d.secret("tokens", old.Settings.Tokens, new.Settings.Tokens)
	d.about = "admin.proxy"
	d.key("enabled", old.Settings.Proxy.Enabled, new.Settings.Proxy.Enabled, "")
	d.key("pool", old.Settings.Proxy.Pool, new.Settings.Proxy.Pool, "")
	d.key("listen", old.ProxyListen, new.ProxyListen, "")
	d.key("trusted_from", old.Settings.Proxy.TrustedFrom, new.Settings.Proxy.TrustedFrom, "")
	d.key("response_timeout", old.Settings.Proxy.ResponseTimeout, new.Settings.Proxy.ResponseTimeout, "")
}

func (d *differ) frontends(old, new []config.Frontend) {
	before := make(map[string]config.Frontend)
	for _, f := range old {
		before[f.Name] = f
	}
	for _, f := range new {
		d.about = "frontend " + f.Name
		if was, ok := before[f.Name]; ok {
			d.frontend(was, f)
		} else {
			d.say("added, listens on %s", f.Listen)
		}
		delete(before, f.Name)
	}
	for _, f := range old {
		if _, gone := before[f.Name]; gone {
			d.about = "frontend " + f.Name
			d.say("removed, no longer listens on %s", f.Listen)
		}
	}
}

func (d *differ) frontend(old, new config.Frontend) {
	d.key("listen", old.Listen, new.Listen, "")
	d.key("mode", fmt.Sprintf("%#o", old.Mode), fmt.Sprintf("%#o", new.Mode), "")
	d.key("pool", old.Pool, new.Pool, "")
	d.key("max_sessions", old.MaxSessions, new.MaxSessions, "")
	d.admission(old.Admission, new.Admission)
	was, is := old.Settings, new.Settings
	d.key("attempts", was.Attempts, is.Attempts, "")
	d.key("connect_timeout", was.ConnectTimeout, is.ConnectTimeout, "")
	d.key("dial_budget", was.DialBudget, is.DialBudget, "")
	d.key("idle_timeout", was.IdleTimeout, is.IdleTimeout, "")
	d.key("half_close_timeout", was.HalfCloseTimeout, is.HalfCloseTimeout, "")
	d.key("keepalive.idle", was.KeepAlive.Idle, is.KeepAlive.Idle, "")
	d.key("keepalive.interval", was.KeepAlive.Interval, is.KeepAlive.Interval, "")
	d.key("keepalive.count", was.KeepAlive.Count, is.KeepAlive.Count, "")
	d.key("user_timeout", was.UserTimeout, is.UserTimeout, "")
}

// admission tells what differs in who may come in. Lists may be long.
func (d *differ) admission(old, new config.Admission) {
	d.key("max_sessions_per_client", old.SessionsPerClient, new.SessionsPerClient, "")
	d.key("max_rate_per_client", old.RatePerClient, new.RatePerClient, "")
	d.list("allow", old.Allow, new.Allow)
	d.list("deny", old.Deny, new.Deny)
	d.key("proxy_protocol", old.Header, new.Header, "")
	d.list("proxy_protocol_from", old.HeaderFrom, new.HeaderFrom)
	d.key("proxy_header_timeout", old.HeaderTimeout, new.HeaderTimeout, "")
}

// list is key for a list that may be too long to show.
func (d *differ) list(name string, old, new []netip.Prefix) {
	if !slices.Equal(old, new) {
		d.say("%s changed (%d entries -> %d)", name, len(old), len(new))
	}
}

func (d *differ) pools(old, new []config.Pool) {
	before := make(map[string]config.Pool)
	for _, p := range old {
		before[p.Name] = p
	}
	for _, p := range new {
		d.about = "pool " + p.Name
		if was, ok := before[p.Name]; ok {
			d.pool(was, p)
		} else {
			d.say("added (backends: %d)", len(p.Config.Backends))
		}
		delete(before, p.Name)
	}
	for _, p := range old {
		if _, gone := before[p.Name]; gone {
			d.about = "pool " + p.Name
			d.say("removed")
		}
	}
}

// pool notes what pool.Apply cannot know: how the pool is probed.
func (d *differ) pool(old, new config.Pool) {
	d.key("health.probe", old.Probe.Kind, new.Probe.Kind, "")
	d.secret("health.send", old.Probe.Send, new.Probe.Send)
	d.key("health.expect", old.Probe.Expect, new.Probe.Expect, "")
	d.key("health.path", old.Probe.Path, new.Probe.Path, "")
	d.key("health.host", old.Probe.Host, new.Probe.Host, "")
	d.key("health.status", old.Probe.Status, new.Probe.Status, "")
	d.key("health.port", old.Probe.Port, new.Probe.Port, "")
	d.key("health.address", old.Probe.Address, new.Probe.Address, "")
	d.key("health.interval", old.Health.Interval, new.Health.Interval, "")
	d.key("health.down_interval", old.Health.DownInterval, new.Health.DownInterval, "")
	d.key("health.timeout", old.Health.Timeout, new.Health.Timeout, "")
	d.key("health.rise", old.Health.Rise, new.Health.Rise, "")
	d.key("health.fall", old.Health.Fall, new.Health.Fall, "")
}

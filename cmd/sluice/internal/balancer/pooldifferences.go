package balancer

import (
	"bytes"
	"cmp"
	"fmt"

	"sluice/cmd/internal/config"
	"sluice/pool"
)

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
	e.Alter("send_proxy", headerWord(old.Spec.SendProxy), headerWord(new.Spec.SendProxy))
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

// headerWord is how the file names a version of the PROXY header.
func headerWord(version int) string { return [...]string{"off", "v1", "v2"}[version] }

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

package pool

import "fmt"

func (d *comparison) strategy(s Strategy) {
	p := d.p
	overridden := !p.strategy.same(p.file)
	switch {
	case s.same(p.file):
	case overridden && s.Name == p.file.Name:
		var e Edit
		e.Alter("ties", p.file.Ties, s.Ties)
		e.Alter("hash_balance_factor", p.file.Bound, s.Bound)
		d.pool(e, func() { p.file = s })
	default:
		k := Key{Key: "strategy", From: describe(p.strategy), To: describe(s), ByAPI: overridden}
		d.pool(Edit{Keys: []Key{k}}, func() { p.file, p.strategy = s, s })
	}
}

func describe(s Strategy) string {
	switch {
	case s.Ties != "":
		return s.Name + " (ties " + s.Ties + ")"
	case s.Bound > 0:
		return fmt.Sprintf("%s (hash_balance_factor %d)", s.Name, s.Bound)
	}
	return s.Name
}

func (d *comparison) policies() {
	old, pol := d.p.policy, d.policy
	var e Edit
	e.Alter("max_failures", old.MaxFailures, pol.MaxFailures)
	e.Alter("retry_after", old.RetryAfter, pol.RetryAfter)
	e.Alter("slow_start", old.SlowStart, pol.SlowStart)
	e.Alter("on_down", onDown(old.CloseDown), onDown(pol.CloseDown))
	e.Alter("on_remove", onRemove(old.CloseGone), onRemove(pol.CloseGone))
	e.Alter("drain_timeout", old.DrainFor, pol.DrainFor)
	e.Alter("send_proxy", proxyVersion(old.SendProxy), proxyVersion(pol.SendProxy))
	e.Alter("queue_max", old.QueueMax, pol.QueueMax)
	e.Alter("queue_timeout", old.QueueFor, pol.QueueFor)
	e.Alter("hold_timeout", old.HoldFor, pol.HoldFor)
	e.Alter("release_rate", old.ReleaseRate, pol.ReleaseRate)
	e.Alter("single", old.Single, pol.Single)
	e.Alter("panic_threshold", old.PanicBelow, pol.PanicBelow)
	e.Alter("backup_minimum", old.BackupMin, pol.BackupMin)
	e.Alter("zone", old.Zone, pol.Zone)
	e.Alter("zone_minimum", old.ZoneMin, pol.ZoneMin)
	e.Alter("all_down", allDown(old.TryAll), allDown(pol.TryAll))
	e.Alter("active probes", onOff(old.Probed), onOff(pol.Probed))
	e.Alter("init", old.Init, pol.Init)
	d.pool(e, func() { d.p.adoptLocked(pol) })
}

func allDown(try bool) string {
	if try {
		return "try"
	}
	return "refuse"
}

func onDown(ends bool) string {
	if ends {
		return "close"
	}
	return "keep"
}

func onRemove(ends bool) string {
	if ends {
		return "close"
	}
	return "drain"
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func proxyVersion(n int) string {
	if n == 0 {
		return "off"
	}
	return fmt.Sprintf("v%d", n)
}

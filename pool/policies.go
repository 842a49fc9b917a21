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
	e.Alter("on_down", either(old.CloseDown, "close", "keep"), either(pol.CloseDown, "close", "keep"))
	e.Alter("on_remove", either(old.CloseGone, "close", "drain"), either(pol.CloseGone, "close", "drain"))
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
	e.Alter("all_down", either(old.TryAll, "try", "refuse"), either(pol.TryAll, "try", "refuse"))
	e.Alter("active probes", either(old.Probed, "on", "off"), either(pol.Probed, "on", "off"))
	e.Alter("init", old.Init, pol.Init)
	d.pool(e, func() { d.p.adoptLocked(pol) })
}

// either is how the file says whether something is on.
func either(on bool, yes, no string) string {
	if on {
		return yes
	}
	return no
}

func proxyVersion(n int) string {
	if n == 0 {
		return "off"
	}
	return fmt.Sprintf("v%d", n)
}

package config

import "time"

// outliers reads [pool.outliers].
func (t table) outliers() Outliers {
	o := Outliers{
		Detect:       t.boolean("detect", false),
		Interval:     t.duration("interval", 10*time.Second, spanEvery),
		MinSessions:  t.whole("min_sessions", 20, 1, 1_000_000),
		FailureShare: t.whole("failure_share", 50, 0, 100),
		Early:        t.duration("early", time.Second, spanDial),
		DialFactor:   t.whole("dial_factor", 5, 0, 1000),
		MaxEjected:   t.whole("max_ejected", 30, 0, 100),
		EjectFor:     t.duration("eject_for", 30*time.Second, spanRetry),
		EjectMax:     t.duration("eject_max", 5*time.Minute, spanRetry),
	}
	if o.EjectMax < o.EjectFor {
		t.wrong("eject_max", "%s is shorter than eject_for (%s); write at least as much", short(o.EjectMax), short(o.EjectFor))
	}
	return o
}

// advisePolicy notes keys of a pool that do not fit together.
func (t table) advisePolicy(p Pool) {
	pol := p.Config.Policy
	switch {
	case pol.HoldFor > 0 && pol.QueueMax == 0:
		t.wrong("hold_timeout", "needs queue_max, which says how many clients may wait; set it, such as queue_max = 1000")
	case t.has("release_rate") && pol.HoldFor == 0:
		t.warn("release_rate", "has no effect, since hold_timeout is 0: nobody waits for a backend to come up")
	}
	switch {
	case !pol.Single:
	case !pol.Probed:
		t.wrong("single", `needs a probe that tells who is the primary, and probe is "none"; choose another`)
	case pol.TryAll:
		t.wrong("single", `all_down = "try" would send sessions to backends that no probe found to be the primary; remove one of the two`)
	}
	if pol.Single && len(p.Config.Backends)+len(p.Groups) > 1 && p.Probe.passesAll() {
		t.warn("single", "its probe passes every backend that is well, and not the primary alone: of several nobody is chosen, and nobody gets in; "+
			`probe "redis", "postgres" or "mysql" with role = "primary"`)
	}
	if pol.PanicBelow > 0 && !pol.TryAll {
		t.warn("panic_threshold", `has no effect, unless all_down is "try"`)
	}
}

// passesAll reports whether a probe cannot tell a primary from others. What one
// that asks by HTTP, or expects an answer, is told nobody knows.
func (p Probe) passesAll() bool {
	switch p.Kind {
	case "tcp":
		return p.Expect == ""
	case "redis", "postgres", "mysql":
		return p.Role != "primary"
	}
	return false
}

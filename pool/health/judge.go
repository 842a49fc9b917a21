package health

import (
	"fmt"

	"sluice/pool"
)

// streak counts equal results in a row, under one health.
type streak struct {
	of     pool.Health
	passed bool
	length int
}

// judge returns the streak with one more result, and the health that follows
// for a backend whose health is h. An unknown backend is decided by its first
// result. A streak begins anew when somebody else has changed the health.
func judge(s streak, h pool.Health, passed bool, pol Policy) (streak, pool.Health) {
	if s.of != h || s.passed != passed {
		s = streak{of: h, passed: passed}
	}
	s.length++
	switch {
	case h != pool.Up && passed && (h == pool.Unknown || s.length >= pol.Rise):
		return s, pool.Up
	case h != pool.Down && !passed && (h == pool.Unknown || s.length >= pol.Fall):
		return s, pool.Down
	}
	return s, h
}

// began reports whether a result is the first failure in a row under health h.
func (s streak) began(h pool.Health, err error) bool { return s.of == h && err != nil && s.length == 1 }

// evidence is the reason of a verdict: the results that led to it.
func evidence(s streak, err error) string {
	switch {
	case s.of == pool.Unknown && err == nil:
		return "first probe passed"
	case s.of == pool.Unknown:
		return fmt.Sprintf("first probe failed: %v", err)
	case s.length == 1 && err == nil:
		return "1 probe passed"
	case s.length == 1:
		return fmt.Sprintf("1 probe failed: %v", err)
	case err == nil:
		return fmt.Sprintf("%d probes in a row passed", s.length)
	default:
		return fmt.Sprintf("%d probes in a row failed, the last: %v", s.length, err)
	}
}

package pool_test

import (
	"testing"

	"sluice/pool"
)

// scripted is a strategy whose picks are the test's.
func scripted(pick func(eligible []*pool.Member) *pool.Member) pool.Strategy {
	return pool.Strategy{Name: "scripted", Build: func(eligible []*pool.Member, _ pool.Picker) pool.Picker {
		return pickFunc(func(pool.Query) *pool.Member { return pick(eligible) })
	}}
}

type pickFunc func(pool.Query) *pool.Member

func (f pickFunc) Pick(q pool.Query) *pool.Member { return f(q) }

func (f pickFunc) Preview(pool.Query) (*pool.Member, bool) { return nil, false }

// Whoever ends the sessions of a removed backend must not be overtaken by a pick
// that had begun before the removal.
func TestRemovalDuringAPick(t *testing.T) {
	var p *pool.Pool
	p = newPool(t, pool.Config{Backends: parse(t, "a b"), Strategy: scripted(func(eligible []*pool.Member) *pool.Member {
		m := eligible[0]
		if m.ID() == "a" {
			p.Remove("a")
		}
		m.Reserve()
		return m
	})})
	want(t, "picks", picks(t, p, 2), "b b")
	want(t, "rows", len(p.Status().Backends), 1)
}

func TestReserve(t *testing.T) {
	var m *pool.Member
	p := newPool(t, pool.Config{Backends: parse(t, "a=1/2"), Strategy: scripted(func(eligible []*pool.Member) *pool.Member {
		m = eligible[0]
		return nil
	})})
	p.Acquire(new(pool.Lease), pool.Query{})
	want(t, "at another count", m.ReserveAt(1), false)
	want(t, "at the count", m.ReserveAt(0), true)
	want(t, "usable but avoided", m.Usable(pool.Query{Avoid: []*pool.Backend{m.Backend}}), false)
	want(t, "the last slot", m.Reserve(), true)
	want(t, "usable when full", m.Usable(pool.Query{}), false)
	want(t, "when full", m.Reserve(), false)
	want(t, "at the count when full", m.ReserveAt(2), false)
	want(t, "active", m.Active(), 2)
}

// A reservation that finds the backend full gives the trial back.
func TestReserveOfAFullBackendLeavesTheTrialOpen(t *testing.T) {
	trial(t, func(f *fixture, a *pool.Backend) {
		var m *pool.Member
		f.SetStrategy(scripted(func(eligible []*pool.Member) *pool.Member {
			if m = eligible[0]; m.Reserve() {
				return m
			}
			return nil
		}))
		one := 1
		f.Patch("a", pool.Patch{MaxSessions: &one})
		f.SetHealth(a, pool.Up, "x")
		l := acquire(t, f.Pool)
		f.SetHealth(a, pool.Down, "x")
		pass(retryAfter)
		err := f.Acquire(new(pool.Lease), pool.Query{})
		want(t, "while full", err != nil, true)
		l.Release()
		want(t, "with room", m.Reserve(), true)
	})
}

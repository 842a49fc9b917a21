package l4

import (
	"slices"

	"sluice/l4/session"
)

// Order orders the sessions that m matches to end with cause. It does not wait,
// and may be called where nothing may: from a hook of a pool, whoever calls that.
func (e *Engine) Order(m session.Match, cause session.Cause) { e.driver.order(m, cause) }

// End orders the sessions that m matches to end with cause, waits until each has
// the order, and returns how many took it: one that is ending already does not.
func (e *Engine) End(m session.Match, cause session.Cause) int { return e.driver.order(m, cause)() }

// Sessions lists the sessions that m matches, most of them at most and those
// behind the id after, in the order of their ids. more says that others follow.
func (e *Engine) Sessions(m session.Match, after session.Key, most int) (rows []session.Row, more bool) {
	keys, more := e.page(m, after, most)
	wanted := make(map[session.Key]bool, len(keys))
	for _, k := range keys {
		wanted[k] = true
	}
	if len(keys) == 0 {
		return nil, false
	}
	e.driver.look(func(s shown) {
		if wanted[s.brain.Key()] {
			rows = append(rows, s.row())
		}
	})
	slices.SortFunc(rows, func(a, b session.Row) int { return a.Key.Compare(b.Key) })
	return rows, more
}

// page returns the first keys behind after.
func (e *Engine) page(m session.Match, after session.Key, most int) (keys []session.Key, more bool) {
	first := func() {
		slices.SortFunc(keys, session.Key.Compare)
		more = more || len(keys) > most
		keys = keys[:min(most, len(keys))]
	}
	e.driver.look(func(s shown) {
		if k := s.brain.Key(); k.Compare(after) > 0 && s.brain.Matches(s.now, &m) {
			keys = append(keys, k)
		}
		if len(keys) > 2*most {
			first()
		}
	})
	first()
	return keys, more
}

func (s shown) row() session.Row {
	r := s.brain.Row(s.now)
	for side := range session.Side(2) {
		r.Links[side] = s.socks.link(side)
	}
	return r
}

package l4

import (
	"cmp"
	"container/heap"
	"time"

	"sluice/l4/session"
)

// EndIdlest orders those n of the sessions that m matches to end with cause that
// were without progress for the longest, waits until each has the order, and
// returns how many took it: fewer than n if fewer match, or if some went on
// meanwhile. A session with bytes on their way to either side is not ended: who
// reads slowly is not idle. It looks at all sessions twice, some at a time, and
// keeps n of them in mind.
func (e *Engine) EndIdlest(m session.Match, n int, cause session.Cause) (ended int) {
	if n <= 0 {
		return 0
	}
	var most idlest
	e.driver.look(func(s shown) {
		if s.brain.Matches(s.now, &m) {
			most.add(s, n)
		}
	})
	if len(most) == 0 {
		return 0
	}
	among, idle := make(session.Keys, len(most)), most[0].idle
	for _, s := range most {
		among[s.key] = struct{}{}
		idle = min(idle, s.idle)
	}
	m.Among = &among
	m.MinIdle = max(m.MinIdle, idle) // who had something to say since the look is spared
	return e.End(m, cause)
}

// silence is for how long a session made no progress.
type silence struct {
	key   session.Key
	since time.Time
	idle  time.Duration // at the look, by the clock of its owner
}

// idlest are some sessions: a heap, with the one that was idle for the shortest on
// top. Of those idle for equally long the oldest stay.
type idlest []silence

// add takes a session in, if it belongs to the n idlest so far. The kernel is asked
// about those alone.
func (h *idlest) add(seen shown, n int) {
	idle := seen.brain.Idle(seen.now)
	s := silence{seen.brain.Key(), seen.now.Add(-idle), idle}
	full := len(*h) == n
	switch {
	case full && !(*h)[0].before(s), seen.socks.owed(session.Client) > 0, seen.socks.owed(session.Backend) > 0:
	case full:
		(*h)[0] = s
		heap.Fix(h, 0)
	default:
		heap.Push(h, s)
	}
}

func (s silence) before(o silence) bool {
	return cmp.Or(o.since.Compare(s.since), o.key.Compare(s.key)) < 0
}

func (h idlest) Len() int           { return len(h) }
func (h idlest) Less(i, j int) bool { return h[i].before(h[j]) }
func (h idlest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *idlest) Push(x any)        { *h = append(*h, x.(silence)) }
func (h *idlest) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	*h = (*h)[:last]
	return s
}

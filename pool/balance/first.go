package balance

import (
	"sync/atomic"

	"sluice/pool"
)

// fillFirst gives all sessions to the member registered first, until that is
// full, and then to the next. Weights mean nothing to it. A pick costs as many
// steps as there are full members.
//
// A member that starts slowly sits out some picks, which go to those behind it.
type fillFirst struct {
	members  []*pool.Member
	starting bool          // some member does
	picks    atomic.Uint32 // counted while starting
}

func buildFirst(eligible []*pool.Member, previous pool.Picker) pool.Picker {
	f := &fillFirst{members: eligible}
	for _, m := range eligible {
		f.starting = f.starting || m.Starting()
	}
	if old, ok := previous.(*fillFirst); ok {
		f.picks.Store(old.picks.Load())
	}
	return f
}

// Pick implements pool.Picker.
func (f *fillFirst) Pick(q pool.Query) *pool.Member {
	if f.starting {
		pick := f.picks.Add(1)
		for _, m := range f.members {
			if m.Turn(pick) && m.Usable(q) && m.Reserve() {
				return m
			}
		}
	}
	for _, m := range f.members {
		if m.Usable(q) && m.Reserve() {
			return m
		}
	}
	return nil
}

// Preview implements pool.Picker.
func (f *fillFirst) Preview(q pool.Query) (*pool.Member, bool) {
	if f.starting {
		pick := f.picks.Load() + 1
		for _, m := range f.members {
			if m.Turn(pick) && m.Usable(q) {
				return m, true
			}
		}
	}
	for _, m := range f.members {
		if m.Usable(q) {
			return m, true
		}
	}
	return nil, true
}

// Why implements pool.Reasoner.
func (f *fillFirst) Why(_ pool.Query, m, pick *pool.Member) (pool.Word, string) {
	if m.Seq < pick.Seq {
		return pool.Starting, "starts slowly, and sits this turn out"
	}
	return pool.NextTurns, "comes after the pick, which has room"
}

package rebalance

import (
	"cmp"
	"math"
	"slices"

	"sluice/pool"
)

// Share is what one backend has of its pool's sessions, and what it should have.
type Share struct {
	ID       string  `json:"id"`
	Eligible bool    `json:"eligible"` // it gets new sessions; if not, its own are left alone
	Active   int64   `json:"active"`
	Fair     float64 `json:"fair_share"`
	ToClose  int64   `json:"to_close"` // sessions above its share and the target
	Closed   int64   `json:"closed"`   // by this rebalance
}

// Shares returns the share of each backend. The sessions of those that get new ones
// are divided by weight among them, and none gets more than it may hold: what is
// over is for the others. A backend may keep target percent more than its share,
// and what rounding up makes of it.
func Shares(loads []pool.Load, target int) []Share { return shares(loads, sessions(loads), target) }

// sessions returns how many there are on backends that get new ones.
func sessions(loads []pool.Load) (n int64) {
	for _, l := range loads {
		if l.Weight > 0 {
			n += l.Active
		}
	}
	return n
}

// shares is Shares with another number of sessions to divide.
func shares(loads []pool.Load, sessions int64, target int) []Share {
	fair := fairShares(loads, float64(sessions))
	list := make([]Share, len(loads))
	for i, l := range loads {
		list[i] = Share{ID: l.Backend.ID(), Eligible: l.Weight > 0, Active: l.Active, Fair: math.Round(100*fair[i]) / 100}
		if l.Weight > 0 {
			list[i].ToClose = max(0, l.Active-keeps(fair[i], target))
		}
	}
	fit(list, room(loads))
	return list
}

// keeps returns how many sessions a backend with that fair share may keep. What
// floating point makes of a whole number is not rounded up.
func keeps(fair float64, target int) int64 {
	const noise = 1e-6
	return int64(max(math.Ceil(fair-noise), math.Floor(fair*(1+float64(target)/100)+noise)))
}

// fairShares divides sessions by weight. Those whose part is more than they may
// hold get that, and the rest is divided again.
func fairShares(loads []pool.Load, sessions float64) []float64 {
	shares, full := make([]float64, len(loads)), make([]bool, len(loads))
	weights := 0.
	for _, l := range loads {
		weights += float64(l.Weight)
	}
	for again := true; again; {
		again = false
		left, among := sessions, weights
		for i, l := range loads {
			if l.Weight == 0 || full[i] {
				continue
			}
			shares[i] = left * float64(l.Weight) / among
			if most := float64(l.Most); l.Most > 0 && shares[i] > most {
				shares[i], full[i], again = most, true, true
				sessions, weights = sessions-most, weights-float64(l.Weight)
			}
		}
	}
	return shares
}

// room returns how many more sessions the backends take.
func room(loads []pool.Load) (n int64) {
	for _, l := range loads {
		switch {
		case l.Weight == 0:
		case l.Most == 0:
			return math.MaxInt64
		default:
			n += max(0, l.Most-l.Active)
		}
	}
	return n
}

// fit leaves no more to close than there is room for: who is closed and cannot come
// back was better off before. The largest surplus goes first.
func fit(list []Share, room int64) {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[b].ToClose, list[a].ToClose) })
	for _, i := range order {
		list[i].ToClose = min(list[i].ToClose, room)
		room -= list[i].ToClose
	}
}

// surplus returns how many sessions are too many in all.
func surplus(list []Share) (n int64) {
	for _, s := range list {
		n += s.ToClose
	}
	return n
}

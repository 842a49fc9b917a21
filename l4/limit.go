package l4

import (
	"fmt"
	"sync/atomic"
)

const (
	// descriptorsKept are for listeners, probes, the admin side and files. With few
	// descriptors, a quarter of them is kept for these and the engine's pipes.
	descriptorsKept = 128
	// sessionsWithoutLimit holds where the system has no descriptor limit.
	sessionsWithoutLimit = 100_000
)

// Limit bounds the sessions of the process. Engine.NewLimit makes it. Safe for
// concurrent use.
type Limit struct {
	perSession int // descriptors that one may hold
	held       int // descriptors that the engine holds itself
	shared     int // descriptors that it may use for all sessions together
	max        atomic.Int64
	asked      atomic.Int64 // as given to Set
	active     atomic.Int64
}

// Set changes the limit, as Engine.NewLimit takes it. Running sessions stay.
func (l *Limit) Set(max int) {
	l.asked.Store(int64(max))
	if max == 0 {
		max = l.Room()
	}
	l.max.Store(int64(max))
}

// Fit cuts the limit to what the descriptor limit has room for, if that is known.
// Beyond it sessions would take the descriptors of everything else: the admin
// side, probes, reloads.
func (l *Limit) Fit() {
	if _, known := DescriptorLimit(); known {
		l.max.Store(min(l.max.Load(), int64(l.Room())))
	}
}

// Cut reports whether Fit left less than what was asked for.
func (l *Limit) Cut() bool { return l.asked.Load() > l.Max() }

// Room returns the sessions that the descriptor limit has room for.
func (l *Limit) Room() int {
	n, ok := DescriptorLimit()
	if !ok {
		return sessionsWithoutLimit
	}
	return max(1, (n-l.kept(n))/l.perSession)
}

// kept returns how many of n descriptors are no session's.
func (l *Limit) kept(n int) int {
	return l.held + min(descriptorsKept+l.shared, max(0, n-l.held)/4)
}

// Max returns the limit in force.
func (l *Limit) Max() int64 { return l.max.Load() }

// Active returns the sessions held now.
func (l *Limit) Active() int64 { return l.active.Load() }

// Explain says in one line where the limit comes from, and whether the
// descriptor limit has room for it.
func (l *Limit) Explain() string {
	files, known := DescriptorLimit()
	switch asked := l.asked.Load(); {
	case asked == 0 && known:
		return fmt.Sprintf("derived from %d descriptors: %d kept back, %d a session", files, l.kept(files), l.perSession)
	case asked == 0:
		return "the system tells no descriptor limit"
	case l.Cut():
		return fmt.Sprintf("max_sessions is %d, but %d descriptors have room for %d sessions only: raise the descriptor limit", asked, files, l.Room())
	}
	return "max_sessions"
}

// enter takes a place, and reports false if there is none.
func (l *Limit) enter() bool {
	for {
		n := l.active.Load()
		if n >= l.max.Load() {
			return false
		}
		if l.active.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (l *Limit) leave() { l.active.Add(-1) }

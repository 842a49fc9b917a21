//go:build linux

package l4_test

import (
	"math"
	"sync"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

const (
	// stuckAfter is how long a write may take nothing before it counts as stuck.
	// A wrong guess is harmless: what was sent is counted, not foretold.
	stuckAfter = 40 * time.Millisecond
	// overAfter bounds a session: who is not over by then is stuck for good.
	overAfter = 2 * l4test.Patience
	unlimited = math.MaxInt64
)

// stage is one session as both of its ends see it. The ends meet here, not on
// the wire: what one waits for, the other tells.
type stage struct {
	script    script
	gate      func()
	order     func()
	connected chan struct{} // closed once the backend's end is there

	mu      sync.Mutex // guards what follows, and the state of both players
	changed sync.Cond  // whatever mu guards
	expired bool
	players [2]*player
}

// newStage returns the stage of a script whose streams carry the tag of the
// session: no two sessions at a time have the same.
func newStage(s script, tag int64) *stage {
	st := &stage{script: s, connected: make(chan struct{})}
	st.changed.L = &st.mu
	for side := range st.players {
		side := session.Side(side)
		st.players[side] = &player{
			stage: st, side: side, limit: unlimited, sentAt: []int64{0}, answered: -1,
			out: streamOf(tag, side), in: l4test.Verify{At: streamOf(tag, side.Other())},
		}
	}
	return st
}

// streamOf returns where in the pattern a stream begins.
func streamOf(tag int64, side session.Side) int64 { return (2*tag + int64(side)) * 10_007 }

// watch ends the session when its time is over, unless stop comes before.
func (st *stage) watch() (stop func() bool) {
	return time.AfterFunc(overAfter, func() { st.update(func() { st.expired = true }) }).Stop
}

func (st *stage) update(f func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	f()
	st.changed.Broadcast()
}

// await waits until holds does, or the time is over.
func (st *stage) await(holds func() bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for !holds() && !st.expired {
		st.changed.Wait()
	}
}

// awaitStuck is await for what does not happen but lasts.
func (st *stage) awaitStuck(holds func() bool) {
	done := make(chan struct{})
	defer close(done)
	go func() {
		tick := time.NewTicker(stuckAfter / 4)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				st.changed.Broadcast()
			}
		}
	}()
	st.await(holds)
}

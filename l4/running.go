package l4

import (
	"sync"
	"sync/atomic"
)

// running counts what has to be over before a shutdown is. It is a WaitGroup
// that can be closed: then nothing more enters. Safe for concurrent use.
type running struct {
	n    atomic.Int64 // closedBit is set once it is closed
	over chan struct{}
	once *sync.Once // closes over
}

const closedBit = 1 << 62

func newRunning() running { return running{over: make(chan struct{}), once: new(sync.Once)} }

// enter reports false if r is closed.
func (r *running) enter() bool {
	if r.n.Add(1)&closedBit == 0 {
		return true
	}
	r.leave()
	return false
}

func (r *running) leave() {
	if r.n.Add(-1) == closedBit {
		r.once.Do(func() { close(r.over) })
	}
}

// close lets nothing more enter. The channel it returns is closed when
// everything has left.
func (r *running) close() <-chan struct{} {
	if r.n.Or(closedBit)&^closedBit == 0 {
		r.once.Do(func() { close(r.over) })
	}
	return r.over
}

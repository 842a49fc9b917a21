package proxy

import "sync"

// gate counts the requests through /proxy and can be shut. A request that
// enters while it is being shut either counts or is turned away.
type gate struct {
	mu     sync.Mutex // guards all below
	inside int
	closed bool
	idle   chan struct{} // closed once the gate is shut and nobody is inside
}

func newGate() gate { return gate{idle: make(chan struct{})} }

// enter reports false if the gate is shut. Who entered must leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.idle)
	}
}

// shut lets nobody in any more. The channel is closed when all have left.
func (g *gate) shut() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		if g.inside == 0 {
			close(g.idle)
		}
	}
	return g.idle
}

// count returns how many are inside.
func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside
}

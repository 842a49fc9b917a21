package pool

import "time"

// news holds calls of hooks until the mutex is free. One goroutine at a time
// delivers, so that hooks hear of changes in the order they happened.
type news struct {
	queue      []func()
	delivering bool
}

// tellLocked records a transition.
func (p *Pool) tellLocked(e *entry, from, to, reason string) {
	e.last = LastChange{At: time.Now(), Reason: reason}
	e.events.noteAt(e.last.At, EventState, transition(from, to)+": "+reason)
	if p.hooks.Changed == nil {
		return
	}
	c := Change{At: e.last.At, Pool: p.name, Backend: e.id, Address: e.address, From: from, To: to, Reason: reason}
	p.news.queue = append(p.news.queue, func() { p.hooks.Changed(c) })
}

// transition says how a state changed, if it did.
func transition(from, to string) string {
	if from == "" || from == to {
		return to
	}
	return from + " -> " + to
}

// tellMembersLocked says that the set of backends to be probed changed.
func (p *Pool) tellMembersLocked() {
	if p.hooks.Members != nil {
		p.news.queue = append(p.news.queue, p.hooks.Members)
	}
}

// unlock releases the mutex and calls the hooks that are due, unless another
// goroutine, or a hook further up this stack, is doing that.
func (p *Pool) unlock() {
	defer p.mu.Unlock()
	if p.news.delivering {
		return
	}
	p.news.delivering = true
	for len(p.news.queue) > 0 {
		due := p.news.queue
		p.news.queue = nil
		p.mu.Unlock()
		for _, call := range due {
			call()
		}
		p.mu.Lock()
	}
	p.news.delivering = false
}

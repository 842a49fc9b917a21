package pool

// Load is what one backend holds of the sessions of its pool, and how large a part
// of them new ones will make it: plain values, as of one moment.
type Load struct {
	Backend *Backend
	Active  int64 // sessions, pending dials included
	Total   int64 // sessions whose dial succeeded so far
	// Weight is its part of the new sessions, beside the others' alone; less while it
	// starts slowly. 0: it gets none now, or only because all others are no better:
	// nobody is to be moved there.
	Weight int
	Most   int64 // sessions that it may hold; 0 is no limit
}

// Loads returns the load of every backend that is configured, in order of
// registration. Those draining out of the pool have none: nothing is to be moved
// off them before their time.
func (p *Pool) Loads() []Load {
	p.mu.Lock()
	defer p.mu.Unlock()
	weights := make(map[*Backend]int)
	for _, m := range p.current.Load().inUse() {
		if !m.onTrial {
			weights[m.Backend] = m.Weight
		}
	}
	loads := make([]Load, 0, len(p.roster.entries))
	for _, e := range p.roster.entries {
		l := Load{e.Backend, e.Active(), e.total.Load(), 0, int64(e.maxSessions)}
		if e.fit(p.policy) {
			l.Weight = weights[e.Backend]
		}
		loads = append(loads, l)
	}
	return loads
}

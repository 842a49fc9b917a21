package pool

import "time"

// settle gives what became free to those who wait.
func (p *Pool) settle() {
	p.queue.mu.Lock()
	defer p.leaveQueue()
	p.settleLocked(false)
}

// resettle is settle after a new snapshot, with which some may wait in vain, or
// for something else.
func (p *Pool) resettle() {
	c := &p.queue
	c.mu.Lock()
	defer p.leaveQueue()
	p.liftGoneLocked()
	c.pace.from(time.Now())
	p.settleLocked(true)
}

// settleLocked serves the line from its front. Who avoids some backends may have
// to let others pass. Behind one who avoids none and is not served, nobody could
// be: it reports why that is. all looks there for those for whom things changed.
func (p *Pool) settleLocked(all bool) (why error) {
	c := &p.queue
	c.alarm.turn = time.Time{}
	for e := c.line.Front(); e != nil && (all || why == nil); {
		at := e.Value.(*Place)
		m, err := (*Member)(nil), why
		if why == nil || at.picky() {
			m, err = p.pickForLocked(at)
		}
		if m != nil {
			p.giveLocked(m)
			e, why = c.line.Front(), nil
			continue
		}
		e = e.Next()
		if !at.waitsFor(err) {
			at.decideLocked(err)
			continue
		}
		all = p.standLocked(at, err) || all
		if !at.picky() {
			why = err
		}
	}
	return why
}

// standLocked notes why a place in the line is not served, and with that how long
// it may wait. It reports whether that is new.
func (p *Pool) standLocked(at *Place, err error) (changed bool) {
	c := &p.queue
	held := at.held
	switch {
	case err == ErrNoBackend:
		if held = true; !at.held {
			p.barLocked(at)
		}
	case err == ErrFull:
		held = false
	case at.patience == 0: // it comes while others wait for their turn
		held = true
	}
	patience := at.queueFor
	if held {
		patience = p.current.Load().policy.HoldFor
	}
	if held == at.held && patience == at.patience {
		return false
	}
	switch {
	case held && !at.held:
		c.held.Add(1)
		c.pace.on = true
		if !at.wasHeld {
			c.everHeld.Add(1)
		}
		at.wasHeld = true
	case at.held && !held:
		c.held.Add(-1)
	}
	if at.patience != 0 {
		c.woken = append(c.woken, at)
	}
	at.held, at.patience = held, patience
	return true
}

// giveLocked gives a member that was picked to the first in line who may have
// it: its slot may have become free behind the back of those that were asked
// before. It reports whether there is one.
func (p *Pool) giveLocked(m *Member) bool {
	for e := p.queue.line.Front(); e != nil; e = e.Next() {
		at := e.Value.(*Place)
		want := p.wantLocked(at.query, at.held)
		if want.avoids(m.Backend) || !p.current.Load().reaches(want, m) {
			continue
		}
		p.spendLocked(m.Backend)
		at.lease.fill(p, m)
		at.decideLocked(nil)
		return true
	}
	return false
}

// acquireBehind is Acquire while somebody waits.
func (p *Pool) acquireBehind(l *Lease, q Query) error {
	p.queue.mu.Lock()
	defer p.leaveQueue()
	return outward(p.acquireLocked(l, q))
}

// acquireLocked takes what nobody who waits could have.
func (p *Pool) acquireLocked(l *Lease, q Query) error {
	why := p.settleLocked(false)
	want := p.wantLocked(q, false)
	if why == ErrFull && !p.current.Load().spills(want) {
		return p.current.Load().refusal(want)
	}
	for {
		m, err := p.pickLocked(want)
		if err != nil {
			return err
		}
		if !p.giveLocked(m) {
			p.spendLocked(m.Backend)
			l.fill(p, m)
			return nil
		}
	}
}

// pickForLocked reserves a slot that a place in the line may have.
func (p *Pool) pickForLocked(at *Place) (*Member, error) {
	return p.pickLocked(p.wantLocked(at.query, at.held))
}

// pickLocked reserves a slot, unless that is to wait for its turn. To give back
// one that came too late is left to leaveQueue, since that settles.
func (p *Pool) pickLocked(q Query) (*Member, error) {
	c := &p.queue
	for {
		s := p.current.Load()
		if c.pace.waits(s.policy.rate(), time.Now()) {
			c.alarm.turn = c.pace.next
			if err := s.refusal(q); err == ErrNoBackend {
				return nil, err
			}
			return nil, errTurn
		}
		m, err := s.pick(q)
		if err != nil || !m.removed.Load() {
			return m, err
		}
		c.stale = append(c.stale, m)
	}
}

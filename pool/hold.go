package pool

import (
	"slices"
	"time"
)

// The pause before a backend is tried again by sessions that all failed there,
// and that wait for nothing else: twice as long each time. Chosen: one dial of
// the whole pool in that time is no load, and a server that restarts without
// being found down is in use again within the longest.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = time.Second
)

// enough failed dials in a row say that a backend does not answer, rather than
// that one session had bad luck. It is max_failures' default.
const enough = 3

// releaseSlack is how late a timer may be without slowing the releases: that
// much of the schedule is made up for at once. Chosen.
const releaseSlack = 50 * time.Millisecond

// bar keeps a backend, which is still in the snapshot, from those in line whose
// dials failed there, and once it failed often enough from everybody. It is
// lifted by a dial that succeeds, and when the backend leaves the snapshot: what
// comes back is worth a try. Once its pause is over, the first in line may try.
type bar struct {
	backend *Backend
	until   time.Time
	pause   time.Duration
}

// shut reports whether the bar is for everybody.
func (b *bar) shut() bool { return b.backend.streak.Load() >= enough }

// barLocked notes that a place in the line has tried all there is. What it tried
// and is gone, or is barred to everybody, is nothing that it has to avoid.
func (p *Pool) barLocked(at *Place) {
	if !at.picky() {
		return
	}
	s := p.current.Load()
	var avoid []*Backend
	for _, b := range at.query.Avoid {
		if s.has(b) && !p.barBackendLocked(b) {
			avoid = append(avoid, b)
		}
	}
	at.query.Avoid = avoid
}

// barBackendLocked bars a backend where a dial failed, and reports whether that
// is for everybody.
func (p *Pool) barBackendLocked(b *Backend) (shut bool) {
	c, now := &p.queue, time.Now()
	i := slices.IndexFunc(c.bars, func(x bar) bool { return x.backend == b })
	if i < 0 {
		i = len(c.bars)
		c.bars = append(c.bars, bar{backend: b})
		c.barred.Store(int64(len(c.bars)))
	}
	x := &c.bars[i]
	if now.Sub(x.until) > longestPause { // of an earlier trouble
		x.pause = firstPause
	}
	x.until = later(x.until, now.Add(firstPause))
	return x.shut()
}

// wantLocked returns what to pick by, for one in line or, in the end, a newcomer.
// The first in line may try what is barred once its pause is over.
func (p *Pool) wantLocked(q Query, held bool) Query {
	bars := p.queue.bars
	if len(bars) == 0 {
		return q
	}
	now := time.Now()
	avoid := slices.Clone(q.Avoid)
	for i := range bars {
		x := &bars[i]
		switch open := held && !now.Before(x.until); {
		case open:
			avoid = slices.DeleteFunc(avoid, func(b *Backend) bool { return b == x.backend })
		case x.shut() && now.Before(x.until):
			avoid = append(avoid, x.backend)
		}
	}
	q.Avoid = avoid
	return q
}

// spendLocked notes that somebody got b: the next turn, and the next try of what
// is barred, are later.
func (p *Pool) spendLocked(b *Backend) {
	c, now := &p.queue, time.Now()
	c.pace.spend(p.current.Load().policy.rate(), now)
	for i := range c.bars {
		if x := &c.bars[i]; x.backend == b && !now.Before(x.until) {
			x.pause = min(2*x.pause, longestPause)
			x.until = now.Add(x.pause)
		}
	}
}

// works notes that a dial to b succeeded.
func (p *Pool) works(b *Backend) {
	c := &p.queue
	c.mu.Lock()
	defer p.leaveQueue()
	if p.liftLocked(func(x *Backend) bool { return x == b }) {
		c.pace.from(time.Now())
		p.settleLocked(true)
	}
}

// liftGoneLocked lifts the bars of what no new session may get.
func (p *Pool) liftGoneLocked() {
	s := p.current.Load()
	p.liftLocked(func(b *Backend) bool { return !s.has(b) })
}

// liftLocked lifts bars, and lets who was held because of them have those
// backends again. It reports whether there was any.
func (p *Pool) liftLocked(lifted func(*Backend) bool) bool {
	c := &p.queue
	if !slices.ContainsFunc(c.bars, func(x bar) bool { return lifted(x.backend) }) {
		return false
	}
	c.bars = slices.DeleteFunc(c.bars, func(x bar) bool { return lifted(x.backend) })
	c.barred.Store(int64(len(c.bars)))
	for e := c.line.Front(); e != nil; e = e.Next() {
		if at := e.Value.(*Place); at.held && at.picky() {
			at.query.Avoid = slices.DeleteFunc(slices.Clone(at.query.Avoid), lifted)
		}
	}
	return true
}

// pace is the schedule of the releases after a hold.
type pace struct {
	on   bool      // somebody was held since the line was empty
	next time.Time // the next turn
}

// rate returns the releases a second; 0 is no limit.
func (p Policy) rate() int {
	if p.HoldFor == 0 {
		return 0
	}
	return p.ReleaseRate
}

// waits reports whether the next turn is still to come.
func (c *pace) waits(rate int, now time.Time) bool { return c.on && rate > 0 && now.Before(c.next) }

// spend takes a turn.
func (c *pace) spend(rate int, now time.Time) {
	if c.on && rate > 0 {
		c.next = later(c.next, now.Add(-releaseSlack)).Add(time.Second / time.Duration(rate))
	}
}

// from forgets turns that nobody could take.
func (c *pace) from(now time.Time) { c.next = later(c.next, now) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// alarm settles when time alone makes something free.
type alarm struct {
	timer *time.Timer
	due   time.Time // zero: it is not set
	turn  time.Time // somebody waits for it; zero: nobody
}

// setAlarmLocked sets the alarm to the next turn, or the end of the next pause.
func (p *Pool) setAlarmLocked() {
	c := &p.queue
	var due time.Time
	if c.line.Len() > 0 && (len(c.bars) > 0 || !c.alarm.turn.IsZero()) {
		due = c.dueLocked(time.Now())
	}
	if due.Equal(c.alarm.due) {
		return
	}
	c.alarm.due = due
	switch {
	case due.IsZero():
		c.alarm.timer.Stop()
	case c.alarm.timer == nil:
		c.alarm.timer = time.AfterFunc(time.Until(due), p.rings)
	default:
		c.alarm.timer.Reset(time.Until(due))
	}
}

func (c *queue) dueLocked(now time.Time) (due time.Time) {
	due = c.alarm.turn
	for _, x := range c.bars {
		if x.until.After(now) && (due.IsZero() || x.until.Before(due)) {
			due = x.until
		}
	}
	return due
}

// rings is called by the alarm's timer.
func (p *Pool) rings() {
	c := &p.queue
	c.mu.Lock()
	defer p.leaveQueue()
	c.alarm.due = time.Time{}
	p.settleLocked(false)
}

package l4

import (
	"syscall"
	"time"

	"sluice/l4/session"
)

// stallWindows is how many windows pass between looks at a copy that does not
// return. At a window of a second that is longer than the 3 to 6 s for which the
// queue of a reader of 20 KB/s was seen not to move. Chosen from that.
const stallWindows = 5

// stall watches a copy from one side. A reset of that side waits behind what it
// sent before; if the other side takes nothing any more, it would wait for ever,
// and hold the session with it.
type stall struct {
	conn  *conn
	from  session.Side
	every time.Duration

	// conn.mu guards the fields below.
	timer  *time.Timer
	unsent int // of the other side, at the last look; 0 before the first
	over   bool
}

// watchStall starts watching; the caller stops it.
func (c *conn) watchStall(from session.Side) *stall {
	s := &stall{conn: c, from: from, every: stallWindows * window(&c.config.Settings)}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.timer = time.AfterFunc(s.every, s.look)
	return s
}

func (s *stall) stop() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.over = true
	s.timer.Stop()
}

// look ends the session if the side that is copied from was reset and the other
// has taken nothing since the last look.
func (s *stall) look() {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.over || c.stopped[s.from] {
		return
	}
	before := s.unsent
	s.unsent = unsent(c.socks[s.from.Other()])
	// Once we sent it an end, a socket in this state may be closed properly.
	if s.unsent > 0 && s.unsent == before && !c.ended[s.from.Other()] && isReset(c.socks[s.from]) {
		c.obey(c.session.Ended(time.Now(), s.from, syscall.ECONNRESET), s.from)
		return
	}
	s.timer.Reset(s.every)
}

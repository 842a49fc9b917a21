package l4

import (
	"maps"
	"sync"
	"sync/atomic"

	"sluice/l4/session"
	"sluice/pool"
)

// Status is a frontend at one moment: plain values.
type Status struct {
	Name         string           `json:"name"`
	Listen       string           `json:"listen"` // as bound; empty while no listener feeds it
	Pool         string           `json:"pool"`
	Active       int64            `json:"active"`
	Total        int64            `json:"total"`    // sessions started
	Rejected     int64            `json:"rejected"` // clients refused, all reasons
	RejectedBy   map[string]int64 `json:"rejected_by,omitempty"`
	AcceptErrors int64            `json:"accept_errors"`
	Redials      int64            `json:"redials"`
	HalfClosed   int64            `json:"half_closed"` // sessions of which one side has ended
	MaxSessions  int              `json:"max_sessions"`
	Clients      int              `json:"clients,omitempty"` // counted apart now, for the limits of each

	EndedBy   map[session.Cause]int64 `json:"-"` // sessions that ended, by cause; all of them
	Durations pool.Durations          `json:"-"` // of those
}

// counters are the totals of a frontend.
type counters struct {
	active       atomic.Int64
	acceptErrors atomic.Int64
	redials      atomic.Int64
	halfClosed   atomic.Int64
	ended        session.Tally

	mu       sync.Mutex // guards rejected
	rejected map[string]int64
}

// enter counts a session in, unless there are max; 0 is no limit.
func (c *counters) enter(max int64) bool {
	for {
		n := c.active.Load()
		if max > 0 && n >= max {
			return false
		}
		if c.active.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (c *counters) reject(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rejected == nil {
		c.rejected = map[string]int64{}
	}
	c.rejected[reason]++
}

func (c *counters) rejections() (total int64, by map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.rejected {
		total += n
	}
	return total, maps.Clone(c.rejected)
}

// Status returns the frontend at this moment. Listen is the caller's to fill
// in: a frontend does not know its listeners.
func (f *Frontend) Status() Status {
	cfg := f.config.Load()
	rejected, by := f.counters.rejections()
	return Status{
		Name:         f.name,
		Pool:         cfg.Pool.Name(),
		Active:       f.counters.active.Load(),
		Total:        f.started.Load(),
		Rejected:     rejected,
		RejectedBy:   by,
		AcceptErrors: f.counters.acceptErrors.Load(),
		Redials:      f.counters.redials.Load(),
		HalfClosed:   f.counters.halfClosed.Load(),
		MaxSessions:  cfg.MaxSessions,
		Clients:      f.clients.Len(),
		EndedBy:      f.counters.ended.ByCause(),
		Durations:    f.counters.ended.Durations(),
	}
}

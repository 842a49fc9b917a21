package pool

import (
	"sync/atomic"
	"time"
)

// Health is what probes and dials say about a backend.
type Health int32

const (
	Unknown Health = iota // no probe has answered yet, or there are none
	Up                    // fit for new sessions
	Down                  // not fit: the probes say so, or without any the dials
)

// String returns the word used in the API: unknown, up or down.
func (h Health) String() string {
	switch h {
	case Up:
		return "up"
	case Down:
		return "down"
	default:
		return "unknown"
	}
}

// Backend is the live half of a backend: counters, health, and drain state. It
// outlives snapshots and reloads. Never copied; safe for concurrent use.
type Backend struct {
	pool, id, address string

	active    atomic.Int64
	total     atomic.Int64
	streak    atomic.Int64 // failed dials since the last that succeeded
	probes    atomic.Int64 // that failed
	health    atomic.Int32 // a Health; written under the pool's mutex
	trial     atomic.Int32 // trialNone, trialOpen or trialTaken
	suspect   atomic.Bool
	flaws     flaws
	ejections atomic.Int64
	greets    atomic.Int32 // see SendProxy
	removed   atomic.Bool  // no member; set after, and cleared before, the snapshot that says so

	traffic  traffic
	failures failures // dials that count against it
	dials    dials
	events   events
}

// A backend that dials took out, in a pool without probes, comes back through
// one session. The pool opens the trial; a reservation takes it; what becomes of
// the dial ends it, or opens it again if the client left before that.
const (
	trialNone int32 = iota
	trialOpen
	trialTaken
)

// Pool returns the name of the pool.
func (b *Backend) Pool() string { return b.pool }

// ID returns the id, unique within the pool.
func (b *Backend) ID() string { return b.id }

// Address returns the address as configured: "host:port" or "unix:/path".
func (b *Backend) Address() string { return b.address }

// SendProxy returns the version of the PROXY header that a session to the backend
// begins with; 0 is none.
func (b *Backend) SendProxy() int { return int(b.greets.Load()) }

// Active returns the sessions held now, pending dials included.
func (b *Backend) Active() int64 { return b.active.Load() }

// Health returns what is known of the backend.
func (b *Backend) Health() Health { return Health(b.health.Load()) }

// ProbeFailed counts a probe that failed, for the status alone: what follows
// from it is for [Pool.SetHealth].
func (b *Backend) ProbeFailed() { b.probes.Add(1) }

// Moved adds payload bytes to the backend's totals. Callers with different shards
// do not slow each other down.
func (b *Backend) Moved(shard uint8, toBackend, toClient int64) {
	b.traffic.add(shard, toBackend, toClient)
}

// Dialed notes how long a dial took that succeeded, or failed in a way that says
// something about the backend.
func (b *Backend) Dialed(took time.Duration) { b.dials.add(took) }

// succeeded ends a streak of failures. It writes only what differs, because
// every session of a healthy backend comes here.
func (b *Backend) succeeded() {
	if b.streak.Load() != 0 {
		b.streak.Store(0)
	}
	if b.suspect.Load() {
		b.suspect.Store(false)
	}
}

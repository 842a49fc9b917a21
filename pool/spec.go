package pool

import (
	"errors"
	"time"
)

// MaxWeight is the largest weight of a backend.
const MaxWeight = 1000

// MaxTier is the last tier of backups.
const MaxTier = 9

// Spec is one backend as somebody asked for it: inert and comparable.
type Spec struct {
	ID          string // unique within the pool
	Address     string // "host:port" or "unix:/path"; unique within the pool
	Weight      int    // 0 to MaxWeight; 0 gets no new sessions
	MaxSessions int    // 0 means no limit
	SendProxy   int    // version of the PROXY header that sessions to it begin with; 0 is none
	Backup      int    // tier: 0 is used always, 1 and up only with too few of the tiers below
	Zone        string // where it is; empty: not said
	Name        string // that the address was found under; empty: the address is the file's, or the API's
}

// same reports whether the file has the same entry as before, as far as it is
// written there: the version of the PROXY header may be the pool's.
func (s Spec) same(o Spec) bool {
	o.SendProxy = s.SendProxy
	return s == o
}

// Policy is how a pool treats its backends. Its zero value never takes a
// backend out for failed dials, has no probes, and refuses when all are down.
type Policy struct {
	MaxFailures int           // consecutive failed dials that take a backend out; 0 means never
	RetryAfter  time.Duration // without probes: a backend that was taken out gets one trial session after this
	SlowStart   time.Duration // one that comes up gets its full share only after this; 0 is at once
	TryAll      bool          // with no backend up, use those that are down rather than refuse
	CloseDown   bool          // sessions of a backend that goes down end
	CloseGone   bool          // sessions of a backend that is removed end at once
	DrainFor    time.Duration // sessions of one that is drained or removed end after this; 0 is never
	SendProxy   int           // Spec.SendProxy of what the API adds
	QueueMax    int           // clients that wait while every usable backend is full; 0 is none
	QueueFor    time.Duration // how long each waits
	HoldFor     time.Duration // how long each waits while no backend is eligible; 0: not at all
	ReleaseRate int           // sessions a second that get a backend after such a wait; 0 is no limit
	Single      bool          // at most one backend gets sessions: with several up, the one that was it before
	PanicBelow  int           // percent of the backends: with fewer up, TryAll holds already
	BackupMin   int           // with fewer usable backends than this the next tier of backups is used; 0 is 1
	Zone        string        // where this process is; empty: not said
	ZoneMin     int           // with fewer usable backends there, those of other zones are used too; 0 is 1
	Probed      bool          // active probes run and decide when a backend returns
	Init        Init          // what a new backend counts as before its first probe; ignored unless Probed
}

// Init is what a new backend counts as before its first probe result.
type Init int

const (
	InitUp    Init = iota // eligible at once; the first probe alone decides
	InitProbe             // not eligible; the first probe alone decides
	InitDown              // not eligible; needs as many passes as any backend that is down
)

// String returns the word of the file: up, probe or down.
func (i Init) String() string {
	switch i {
	case InitProbe:
		return "probe"
	case InitDown:
		return "down"
	default:
		return "up"
	}
}

// Config is a pool as the file describes it.
type Config struct {
	Strategy Strategy
	Policy   Policy
	Backends []Spec // in the order of the file, which is the order of registration
	// Names are those that some of Backends were found under, or may be: see
	// Spec.Name. What was found under one of them is not the file's to remove.
	Names []string
}

// Hooks report what happens inside a pool. Each may be nil. They are called
// outside the pool's mutex, so they may call the pool, and must not block. All but
// Suspected are called one at a time, in the order of the changes, by a goroutine
// that caused one; what a hook causes is reported after it returns.
type Hooks struct {
	Changed   func(Change)   // a backend's health, admin state or membership changed
	Suspected func(*Backend) // a dial failed: probe this backend now
	Members   func()         // the set of backends to be probed changed: see Pool.Probed
	Evict     func(Eviction) // sessions of a backend are to end; called by a timer, too
	Panicked  func(Panic)    // a panic of the pool began or ended
	// Conflicted: backends of a pool with Policy.Single began, or ceased, to claim
	// that they are the one, or it is another of them.
	Conflicted func(Conflict)
}

// Change is one transition of one backend.
type Change struct {
	At      time.Time
	Pool    string
	Backend string // id
	Address string
	From    string // state before, as in BackendStatus.State; empty for a new backend
	To      string // state after; "removed" once it is gone
	Reason  string // the evidence: which probe, dial or order, and its error
}

var (
	// ErrNoBackend means that no backend of the pool may be used: none exists, or
	// each is down, drained, of weight 0, or among those the query avoids.
	ErrNoBackend = errors.New("no backend is available")
	// ErrFull means that at least one backend was usable but for its session limit.
	ErrFull = errors.New("every usable backend is at its session limit")

	// ErrExists means that the id or the address is configured already.
	ErrExists = errors.New("is configured already")
	// ErrNotFound means that no backend has that id.
	ErrNotFound = errors.New("no such backend")
)

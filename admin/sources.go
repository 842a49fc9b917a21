package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"sluice/l4"
	"sluice/l4/session"
	"sluice/pool"
)

// Sources are the funcs through which the admin side reads and steers. All are
// required and safe for concurrent use.
type Sources struct {
	About     func() About
	Frontends func() []l4.Status
	Pools     func() []*pool.Pool // in the order of the file
	Leaving   func() []*pool.Pool // removed; their last sessions may still run
	// Add adds a backend by the API, as pool.Add does. It wraps ErrOwnAddress if the
	// process itself listens at the backend's address.
	Add func(p *pool.Pool, s pool.Spec) error
	// Strategy returns the strategy of that name with the ties that the file gives
	// the pool. Its error says which names are known.
	Strategy func(p *pool.Pool, name string) (pool.Strategy, error)
	Keep     func()                   // makes what the API changed outlast the process, before it returns
	Unlike   func() []pool.Difference // between the file and what runs; never nil
	// Names tells of the names of the file that stand for backends of the pool.
	Names func(*pool.Pool) []Name
	// Reload makes the file current, calls Use, and logs what came of it. by is who
	// asked for it. The error may be an Errors.
	Reload func(ctx context.Context, by string) (Reloaded, error)
	// Sessions lists the sessions that m matches, most of them at most and those
	// behind after, in the order of their ids. more says that others follow.
	Sessions func(m session.Match, after session.Key, most int) (rows []session.Row, more bool)
	// End ends the sessions that m matches, and returns how many that were.
	End func(m session.Match) int
	// EndIdlest ends those n of the sessions that m matches that made no progress for
	// the longest, because their backend has too many, and returns how many that were.
	EndIdlest func(m session.Match, n int) int
	// Plan tells what a reload would do; with a text, one of a file that has it. The
	// error may be an Errors.
	Plan     func(ctx context.Context, text []byte) (Reloaded, error)
	Draining func() bool // the process is shutting down
	Bound    func() bool // every listener is bound
}

// About is the head of GET /status.
type About struct {
	Generation int64     `json:"generation"`
	Started    time.Time `json:"started"`
	Engine     string    `json:"engine"`
	Loops      int       `json:"loops"` // event loops; 0 if the engine has none
	Version    string    `json:"version"`
	LogDropped int64     `json:"log_dropped"` // log lines that found no room since the start
	Sessions   int64     `json:"sessions"`    // of all frontends; without requests through /proxy
	Limit      int64     `json:"max_sessions"`
	Drain      *Drain    `json:"drain,omitempty"` // nil until the process shuts down
	StateFile  StateFile `json:"state_file"`

	LastReload    LastReload `json:"last_reload"`
	RestartNeeded []string   `json:"restart_needed"` // keys of the file that only the next start takes; never nil
}

// Drain is how the end of the process goes on.
type Drain struct {
	Since        time.Time `json:"since"`
	AcceptsUntil time.Time `json:"accepts_until"` // when the listeners close
	Until        time.Time `json:"until"`         // when the sessions left are cut
	Sessions     int64     `json:"sessions"`      // that are left, requests through /proxy included
}

// LastReload is how the newest attempt to make the file current ended. The start
// counts as the first, so it is never empty.
type LastReload struct {
	At         time.Time `json:"at"`
	By         string    `json:"by"` // start, SIGHUP, watch, or the address of a client
	Successful bool      `json:"successful"`
	Errors     []string  `json:"errors,omitempty"`
}

// StateFile tells how the file fares that keeps what the API changed.
type StateFile struct {
	Path        string    `json:"path"`  // empty: nothing is kept
	Saved       bool      `json:"saved"` // it holds all that the API changed; true also where nothing is to be kept
	Error       string    `json:"error,omitempty"`
	Failures    int64     `json:"write_failures"` // since the start
	LastWritten time.Time `json:"last_written,omitzero"`
}

// Reloaded is what a reload did.
type Reloaded struct {
	Generation int64       `json:"generation"`
	DryRun     bool        `json:"dry_run,omitempty"`  // nothing was done: it is what a reload would do
	Changes    []string    `json:"changes"`            // one line each; empty if the content was identical
	Plan       []pool.Edit `json:"plan"`               // the same with names, keys and sessions, and of every backend
	Unknown    []string    `json:"unknown,omitempty"`  // of a dry run: what only the reload can find out
	Warnings   []string    `json:"warnings,omitempty"` // what is valid and unwise in the file
	// RestartNeeded are the keys, such as process.engine, whose value in the file
	// only the next start takes.
	RestartNeeded []string `json:"restart_needed,omitempty"`
}

// Sent stands, in messages about a text that Plan was given, where the path of a
// file stands in others.
const Sent = "(sent)"

// ErrOwnAddress means that a dial of a backend would come back to this process,
// so that one client would become sessions without end.
var ErrOwnAddress = errors.New("sessions would go in a circle")

// Errors is several mistakes found at once, such as those of a file. An empty
// one is still an error.
type Errors []string

// Error returns one mistake a line.
func (e Errors) Error() string {
	if len(e) == 0 {
		return "unknown error"
	}
	return strings.Join(e, "\n")
}

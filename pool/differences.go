package pool

import (
	"fmt"
	"time"
)

// Difference is one value that runs and is not the file's.
type Difference struct {
	Pool    string    `json:"pool,omitempty"`
	Backend string    `json:"backend,omitempty"` // id
	Key     string    `json:"key"`               // of the file; "backend" is a whole entry
	File    any       `json:"file"`              // nil: the file has none
	Running any       `json:"running"`           // nil: nothing runs of it
	Origin  string    `json:"origin"`            // what made the difference: api; or restart, which it waits for
	Since   time.Time `json:"since,omitzero"`
}

// Entry is a whole backend in a Difference.
type Entry struct {
	Address     string `json:"address"`
	Weight      int    `json:"weight"`
	MaxSessions int    `json:"max_sessions"`
	State       string `json:"state,omitempty"` // of one that runs
}

// Differences returns every difference between the file and what runs.
func (p *Pool) Differences() []Difference {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.differencesLocked("")
}

// differencesLocked returns those of one backend, or all if id is empty.
func (p *Pool) differencesLocked(id string) []Difference {
	d := differences{pool: p.name}
	if id == "" && !p.strategy.same(p.file) {
		d.note("", "strategy", p.file.Name, p.strategy.Name, p.switched)
	}
	for _, e := range p.roster.entries {
		if id == "" || id == e.id {
			d.entry(e)
		}
	}
	for _, gone := range p.roster.deletions() {
		if s := gone.Spec; id == "" || id == s.ID {
			d.note(s.ID, "backend", Entry{s.Address, s.Weight, s.MaxSessions, ""}, nil, gone.Since)
		}
	}
	return d.list
}

// differences collects those of one pool.
type differences struct {
	pool string
	list []Difference
}

func (d *differences) entry(e *entry) {
	if !e.fromFile {
		d.note(e.id, "backend", nil, Entry{e.address, e.weight, e.maxSessions, e.admin.String()}, e.since.Added)
		return
	}
	if e.weight != e.spec.Weight {
		d.note(e.id, "weight", e.spec.Weight, e.weight, e.since.Weight)
	}
	if e.maxSessions != e.spec.MaxSessions {
		d.note(e.id, "max_sessions", e.spec.MaxSessions, e.maxSessions, e.since.MaxSessions)
	}
	if e.admin != Ready {
		d.note(e.id, "state", Ready.String(), e.admin.String(), e.since.State)
	}
}

func (d *differences) note(id, key string, file, running any, since time.Time) {
	d.list = append(d.list, Difference{d.pool, id, key, file, running, "api", since})
}

// String says what the file has, and what runs.
func (d Difference) String() string {
	text := d.Key
	switch {
	case d.Key == "backend":
		text = "backend " + d.Backend
	case d.Backend != "":
		text = "backend " + d.Backend + " " + d.Key
	}
	switch {
	case d.File == nil:
		return fmt.Sprintf("%s is not in the file, and runs (%v)", text, d.Running)
	case d.Running == nil:
		return fmt.Sprintf("%s is in the file (%v), and was removed", text, d.File)
	}
	return fmt.Sprintf("%s is %v in the file, and runs as %v", text, d.File, d.Running)
}

// String says it as a file would.
func (e Entry) String() string {
	text := fmt.Sprintf("%s, weight %d, max_sessions %d", e.Address, e.Weight, e.MaxSessions)
	if e.State != "" {
		text += ", " + e.State
	}
	return text
}

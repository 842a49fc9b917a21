package pool

import (
	"maps"
	"slices"
	"time"
)

// Status is a pool at one moment: plain values that the caller may keep.
type Status struct {
	Name           string          `json:"name"`
	Strategy       string          `json:"strategy"`
	StrategyOrigin string          `json:"strategy_origin"`          // config or api
	Eligible       int             `json:"eligible"`                 // backends a new session may get, full ones included
	Panic          bool            `json:"panic"`                    // too few are up, and all are used
	QueueMax       int             `json:"queue_max"`                // sessions that may wait; 0 is none
	Queued         int64           `json:"queued"`                   // sessions that wait now
	QueuedTotal    int64           `json:"queued_total"`             // sessions that had to wait
	QueueTimeouts  int64           `json:"queue_timeouts"`           // sessions that waited in vain until queue_timeout
	Held           int64           `json:"held"`                     // of Queued, those for whom none is eligible, or it is not their turn after that
	HeldTotal      int64           `json:"held_total"`               // sessions that were ever held
	HoldTimeouts   int64           `json:"hold_timeouts"`            // sessions that were held in vain until hold_timeout
	Conflict       []string        `json:"conflict,omitempty"`       // single: ids of those that claim to be the one, if they are several
	Backends       []BackendStatus `json:"backends"`                 // in order of registration; those draining out come last
	DeletedByAPI   []string        `json:"deleted_by_api,omitempty"` // ids that the file has and the API removed, sorted
	LookupFailures int64           `json:"lookup_failures"`          // failed look-ups of names of its backends
}

// BackendStatus is a backend at one moment.
type BackendStatus struct {
	ID            string     `json:"id"`
	Address       string     `json:"address"`
	Weight        int        `json:"weight"`
	MaxSessions   int        `json:"max_sessions"`
	State         string     `json:"state"`            // summary: up, down, drain, maint or removing
	Admin         string     `json:"admin"`            // ready, drain, maint or removing
	Health        string     `json:"health"`           // up, down or unknown
	Backup        int        `json:"backup,omitempty"` // tier; 0: it is no backup
	Zone          string     `json:"zone,omitempty"`
	InUse         bool       `json:"in_use"` // new sessions go there, as long as it or its like can be reached
	Suspect       bool       `json:"suspect"`
	Origin        string     `json:"origin"`               // config, api or dns: found under a name of the file
	Overridden    []string   `json:"overridden,omitempty"` // keys whose value came by the API: weight, max_sessions, state
	Active        int64      `json:"active"`               // sessions, pending dials included
	Total         int64      `json:"total"`                // sessions whose dial succeeded
	DialFailures  int64      `json:"dial_failures"`
	FailuresInRow int64      `json:"failures_in_row"`
	ProbeFailures int64      `json:"probe_failures"`
	BytesToBack   int64      `json:"bytes_to_backend"`
	BytesToClient int64      `json:"bytes_to_client"`
	DrainEnds     time.Time  `json:"drain_ends,omitzero"` // when the sessions of one that is drained or removed end; zero: not by order
	LastChange    LastChange `json:"last_change"`
	LastProbe     *Event     `json:"last_probe,omitempty"`   // the newest result, and since when it is the same; nil: none yet
	Effective     float64    `json:"effective_weight"`       // less while it starts slowly
	Starting      bool       `json:"starting"`               // slow_start is under way
	HeldUntil     time.Time  `json:"held_until,omitzero"`    // it flaps, and gets nothing before
	EjectedUntil  time.Time  `json:"ejected_until,omitzero"` // its sessions went wrong, and it gets no new ones before
	Ejections     int64      `json:"ejections"`
	EarlyResets   int64      `json:"early_resets"`       // sessions that it reset soon after they had begun: see Pool.CountEarly
	Empty         int64      `json:"empty"`              // other sessions that it ended first, without a byte to the client
	KeptOut       string     `json:"kept_out,omitempty"` // single: why it gets nothing although it is fit

	FailuresBy map[string]int64 `json:"-"` // DialFailures by reason; all of them
	Dials      Durations        `json:"-"` // dials that succeeded or count against it
}

// LastChange is the newest transition of a backend and its evidence.
type LastChange struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// Status returns the pool at this moment. It never picks.
func (p *Pool) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Name: p.name, Strategy: p.strategy.Name, StrategyOrigin: "config", Eligible: p.Eligible()}
	s.Panic = p.panics
	s.QueueMax, s.Queued = p.policy.QueueMax, p.queue.length.Load()
	s.QueuedTotal, s.QueueTimeouts = p.queue.total.Load(), p.queue.timeouts.Load()
	s.Held, s.HeldTotal, s.HoldTimeouts = p.queue.held.Load(), p.queue.everHeld.Load(), p.queue.heldInVain.Load()
	if !p.strategy.same(p.file) {
		s.StrategyOrigin = "api"
	}
	s.Backends = make([]BackendStatus, 0, len(p.roster.entries))
	s.Conflict = slices.Clone(p.single.rivals)
	for _, e := range p.roster.entries {
		s.Backends = append(s.Backends, p.statusLocked(e))
	}
	for _, e := range p.roster.past {
		if e.Active() > 0 {
			s.Backends = append(s.Backends, e.status("removing", "removing"))
		}
	}
	s.LookupFailures = p.lookupFailures
	s.DeletedByAPI = slices.Sorted(maps.Keys(p.roster.deleted))
	return s
}

// Backend returns the backend of that id, one that is not draining out if there
// are several; ok is false if there is none.
func (p *Pool) Backend(id string) (b BackendStatus, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.roster.byID(id); e != nil {
		return p.statusLocked(e), true
	}
	e := first(p.roster.past, func(e *entry) bool { return e.id == id && e.Active() > 0 })
	if e == nil {
		return BackendStatus{}, false
	}
	return e.status("removing", "removing"), true
}

// Added returns how many backends the API has added.
func (p *Pool) Added() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.roster.entries {
		if !e.fromFile {
			n++
		}
	}
	return n
}

// statusLocked is the status of a member.
func (p *Pool) statusLocked(e *entry) BackendStatus {
	s := e.status(e.summary(p.policy), e.admin.String())
	s.KeptOut = p.keptOut(e)
	s.InUse = p.current.Load().uses(e.Backend)
	return s
}

func (e *entry) status(state, admin string) BackendStatus {
	toBackend, toClient := e.traffic.totals()
	return BackendStatus{
		ID:            e.id,
		Address:       e.address,
		Weight:        e.weight,
		Backup:        e.spec.Backup,
		Zone:          e.spec.Zone,
		Effective:     e.ramp.of(float64(e.weight)),
		Starting:      e.ramp.starting(),
		HeldUntil:     e.flap.until,
		EjectedUntil:  e.out.until,
		Ejections:     e.ejections.Load(),
		EarlyResets:   e.flaws.early.Load(),
		Empty:         e.flaws.empty.Load(),
		MaxSessions:   e.maxSessions,
		State:         state,
		Admin:         admin,
		Health:        e.Health().String(),
		Suspect:       e.suspect.Load(),
		Origin:        e.origin(),
		Overridden:    e.overridden(),
		Active:        e.active.Load(),
		Total:         e.total.Load(),
		DialFailures:  e.failures.total(),
		FailuresInRow: e.streak.Load(),
		ProbeFailures: e.probes.Load(),
		BytesToBack:   toBackend,
		BytesToClient: toClient,
		DrainEnds:     e.ends,
		LastChange:    e.last,
		LastProbe:     e.events.newest(EventProbe),
		FailuresBy:    e.failures.byReason(),
		Dials:         e.dials.durations(),
	}
}

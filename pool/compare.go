package pool

import (
	"fmt"
	"maps"
	"slices"
)

// Compare returns what Apply of c would change. It changes nothing.
func (p *Pool) Compare(c Config) []Edit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.compareLocked(c).edits()
}

// CompareClose returns what Close would change. It changes nothing.
func (p *Pool) CompareClose() []Edit {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &comparison{p: p, policy: p.policy, leaving: map[*entry]bool{}}
	for _, e := range p.roster.entries {
		d.remove(e, "", "")
	}
	return d.edits()
}

// comparison is what differs between a pool and a configuration, each with what
// would make it current, in the order in which that has to be done. It knows the
// pool as it will be after the steps before. Its methods need the pool's mutex.
type comparison struct {
	p         *Pool
	policy    Policy   // the new one
	names     []string // that backends may be found under
	steps     []step
	byID      map[string]*entry
	leaving   map[*entry]bool
	forgotten map[string]bool // ids whose deletion by the API is over
}

// step is one edit and what carries it out. An empty one is not told.
type step struct {
	Edit
	do func()
}

func (p *Pool) compareLocked(c Config) *comparison {
	d := &comparison{
		p: p, policy: c.Policy, names: c.Names,
		byID: map[string]*entry{}, leaving: map[*entry]bool{}, forgotten: map[string]bool{},
	}
	for _, e := range slices.Backward(p.roster.entries) {
		d.byID[e.id] = e // the first of an id wins, as in the roster
	}
	d.strategy(c.Strategy)
	d.policies()
	d.removals(c.Backends)
	for _, s := range c.Backends {
		d.backend(s)
	}
	d.absent(c.Backends)
	return d
}

func (d *comparison) carryOut() {
	for _, s := range d.steps {
		s.do()
	}
}

func (d *comparison) edits() []Edit {
	var all []Edit
	for _, s := range d.steps {
		if s.Kind != "" {
			all = append(all, s.Edit)
		}
	}
	return all
}

// pool notes keys of the pool itself.
func (d *comparison) pool(e Edit, do func()) {
	if len(e.Keys) == 0 {
		return
	}
	e.Kind, e.Name, e.Change = "pool", d.p.name, "altered"
	for _, m := range d.p.roster.entries {
		e.Sessions += m.Active()
	}
	e.Fate = FateStay
	d.steps = append(d.steps, step{e, do})
}

// one notes what happens to one backend.
func (d *comparison) one(s Spec, e Edit, do func()) {
	e.Kind, e.Pool, e.Name, e.Address = "backend", d.p.name, s.ID, s.Address
	if e.Sessions > 0 && e.Fate == "" {
		e.Fate = FateStay
	}
	d.steps = append(d.steps, step{e, do})
}

// removals finds what the file no longer has, and what the API added in the
// place of an entry of the file.
func (d *comparison) removals(specs []Spec) {
	byID, byAddress := map[string]Spec{}, map[string]Spec{}
	for _, s := range specs {
		if own, ok := d.p.roster.deleted[s.ID]; ok && own.Spec.same(s) {
			continue // it stays deleted
		}
		byID[s.ID], byAddress[s.Address] = s, s
	}
	d.forgetDeleted(specs)
	for _, e := range d.p.roster.entries {
		same := byID[e.id].Address == e.address
		_, idTaken := byID[e.id]
		_, addressTaken := byAddress[e.address]
		switch {
		case same:
		case e.fromFile && d.found(e.spec) && !idTaken:
			d.remove(e, noLonger(e.spec), noLonger(e.spec))
			d.steps = append(d.steps, step{do: func() { e.absent = true }})
		case e.fromFile:
			d.remove(e, "removed from the file", "")
		case idTaken || addressTaken:
			d.remove(e, "the file defines its id or address", "since the file now has the id or address of what the API added")
		}
	}
}

func (d *comparison) remove(e *entry, reason, note string) {
	d.leaving[e] = true
	edit := Edit{Change: "removed", Note: note, Sessions: e.Active()}
	if edit.Sessions > 0 {
		edit.Fate = d.policy.fateOfRemoved()
	}
	d.one(Spec{ID: e.id, Address: e.address}, edit, func() { d.p.leaveLocked(e, reason) })
}

// fateOfRemoved says what becomes of the sessions of a backend that is removed.
func (pol Policy) fateOfRemoved() string {
	switch {
	case pol.CloseGone:
		return FateClose
	case pol.DrainFor > 0:
		return fmt.Sprintf("drain, for %v at most", pol.DrainFor)
	}
	return "drain, as long as they last"
}

// forgetDeleted ends the memory of what the API deleted where the file's entry
// has left or changed.
func (d *comparison) forgetDeleted(specs []Spec) {
	now := make(map[string]Spec, len(specs))
	for _, s := range specs {
		now[s.ID] = s
	}
	for _, id := range slices.Sorted(maps.Keys(d.p.roster.deleted)) {
		own := d.p.roster.deleted[id]
		s, ok := now[id]
		if ok && own.Spec.same(s) || !ok && d.unanswered(own.Spec, specs) {
			continue
		}
		d.forgotten[id] = true
		forget := func() { delete(d.p.roster.deleted, id) }
		if ok {
			d.steps = append(d.steps, step{do: forget}) // it is added below
			continue
		}
		d.one(own.Spec, Edit{Change: "removed", Note: "as the API had done already"}, forget)
	}
}

// backend finds what the file adds, adopts or changes of one backend.
func (d *comparison) backend(s Spec) {
	p := d.p
	if _, ok := p.roster.deleted[s.ID]; ok && !d.forgotten[s.ID] {
		return
	}
	e := d.byID[s.ID]
	if e == nil || d.leaving[e] {
		d.one(s, Edit{Change: "added", Note: s.underName()}, func() { p.enterLocked(s, true, s.cameBy()) })
		return
	}
	edit := Edit{Change: "altered", Sessions: e.Active()}
	edit.Alter("origin", e.origin(), s.origin())
	edit.Alter("name", e.spec.Name, s.Name)
	edit.value("weight", e.weight, e.spec.Weight, s.Weight)
	edit.value("max_sessions", e.maxSessions, e.spec.MaxSessions, s.MaxSessions)
	edit.Alter("send_proxy", proxyVersion(e.spec.SendProxy), proxyVersion(s.SendProxy))
	edit.Alter("backup", e.spec.Backup, s.Backup)
	edit.Alter("zone", e.spec.Zone, s.Zone)
	if len(edit.Keys) > 0 {
		d.one(s, edit, func() { e.takeOver(s) })
	}
}

// value is Alter for what the API can override: what the file had decides
// whether it differs, and it replaces what is in force.
func (e *Edit) value(key string, inForce, file, now int) {
	if file != now {
		e.Keys = append(e.Keys, Key{Key: key, From: fmt.Sprint(inForce), To: fmt.Sprint(now), ByAPI: inForce != file})
	}
}

package pool

import (
	"slices"
	"time"
)

// remembered is how long a removed backend keeps its counters and health, in
// case it comes back: two or three deployments' worth. Chosen, not measured.
const remembered = 10 * time.Minute

// entry is one backend's membership: what the file or the API asked for, and
// what is in force. An override is a value in force that is not the file's.
type entry struct {
	*Backend
	seq      uint64
	spec     Spec // the file's, or what the API added
	fromFile bool

	weight, maxSessions int
	admin               Admin
	since               Since

	waits bool // not to be used before its first probe result
	flap  flap
	out   ejection
	ramp  ramp
	retry *time.Timer // opens the next trial
	last  LastChange

	verdict LastChange // of the health that it has; zero: none yet
	by      string     // who set admin; empty: not known

	outSince time.Time   // since when no new session gets it by order; zero while one may
	cut      *time.Timer // ends its sessions
	ends     time.Time   // when cut does

	left   time.Time // when it was removed; zero: its name has not answered yet
	gone   bool      // removed, and its last session ended
	absent bool      // its name has it no longer, and may have it again: see absent.go
}

// member is what a snapshot has of e if its weights are scale times what they
// are.
func (e *entry) member(scale int, onTrial bool) *Member {
	return &Member{
		Backend:     e.Backend,
		Weight:      e.ramp.share(e.weight * scale),
		MaxSessions: e.maxSessions,
		Seq:         e.seq,
		full:        e.weight,
		tier:        e.spec.Backup,
		zone:        e.spec.Zone,
		onTrial:     onTrial,
		step:        e.ramp.step,
	}
}

// wanted reports whether the operator lets new sessions in.
func (e *entry) wanted() bool { return e.admin == Ready && e.weight > 0 }

// fit reports whether health, and how its sessions went, let new ones in.
func (e *entry) fit(pol Policy) bool { return !e.flap.held() && !e.out.on() && e.healthy(pol) }

// healthy is fit for a member that is neither held out nor ejected.
func (e *entry) healthy(pol Policy) bool {
	switch e.Health() {
	case Up:
		return true
	case Unknown:
		return !pol.Probed || pol.Init == InitUp || !e.waits
	default:
		return false
	}
}

// summary is the state in one word.
func (e *entry) summary(pol Policy) string {
	switch {
	case e.admin != Ready:
		return e.admin.String()
	case e.fit(pol):
		return "up"
	default:
		return "down"
	}
}

func (e *entry) origin() string {
	if e.fromFile {
		return e.spec.origin()
	}
	return "api"
}

// overridden lists the keys whose value came by the API.
func (e *entry) overridden() (keys []string) {
	if e.weight != e.spec.Weight {
		keys = append(keys, "weight")
	}
	if e.maxSessions != e.spec.MaxSessions {
		keys = append(keys, "max_sessions")
	}
	if e.admin != Ready {
		keys = append(keys, "state")
	}
	return keys
}

// roster is who belongs to the pool, and who did.
type roster struct {
	entries []*entry            // in order of registration
	past    []*entry            // removed: draining out, or remembered
	deleted map[string]Deletion // entries of the file that the API removed, by id
	seq     uint64
}

func (r *roster) byID(id string) *entry {
	return first(r.entries, func(e *entry) bool { return e.id == id })
}

// byAddress returns the entry of that address, however it is written.
func (r *roster) byAddress(address string) *entry {
	a, err := ParseAddress(address)
	return first(r.entries, func(e *entry) bool {
		if e.address == address {
			return true
		}
		b, errB := ParseAddress(e.address)
		return err == nil && errB == nil && a == b
	})
}

func (r *roster) of(b *Backend) *entry {
	return first(r.entries, func(e *entry) bool { return e.Backend == b })
}

func first(es []*entry, is func(*entry) bool) *entry {
	if i := slices.IndexFunc(es, is); i >= 0 {
		return es[i]
	}
	return nil
}

// enter appends an entry for s. It continues the backend of that identity if it
// is remembered, and then returns its former entry too.
func (r *roster) enter(pool string, s Spec) (e, former *entry) {
	r.seq++
	e = &entry{seq: r.seq, spec: s, weight: s.Weight, maxSessions: s.MaxSessions}
	former = first(r.past, func(e *entry) bool { return e.id == s.ID && e.address == s.Address })
	if former != nil {
		r.past = slices.DeleteFunc(r.past, func(e *entry) bool { return e == former })
		e.Backend, e.waits, e.verdict = former.Backend, former.waits, former.verdict
		e.flap, e.out = former.flap, former.out
	} else {
		e.Backend = &Backend{pool: pool, id: s.ID, address: s.Address}
	}
	r.entries = append(r.entries, e)
	return e, former
}

// leave moves an entry to the past.
func (r *roster) leave(e *entry, now time.Time) {
	r.entries = slices.DeleteFunc(r.entries, func(o *entry) bool { return o == e })
	e.left = now
	r.past = append(r.past, e)
}

// forget drops the removed backends that nothing refers to any more.
func (r *roster) forget(now time.Time) {
	r.past = slices.DeleteFunc(r.past, func(e *entry) bool {
		return e.Active() == 0 && !e.left.IsZero() && now.Sub(e.left) >= remembered
	})
}

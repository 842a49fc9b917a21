package discover

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// MaxFound is how many addresses a name may stand for; the first, sorted, count.
// Chosen: more than fit into a pool that people look at, and a bound for an answer
// gone wild.
const MaxFound = 256

const (
	// patience is how many good answers in a row must lack an address before it is
	// gone. The next follow a second apart, so that this takes two seconds more.
	patience = 3
	// longPatience is how long a name whose answers rotate must lack an address:
	// with 8 of 20 at random every 10 s, none is missing for so long in a lifetime.
	longPatience = 10 * time.Minute
	// rotation is how long answers count as rotating after the last sign of it.
	rotation = time.Hour
)

// Found is one address that a name stands for.
type Found struct {
	Addr     netip.Addr
	Port     uint16 // of SRV; else 0
	Priority uint16 // of SRV; less comes first
	Weight   uint16 // of SRV
	Target   string // of SRV: the name that Addr was found under
}

type place struct {
	addr netip.Addr
	port uint16
}

func (f Found) place() place { return place{f.Addr, f.Port} }

func (f Found) compare(g Found) int {
	return cmp.Or(cmp.Compare(f.Priority, g.Priority), f.Addr.Compare(g.Addr), cmp.Compare(f.Port, g.Port))
}

// memory is what the answers about one name said so far.
//
// Some servers answer with a part of the addresses only, another one each time:
// eight at random, or one in turns. Taken at their word they would add and remove
// backends all the time. They give themselves away: one answer brings an address
// back that others lacked, and lacks one that the last had. A member that comes or
// goes does not do that; a name that goes over to another server and back does, once,
// so it takes a second time. The zero value knows nothing.
type memory struct {
	records map[place]*record
	sign    time.Time // the last sign of rotation; zero: there was none
	rotated time.Time // the last that came soon enough after another
}

// record is what is known of one address. Those that are gone are remembered for
// longPatience: a rotation may take longer than patience.
type record struct {
	Found
	last   time.Time // when an answer had it
	missed int       // good answers since
	gone   bool
}

// take takes in a good answer.
func (m *memory) take(answer []Found, now time.Time) {
	if m.records == nil {
		m.records = map[place]*record{}
	}
	fresh := map[place]Found{}
	for _, f := range answer {
		if g, ok := fresh[f.place()]; !ok || f.Priority < g.Priority || f.Priority == g.Priority && f.Weight > g.Weight {
			fresh[f.place()] = f
		}
	}
	m.notice(fresh, now)
	for at, f := range fresh {
		m.records[at] = &record{Found: f, last: now}
	}
	for at, r := range m.records {
		if _, ok := fresh[at]; !ok {
			r.missed++
			m.missing(at, r, now)
		}
	}
}

// notice looks for the sign of a rotation.
func (m *memory) notice(fresh map[place]Found, now time.Time) {
	returns, leaves := false, false
	for at, r := range m.records {
		_, ok := fresh[at]
		returns = returns || ok && r.missed > 0
		leaves = leaves || !ok && r.missed == 0
	}
	if !returns || !leaves {
		return
	}
	if !m.sign.IsZero() && now.Sub(m.sign) < rotation {
		m.rotated = now
	}
	m.sign = now
}

// missing decides about an address that the last answer lacked.
func (m *memory) missing(at place, r *record, now time.Time) {
	long := now.Sub(r.last) >= longPatience
	r.gone = r.gone || long || r.missed >= patience && !m.rotating(now)
	if long {
		delete(m.records, at)
	}
}

func (m *memory) rotating(now time.Time) bool {
	return !m.rotated.IsZero() && now.Sub(m.rotated) < rotation
}

func (m *memory) empty() bool { return len(m.list()) == 0 }

// doubts reports whether an answer now would tell more than one later.
func (m *memory) doubts(now time.Time) bool {
	if m.rotating(now) {
		return false
	}
	for _, r := range m.records {
		if r.missed > 0 && !r.gone {
			return true
		}
	}
	return false
}

// list returns what the name stands for, sorted and unbounded.
func (m *memory) list() []Found {
	list := make([]Found, 0, len(m.records))
	for _, r := range m.records {
		if !r.gone {
			list = append(list, r.Found)
		}
	}
	slices.SortFunc(list, Found.compare)
	return list
}

// standing returns what the name stands for, how many of it the last answer
// lacked, and how many more there are than a name may stand for.
func (m *memory) standing() (list []Found, missing, leftOut int) {
	list = m.list()
	if leftOut = max(0, len(list)-MaxFound); leftOut > 0 {
		list = slices.Clip(list[:MaxFound])
	}
	for _, f := range list {
		if m.records[f.place()].missed > 0 {
			missing++
		}
	}
	return list, missing, leftOut
}

package pool

import (
	"fmt"
	"slices"
	"time"
)

// Explanation is which backend a new session would get at one moment, and why not
// each of the others: plain values.
type Explanation struct {
	Pool     string   `json:"pool"`
	Client   string   `json:"client,omitempty"` // whose session; empty: nobody's in particular
	Strategy string   `json:"strategy"`
	Pick     *Choice  `json:"pick"`     // null: none
	Outcome  string   `json:"outcome"`  // what becomes of a new session: served, waits or refused
	Text     string   `json:"text"`     // the same in a sentence
	Notes    []string `json:"notes"`    // what is out of the ordinary with the pool; never nil
	Queue    Line     `json:"queue"`    // for those who find no backend
	Backends []Reason `json:"backends"` // each once, in order of registration; then those that are leaving, and those that the API deleted
}

// Choice is the backend that would be picked.
type Choice struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Sure    bool   `json:"sure"` // false: the strategy draws lots, and this is one of those it may pick
}

// Line is the queue of the pool.
type Line struct {
	Max     int    `json:"max"`               // sessions that may wait; 0 is none
	Waiting int64  `json:"waiting"`           // that wait now
	AtMost  string `json:"at_most,omitempty"` // how long a new session would wait; empty: it would not
}

// Reason is what a backend is to a new session.
type Reason struct {
	ID       string    `json:"id"`
	Address  string    `json:"address"`
	Word     Word      `json:"reason"`
	Text     string    `json:"text"`     // the same with the evidence
	Eligible bool      `json:"eligible"` // it is one of those that are chosen from; full ones included
	Active   int64     `json:"active"`
	Weight   int       `json:"weight"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	Events   []Event   `json:"events,omitempty"` // the newest, oldest first
}

// Word is why a backend would be picked, or not.
type Word string

// The words, in the order of how near to a session they are.
const (
	Picked       Word = "pick"                // it would be picked
	NextTurns    Word = "next_turns"          // usable, but the strategy has another first
	ByChance     Word = "by_chance"           // usable, and might be picked as well
	Starting     Word = "starting"            // starts slowly, and sits this turn out
	Full         Word = "full"                // it is at its max_sessions
	OnTrial      Word = "on_trial"            // one session tries it
	Paused       Word = "paused"              // its dials failed, and sessions wait
	Backup       Word = "backup"              // of a tier that is not in use
	OtherZone    Word = "other_zone"          // with enough in the zone of the process
	WeightZero   Word = "weight_zero"         // by the file, or by the API
	Draining     Word = "draining"            // an operator drains it
	Maintained   Word = "maint"               // an operator has it in maintenance
	Downed       Word = "down"                // its probes or dials failed
	HeldOut      Word = "held_out"            // it flaps
	Ejected      Word = "ejected"             // its sessions went wrong
	Unprobed     Word = "waiting_first_probe" // init = "probe"
	Removing     Word = "removing"            // it is gone from the pool, and has sessions left
	DeletedByAPI Word = "deleted_by_api"      // it is in the file, and the API removed it
	KeptOut      Word = "kept_out"            // single = true
	PassedOver   Word = "passed_over"         // usable by itself; a rule of the pool has others used
)

// Reasoner is a Picker that can say why it would pick other than a member that is
// usable: NextTurns, ByChance or Starting, and a sentence. pick is what Preview
// returns.
type Reasoner interface {
	Why(q Query, m, pick *Member) (Word, string)
}

// Explain returns what Acquire would do with q now, and why, with the newest n
// events of each backend. It changes nothing.
func (p *Pool) Explain(q Query, n int) Explanation {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.current.Load()
	x := Explanation{Pool: p.name, Strategy: s.strategy.Name, Notes: []string{}}
	if q.Client.IsValid() {
		x.Client = q.Client.String()
	}
	v := view{p: p, s: s, q: q, members: make(map[*Backend]*Member, len(s.eligible)), levels: make(map[*Member]int, len(s.eligible))}
	for i, l := range s.levels {
		for _, m := range l.members {
			v.members[m.Backend], v.levels[m] = m, i
		}
	}
	v.q, v.turn = p.behindLocked(q)
	if s.picker != nil && !v.turn {
		var sure bool
		if v.pick, sure = s.preview(v.q); v.pick != nil {
			x.Pick = &Choice{v.pick.id, v.pick.address, sure}
		}
	}
	if c := p.censusLocked(); c.all(p.policy) && len(s.eligible) > 0 {
		x.Notes = append(x.Notes, fmt.Sprintf(`%s, so all_down = "try" has all used (panic_threshold = %d)`, c, p.policy.PanicBelow))
	}
	x.Queue = Line{Max: p.policy.QueueMax, Waiting: p.queue.length.Load()}
	v.outcome(&x)
	x.Backends = v.reasonsLocked(n)
	return x
}

// behindLocked returns what a session that comes would pick by, which is not all
// it asks for while others wait, and whether it would have to wait for its turn.
func (p *Pool) behindLocked(q Query) (want Query, turn bool) {
	if p.queue.length.Load() == 0 {
		return q, false
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.wantLocked(q, false), p.queue.pace.waits(p.policy.rate(), time.Now())
}

// outcome says what becomes of a new session.
func (v view) outcome(x *Explanation) {
	if x.Pick != nil {
		x.Outcome, x.Text = "served", "a new session gets "+x.Pick.ID
		if !x.Pick.Sure {
			x.Text += ", or another that the strategy draws"
		}
		return
	}
	err := v.s.refusal(v.q)
	if v.turn && err == ErrFull {
		err = errTurn
	}
	patience, ok := v.s.policy.waits(err, int(x.Queue.Waiting))
	if !ok {
		x.Outcome, x.Text = "refused", fmt.Sprintf("a new session is refused: %v", err)
		return
	}
	if err == errTurn {
		patience = v.s.policy.HoldFor
	}
	x.Queue.AtMost = patience.String()
	x.Outcome, x.Text = "waits", fmt.Sprintf("a new session waits for %v at most, behind %s: %v", patience, count(x.Queue.Waiting, "other"), err)
}

// view is what reasons are found in: one snapshot, and what it would pick.
type view struct {
	p    *Pool
	s    *snapshot
	q    Query   // what is picked by
	turn bool    // it is that of sessions which were held
	pick *Member // nil: none

	members map[*Backend]*Member // of the snapshot
	levels  map[*Member]int      // which each of them is on
}

// reasonsLocked lists every backend once.
func (v view) reasonsLocked(n int) []Reason {
	r := &v.p.roster
	list := make([]Reason, 0, len(r.entries))
	for _, e := range r.entries {
		reason := e.reason()
		if m := v.members[e.Backend]; m != nil {
			reason.Eligible = true
			v.chosenFrom(&reason, e, m)
		} else {
			v.p.leftOut(&reason, e)
		}
		list = append(list, reason.with(e, n))
	}
	for _, e := range r.past {
		if e.Active() > 0 {
			reason := e.reason()
			reason.Word, reason.Since = Removing, e.left
			reason.Text = fmt.Sprintf("%s; %s left", e.last.Reason, count(reason.Active, "session"))
			list = append(list, reason.with(e, n))
		}
	}
	return append(list, v.deletedLocked(list)...)
}

// deletedLocked lists what the API deleted and is not in the list yet.
func (v view) deletedLocked(listed []Reason) (list []Reason) {
	for _, d := range v.p.roster.deletions() {
		same := func(r Reason) bool { return r.ID == d.Spec.ID && r.Address == d.Spec.Address }
		if !slices.ContainsFunc(listed, same) {
			list = append(list, Reason{ID: d.Spec.ID, Address: d.Spec.Address, Word: DeletedByAPI,
				Text: "the file has it, and the API removed it", Since: d.Since})
		}
	}
	return list
}

func (e *entry) reason() Reason {
	return Reason{ID: e.id, Address: e.address, Weight: e.weight, Active: e.Active()}
}

func (r Reason) with(e *entry, n int) Reason {
	if n > 0 {
		r.Events = e.events.last(n)
	}
	return r
}

package pool

import (
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Event is something that happened to a backend, or the same thing several times
// in a row: then it is told once, with the first and the last time.
type Event struct {
	Kind  EventKind `json:"kind"`
	Text  string    `json:"text"` // the evidence, in one line of at most maxEventText bytes
	Count int       `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"` // First, if it happened once
}

// EventKind is what an event is about, in one word.
type EventKind string

const (
	EventProbe  EventKind = "probe"  // the result of an active check
	EventDial   EventKind = "dial"   // a session's dial that failed
	EventState  EventKind = "state"  // a transition, as in Change
	EventChange EventKind = "change" // the API or the file set a value of it
	EventTrial  EventKind = "trial"  // one session may try whether it is back
	EventEvict  EventKind = "evict"  // its sessions are to end
)

const (
	// failedProbe begins the text of a probe that failed.
	failedProbe = "failed: "
	// maxEvents is how many events are kept of each backend. Specified.
	maxEvents = 50
	// maxEventText bounds the text of one, so that a thousand backends that tell
	// much hold 15 MB at most. Chosen: a probe's evidence is shorter.
	maxEventText = 300
)

// events are the newest events of a backend, oldest first. An event that equals
// the newest of its kind is one more of that, whatever of other kinds came between:
// a backend whose probes and dials fail for an hour has two events of it. Safe for
// concurrent use; nothing is locked under mu. The zero value is empty, and holds
// no memory.
type events struct {
	mu   sync.Mutex
	list []Event // a ring once it is full
	next int     // where the next goes then: the oldest
}

// note adds an event that happened now. One more of the same costs no memory. text
// is kept as it is, so it must not be a part of something large.
func (es *events) note(kind EventKind, text string) { es.noteAt(time.Now(), kind, text) }

func (es *events) noteAt(at time.Time, kind EventKind, text string) {
	text = brief(text)
	es.mu.Lock()
	defer es.mu.Unlock()
	if e := es.newestLocked(kind); e != nil && e.repeats(text) {
		e.Text = text
		e.Count++
		e.Last = at
		return
	}
	e := Event{kind, text, 1, at, at}
	if len(es.list) < maxEvents {
		es.list = append(es.list, e)
		return
	}
	es.list[es.next] = e
	es.next = (es.next + 1) % maxEvents
}

// repeats reports whether a text says the same as the event again. A result may
// have other numbers in it each time, such as a lag that grows: of these the newest
// are kept, or a minute of them would be all that is known.
func (e *Event) repeats(text string) bool {
	if e.Kind != EventProbe && e.Kind != EventDial {
		return e.Text == text
	}
	return numberless(e.Text) == numberless(text)
}

// numberless is a text without its digits.
func numberless(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// newestLocked returns the newest event of a kind, nil if there is none.
func (es *events) newestLocked(kind EventKind) *Event {
	for i := range es.list {
		e := &es.list[(es.next+len(es.list)-1-i)%len(es.list)]
		if e.Kind == kind {
			return e
		}
	}
	return nil
}

// newest returns a copy of the newest event of a kind, nil if there is none.
func (es *events) newest(kind EventKind) *Event {
	es.mu.Lock()
	defer es.mu.Unlock()
	if e := es.newestLocked(kind); e != nil {
		found := *e
		return &found
	}
	return nil
}

// last returns the newest n events, or as many as there are, oldest first.
func (es *events) last(n int) []Event {
	es.mu.Lock()
	defer es.mu.Unlock()
	list := make([]Event, 0, len(es.list))
	list = append(append(list, es.list[es.next:]...), es.list[:es.next]...)
	return list[len(list)-min(n, len(list)):]
}

// brief makes a line of a text that some other party may have had a hand in: no
// control characters, nothing that is not UTF-8, not too long.
func brief(text string) string {
	if len(text) > maxEventText {
		cut := maxEventText - len("...")
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "..."
	}
	if strings.IndexFunc(text, unprintable) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if unprintable(r) {
			return '?'
		}
		return r
	}, text)
}

func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// sourceless leaves our own address out of the text of a network error: its port
// is another with each connection, and equal results would not look equal.
func sourceless(text string) string {
	at := strings.Index(text, "->")
	if at < 0 {
		return text
	}
	from := strings.LastIndexByte(text[:at], ' ') + 1
	return text[:from] + text[at+len("->"):]
}

// NoteProbe notes the result of a probe among the backend's events: nil, or what
// it found wrong.
func (b *Backend) NoteProbe(err error) {
	text := "passed"
	if err != nil {
		text = failedProbe + sourceless(err.Error())
	}
	b.events.note(EventProbe, text)
}

// NoteDial notes a failed dial that does not count against the backend among its
// events; those that count are noted by the lease. reason is a word of Lease.Failed,
// or resolve or local.
func (b *Backend) NoteDial(reason string, err error) {
	b.events.note(EventDial, reason+", not counted: "+sourceless(err.Error()))
}

// Events returns the newest events of the backend of that id, at most n, oldest
// first; of several that are draining out, those of the one removed last. ok is
// false if there is none.
func (p *Pool) Events(id string, n int) (list []Event, ok bool) {
	p.mu.Lock()
	e := p.roster.knownByID(id)
	p.mu.Unlock()
	if e == nil {
		return nil, false
	}
	return e.events.last(n), true
}

// knownByID returns the entry of that id, or else the one removed last.
func (r *roster) knownByID(id string) *entry {
	if e := r.byID(id); e != nil {
		return e
	}
	for i := len(r.past) - 1; i >= 0; i-- {
		if r.past[i].id == id {
			return r.past[i]
		}
	}
	return nil
}

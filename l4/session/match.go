package session

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"sluice/pool"
)

// Key is the id of a session, taken apart.
type Key struct {
	Process string
	Number  uint64
}

// ParseKey takes an id apart; ok is false if no session can have it.
func ParseKey(id string) (k Key, ok bool) {
	process, rest, _ := strings.Cut(id, "-")
	number, err := strconv.ParseUint(rest, 10, 64)
	k = Key{process, number}
	return k, err == nil && process != "" && number > 0 && k.String() == id
}

// String returns the id.
func (k Key) String() string {
	var buf [64]byte
	id := append(buf[:0], k.Process...)
	id = append(id, '-')
	return string(strconv.AppendUint(id, k.Number, 10))
}

// Compare orders keys: the sessions of one frontend by their start.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Process, o.Process), cmp.Compare(k.Number, o.Number))
}

// Keys are ids of sessions.
type Keys map[Key]struct{}

// Match says which sessions an order or a listing is for. Zero fields match all.
type Match struct {
	Key      Key    // Number 0: all of the process part
	Among    *Keys  // not to be changed while the match is in use
	Frontend string // names and ids, as in a Row
	Pool     string
	Backend  string
	State    string
	On       *pool.Backend // dialed or reached: this one, not another of its id
	Client   netip.Prefix  // unmapped
	Before   time.Time     // started by then; with a backend: it was picked by then
	MinAge   time.Duration
	MinIdle  time.Duration
}

// Matches reports whether m is for the session. It may be called at any time
// after Start, by the session's owner.
func (s *Session) Matches(now time.Time, m *Match) bool {
	o := s.origin
	return wanted(m.Key.Process, o.Process) && wanted(m.Key.Number, s.number) &&
		wanted(m.On, s.lease.Backend()) && m.Among.has(s.Key()) &&
		wanted(m.Frontend, o.Frontend) && wanted(m.Pool, o.Pool.Name()) &&
		(m.Backend == "" || m.Backend == s.backendID()) && wanted(m.State, s.state()) &&
		(!m.Client.IsValid() || m.Client.Contains(s.client.WithZone(""))) &&
		(m.Before.IsZero() || !s.since().After(m.Before)) &&
		s.age(now) >= m.MinAge && s.Idle(now) >= m.MinIdle
}

// has reports whether k is among the keys; without any it is.
func (keys *Keys) has(k Key) bool {
	if keys == nil {
		return true
	}
	_, ok := (*keys)[k]
	return ok
}

// Idle returns the time since the last progress either way.
func (s *Session) Idle(now time.Time) time.Duration { return s.age(now) - s.progress }

// since returns when the backend was picked that is dialed or was reached; without
// one, when the session started. A session that had nothing to wait for has both
// at once.
func (s *Session) since() time.Time {
	switch {
	case s.search != nil && s.lease.Backend() != nil:
		return s.search.route.started
	case s.search == nil && s.rest != nil:
		return s.started.Add(s.rest.picked)
	}
	return s.started
}

// wanted reports whether got is what is wanted; the zero value wants anything.
func wanted[T comparable](want, got T) bool {
	var zero T
	return want == zero || want == got
}

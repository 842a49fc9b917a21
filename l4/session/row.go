package session

import (
	"net/netip"
	"time"
)

// Row is one line of a listing of sessions: plain values, as of one moment.
type Row struct {
	Key        Key // its id
	Frontend   string
	Listen     string
	Client     netip.AddrPort // unmapped; zero for a unix socket
	Peer       netip.AddrPort // of the socket, if a header told another client; else zero
	Pool       string
	Backend    string // id of the backend that is dialed or was reached, else the last one tried; empty if none
	Address    string // of Backend, the last one dialed: a literal address or a path; empty if none was
	Started    time.Time
	State      string // header, queued, dialing, which includes look-ups; relaying; or ending
	ToBackend  int64  // payload bytes
	ToClient   int64
	Age        time.Duration
	Idle       time.Duration // since the last progress
	HalfClosed bool          // one side has ended and the other has not
	Links      [2]Link       // by side; the engine fills them in
}

// Link is what the kernel says of one side's connection.
type Link struct {
	Known       bool // false: there is none, it is no TCP, or the system does not say
	RTT         time.Duration
	Retransmits int // segments sent again since it began
}

// Row returns the session's line of a listing. It may be called at any time
// after Start, by the session's owner, and changes nothing.
func (s *Session) Row(now time.Time) Row {
	o := s.origin
	return Row{
		Key: s.Key(), Frontend: o.Frontend, Listen: o.Listen, Client: s.clientAddr(), Peer: s.peer(),
		Pool: o.Pool.Name(), Backend: s.backendID(), Address: s.lastAddress(),
		Started: s.started, State: s.state(),
		ToBackend: s.moved[Client], ToClient: s.moved[Backend],
		Age: s.age(now), Idle: s.Idle(now), HalfClosed: s.HalfClosed(),
	}
}

// state returns the word for what the session does.
func (s *Session) state() string {
	switch {
	case s.search != nil && s.search.step.Do == Header:
		return "header"
	case s.search != nil && (s.search.step.Do == Queue || s.search.step.Do == Wait):
		return "queued"
	case s.search != nil:
		return "dialing"
	case s.backend() != nil && s.ending == None:
		return "relaying"
	}
	return "ending"
}

// backendID returns the id of the backend dialed or reached, else of the last
// one tried, empty if there is none.
func (s *Session) backendID() string {
	if b := s.lease.Backend(); b != nil {
		return b.ID()
	}
	list := s.attempts()
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1].Backend
}

// lastAddress returns the address dialed last, empty if there is none.
func (s *Session) lastAddress() string {
	if s.search != nil {
		return s.search.address
	}
	return s.address.Value()
}

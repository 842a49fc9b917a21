package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"sluice/admin/internal/answer"
	"sluice/l4/session"

	"go.uber.org/zap"
)

// pageSize is how many sessions one answer lists at most: design value, some
// 400 KB.
const pageSize = 1000

// listing is a page of GET /sessions.
type listing struct {
	Sessions []line  `json:"sessions"`
	Next     *string `json:"next"` // for the parameter after; null at the end
}

// line is one session.
type line struct {
	ID         string    `json:"id"`
	Frontend   string    `json:"frontend"`
	Listen     string    `json:"listen"`
	Client     string    `json:"client"` // empty for a unix socket
	Peer       string    `json:"peer,omitempty"`
	Pool       string    `json:"pool"`
	Backend    string    `json:"backend"`
	Address    string    `json:"address"`
	Started    time.Time `json:"started"`
	State      string    `json:"state"`
	ToBackend  int64     `json:"to_backend"`
	ToClient   int64     `json:"to_client"`
	AgeMS      int64     `json:"age_ms"`
	IdleMS     int64     `json:"idle_ms"`
	HalfClosed bool      `json:"half_closed"`
	ClientTCP  *link     `json:"client_tcp,omitempty"`
	BackendTCP *link     `json:"backend_tcp,omitempty"`
}

// link is what the kernel says of one side.
type link struct {
	RTT         float64 `json:"rtt_ms"`
	Retransmits int     `json:"retransmits"`
}

// listSessions shows a page of the sessions that the query asks for.
func (s *Server) listSessions(c *call) (int, any, error) {
	var m session.Match
	var after session.Key
	most := pageSize
	p := filters(&m)
	p["after"], p["limit"] = id(&after), count(&most, pageSize)
	if err := p.take(c.r.URL.RawQuery); err != nil {
		return 0, nil, err
	}
	rows, more := s.src.Sessions(m, after, most)
	page := listing{Sessions: make([]line, 0, len(rows))}
	for _, r := range rows {
		page.Sessions = append(page.Sessions, lineOf(r))
	}
	if more && len(rows) > 0 {
		last := rows[len(rows)-1].Key.String()
		page.Next = &last
	}
	return http.StatusOK, page, nil
}

func lineOf(r session.Row) line {
	return line{
		ID: r.Key.String(), Frontend: r.Frontend, Listen: r.Listen,
		Client: shownAddr(r.Client), Peer: shownAddr(r.Peer),
		Pool: r.Pool, Backend: r.Backend, Address: r.Address, Started: r.Started, State: r.State,
		ToBackend: r.ToBackend, ToClient: r.ToClient,
		AgeMS: r.Age.Milliseconds(), IdleMS: r.Idle.Milliseconds(), HalfClosed: r.HalfClosed,
		ClientTCP: linkOf(r.Links[session.Client]), BackendTCP: linkOf(r.Links[session.Backend]),
	}
}

// shownAddr returns an address, empty if there is none.
func shownAddr(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// linkOf returns nil where nothing is known.
func linkOf(l session.Link) *link {
	if !l.Known {
		return nil
	}
	return &link{float64(l.RTT.Microseconds()) / 1000, l.Retransmits}
}

// endSession ends one session.
func (s *Server) endSession(c *call) (int, any, error) {
	k, ok := session.ParseKey(c.name)
	var was []session.Row
	if ok {
		was, _ = s.src.Sessions(session.Match{Key: k}, session.Key{}, 1)
	}
	if len(was) == 0 || s.src.End(session.Match{Key: k}) == 0 {
		return 0, nil, answer.Refuse(http.StatusNotFound, "no session %q, or it is ending already; GET /sessions lists them", shown(c.name))
	}
	s.changed(c, "session ended", zap.String("session", c.name), zap.String("client", shownAddr(was[0].Client)),
		zap.String("backend", was[0].Backend), zap.String("change", "state "+was[0].State+" -> ending"))
	return http.StatusNoContent, nil, nil
}

// endSessions ends all sessions that the query asks for. To mean all of them has
// to be said.
func (s *Server) endSessions(c *call) (int, any, error) {
	var m session.Match
	all := false
	p := filters(&m)
	p["all"] = func(value string) error {
		if all = value == "true"; !all {
			return mistake("true, or left out")
		}
		return nil
	}
	if err := p.take(c.r.URL.RawQuery); err != nil {
		return 0, nil, err
	}
	none := m == session.Match{}
	switch {
	case none && !all:
		return 0, nil, answer.Refuse(http.StatusBadRequest, "no filter is given, so every session would end; write all=true to mean that")
	case !none && all:
		return 0, nil, answer.Refuse(http.StatusBadRequest, `parameter "all" and a filter contradict each other; leave one out`)
	}
	n := s.src.End(m)
	s.changed(c, "sessions ended", zap.String("filter", shown(c.r.URL.RawQuery)),
		zap.String("change", fmt.Sprintf("%d sessions -> ending", n)))
	return http.StatusOK, struct {
		Ended int `json:"ended"`
	}{n}, nil
}

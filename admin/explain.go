package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"sluice/admin/internal/answer"
	"sluice/pool"
)

const (
	// eventsOf ends the path that shows the events of a backend.
	eventsOf = "/events"
	// allEvents is more than a pool keeps of a backend.
	allEvents = 1 << 10
	// fewEvents is how many an explanation shows of each backend. Chosen.
	fewEvents = 5
)

// Explained is the answer of GET /explain.
type Explained struct {
	At time.Time `json:"at"`
	pool.Explanation
}

// explain shows which backend a new session would get, and why not the others.
func (s *Server) explain(c *call) (int, any, error) {
	var in string
	var q pool.Query
	n := fewEvents
	err := parameters{"pool": name(&in), "client": address(&q.Client), "events": upTo(&n)}.take(c.r.URL.RawQuery)
	if err != nil {
		return 0, nil, err
	}
	p, err := s.pool(in)
	if err != nil {
		return 0, nil, err
	}
	x := Explained{time.Now(), p.Explain(q, n)}
	x.Notes = append(x.Notes, unanswered(s.src.Names(p))...)
	return http.StatusOK, x, nil
}

// unanswered says which names cannot be looked up: a backend that was never found
// is in no list.
func unanswered(names []Name) (notes []string) {
	for _, n := range names {
		if n.Error != "" {
			notes = append(notes, fmt.Sprintf("no answer for the name of %s since %s, so what it stands for stays as it was (%d): %s",
				n.ID, n.Since.UTC().Format(time.DateTime+" UTC"), len(n.Found), n.Error))
		}
	}
	return notes
}

// address takes the address of a client, as a pool is told of it.
func address(to *netip.Addr) func(string) error {
	return func(value string) error {
		a, err := netip.ParseAddr(value)
		if err != nil || a.Zone() != "" {
			return mistake("an address without a port or a zone, such as 10.0.0.1")
		}
		*to = a.Unmap()
		return nil
	}
}

// upTo takes all, or how many, none included.
func upTo(to *int) func(string) error {
	return func(value string) error {
		if value == "all" || value == "0" {
			*to = map[string]int{"all": allEvents, "0": 0}[value]
			return nil
		}
		if err := count(to, allEvents)(value); err != nil {
			return mistake(fmt.Sprintf("all, or a whole number from 0 to %d", allEvents))
		}
		return nil
	}
}

// showEvents shows what happened to a backend of late, oldest first.
func (s *Server) showEvents(c *call) (int, any, error) {
	p, err := s.inPool(c)
	if err != nil {
		return 0, nil, err
	}
	id := strings.TrimSuffix(c.name, eventsOf)
	list, ok := p.Events(id, allEvents)
	if !ok {
		return 0, nil, answer.Refuse(http.StatusNotFound, "no such backend: %q; GET /explain lists those that there are", shown(id))
	}
	return http.StatusOK, struct {
		Pool    string       `json:"pool"`
		Backend string       `json:"backend"`
		Events  []pool.Event `json:"events"`
	}{p.Name(), id, list}, nil
}

package admin

import (
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/admin/internal/answer"
	"sluice/l4/session"
)

// parameters are what a query may hold, each with what takes its value. An error
// says what the value must be.
type parameters map[string]func(value string) error

// take reads the query. What is unknown, empty or given twice is refused: a
// filter that is not understood must not end more sessions than were meant.
func (p parameters) take(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return answer.Refuse(http.StatusBadRequest, "the query cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set, known := p[name]
		switch {
		case !known:
			return answer.Refuse(http.StatusBadRequest, "unknown parameter %q; known are: %s",
				name, strings.Join(slices.Sorted(maps.Keys(p)), ", "))
		case len(values[name]) > 1:
			return answer.Refuse(http.StatusBadRequest, "parameter %q is given twice", name)
		case values[name][0] == "":
			return answer.Refuse(http.StatusBadRequest, "parameter %q is empty", name)
		}
		if err := set(values[name][0]); err != nil {
			return answer.Refuse(http.StatusBadRequest, "parameter %q %v", name, err)
		}
	}
	return nil
}

// mistake is what a value must be.
type mistake string

func (m mistake) Error() string { return "must be " + string(m) }

// states are the words for what a session does.
var states = []string{"header", "queued", "dialing", "relaying", "ending"}

// filters are the parameters that say which sessions m is for.
func filters(m *session.Match) parameters {
	return parameters{
		"frontend": name(&m.Frontend),
		"pool":     name(&m.Pool),
		"backend":  name(&m.Backend),
		"client":   prefix(&m.Client),
		"min_age":  span(&m.MinAge),
		"min_idle": span(&m.MinIdle),
		"state": func(value string) error {
			if !slices.Contains(states, value) {
				return mistake("one of: " + strings.Join(states, ", "))
			}
			m.State = value
			return nil
		},
	}
}

func name(to *string) func(string) error {
	return func(value string) error {
		*to = value
		return nil
	}
}

// span takes a duration.
func span(to *time.Duration) func(string) error {
	return func(value string) error {
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return mistake(`a duration with a unit, such as "90s"`)
		}
		*to = d
		return nil
	}
}

// prefix takes an address or a CIDR.
func prefix(to *netip.Prefix) func(string) error {
	return func(value string) error {
		p, err := netip.ParsePrefix(value)
		if err != nil {
			var a netip.Addr
			a, err = netip.ParseAddr(value)
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if err != nil || strings.Contains(value, "%") {
			return mistake("an address without a zone, or a CIDR such as 10.0.0.0/8")
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		*to = p.Masked()
		return nil
	}
}

// count takes a whole number from 1 to most.
func count(to *int, most int) func(string) error {
	return func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > most {
			return mistake("a whole number from 1 to " + strconv.Itoa(most))
		}
		*to = n
		return nil
	}
}

// id takes the id of a session.
func id(to *session.Key) func(string) error {
	return func(value string) (err error) {
		k, ok := session.ParseKey(value)
		if !ok {
			return mistake("the id of a session")
		}
		*to = k
		return nil
	}
}

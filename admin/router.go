package admin

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/admin/internal/answer"
)

// kind is what a path is for, which decides who may use it.
type kind int

const (
	probing  kind = iota // /healthz, /readyz and /metrics: anybody
	steering             // the API: reads, and changes
	planning             // the API, but nothing changes, whatever the method
	asking               // the API, and the body says whether anything is to change
	traffic              // /proxy
)

// call is one API request.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	who   role
	name  string // from the path, unescaped
	notes []note // of what it changed

	planned bool // it was asked to change nothing, and did not
}

// handler answers an API request: with a body and its status, or with an error.
// A body that is an http.Handler answers by itself.
type handler func(s *Server, c *call) (status int, body any, err error)

// methods are what one path can do. GET answers HEAD as well.
type methods map[string]handler

// allow returns the Allow header.
func (m methods) allow() string {
	list := slices.Sorted(maps.Keys(m))
	if m[http.MethodGet] != nil {
		list = append(list, http.MethodHead)
	}
	return strings.Join(list, ", ")
}

func (m methods) of(method string) handler {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return m[method]
}

// target is what a path leads to.
type target struct {
	kind    kind
	methods methods // nil for traffic
	name    string  // of a backend, frontend or pool; empty: none is named
	rest    string  // the path for the backend, escaped as the client sent it
	asks    bool    // a POST is of the kind asking
}

var (
	healthz  = methods{"GET": (*Server).healthz}
	readyz   = methods{"GET": (*Server).readyz}
	scrape   = methods{"GET": (*Server).scrape}
	status   = methods{"GET": (*Server).status}
	backends = methods{"GET": (*Server).listBackends, "POST": (*Server).addBackend}
	backend  = methods{"DELETE": (*Server).removeBackend, "PATCH": (*Server).patchBackend}
	onePool  = methods{"GET": (*Server).showPool, "PATCH": (*Server).patchPool}
	sessions = methods{"GET": (*Server).listSessions, "DELETE": (*Server).endSessions}
	one      = methods{"DELETE": (*Server).endSession}
	reload   = methods{"POST": (*Server).reload}
	override = methods{"DELETE": (*Server).forget}
	evenly   = methods{"GET": (*Server).showRebalance, "POST": (*Server).startRebalance, "DELETE": (*Server).stopRebalance}
	explain  = methods{"GET": (*Server).explain}
	// events is what backend is for an id that ends in /events, or else the events
	// of the one before that.
	events = methods{"GET": (*Server).showEvents, "DELETE": (*Server).removeBackend, "PATCH": (*Server).patchBackend}
)

// find looks a path up. It is given the path as the client escaped it, so that
// an id or a pool's name may hold any character.
func find(escaped string) (target, error) {
	first, rest, deeper := strings.Cut(strings.TrimPrefix(escaped, "/"), "/")
	switch {
	case first == "healthz" && !deeper:
		return target{kind: probing, methods: healthz}, nil
	case first == "metrics" && !deeper:
		return target{kind: probing, methods: scrape}, nil
	case first == "readyz" && !deeper:
		return target{kind: probing, methods: readyz}, nil
	case first == "readyz":
		return named(target{kind: probing, methods: readyz}, rest)
	case first == "status" && !deeper:
		return target{kind: steering, methods: status}, nil
	case first == "reload" && !deeper:
		return target{kind: steering, methods: reload}, nil
	case first == "overrides" && !deeper:
		return target{kind: steering, methods: override}, nil
	case first == "backends" && !deeper:
		return target{kind: steering, methods: backends}, nil
	case first == "explain" && !deeper:
		return target{kind: steering, methods: explain}, nil
	case first == "backends" && strings.HasSuffix(rest, eventsOf):
		return named(target{kind: steering, methods: events}, rest)
	case first == "backends":
		return named(target{kind: steering, methods: backend}, rest)
	case first == "sessions" && !deeper:
		return target{kind: steering, methods: sessions}, nil
	case first == "sessions":
		return named(target{kind: steering, methods: one}, rest)
	case first == "proxy":
		return target{kind: traffic, rest: "/" + rest}, nil
	case first == "pools" && deeper:
		return findInPool(rest)
	}
	return nowhere()
}

// findInPool looks up what follows "/pools/".
func findInPool(path string) (target, error) {
	name, tail, deeper := strings.Cut(path, "/")
	if !deeper {
		return named(target{kind: steering, methods: onePool}, name)
	}
	first, rest, deeper := strings.Cut(tail, "/")
	switch {
	case first == "proxy":
		return named(target{kind: traffic, rest: "/" + rest}, name)
	case first == "rebalance" && !deeper:
		return named(target{kind: steering, methods: evenly, asks: true}, name)
	}
	return nowhere()
}

// named sets the name from its escaped form. Nothing lies deeper than the name
// of a backend or frontend, so a slash in it need not be escaped.
func named(t target, escaped string) (target, error) {
	name, err := url.PathUnescape(escaped)
	if err != nil || name == "" {
		return nowhere()
	}
	t.name = name
	return t, nil
}

// findFor is find for a request through a listener of that scope.
func findFor(s Scope, escaped string) (target, error) {
	t, err := find(escaped)
	switch {
	case s.reaches(t.kind):
		return t, err
	case s == Probes:
		return target{kind: probing}, answer.Refuse(http.StatusNotFound, "no such path; this listener is for probes alone: "+
			"/healthz, /readyz, /readyz/FRONTEND and /metrics")
	}
	return target{kind: traffic}, answer.Refuse(http.StatusNotFound, "no such path; this listener is for "+
		"/proxy and /pools/NAME/proxy alone")
}

func nowhere() (target, error) {
	return target{kind: steering}, answer.Refuse(http.StatusNotFound, "no such path; there is "+
		"/status, /backends, /backends/ID, /backends/ID/events, /explain, /sessions, /sessions/ID, /pools/NAME, /pools/NAME/rebalance, /overrides, /reload, /healthz, /readyz, /readyz/FRONTEND, /metrics, /proxy and /pools/NAME/proxy")
}

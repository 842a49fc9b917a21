package admin

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"sluice/admin/internal/answer"
	"sluice/l4"
	"sluice/pool"
)

// overview is the answer of /status.
type overview struct {
	About
	Draining    bool              `json:"draining"`
	Frontends   []l4.Status       `json:"frontends"`
	Pools       []shownPool       `json:"pools"`
	Differences []pool.Difference `json:"differences"` // between the file and what runs
}

// status shows everything at this moment.
func (s *Server) status(*call) (int, any, error) {
	o := overview{
		About:       s.src.About(),
		Draining:    s.src.Draining(),
		Frontends:   s.frontends(),
		Pools:       []shownPool{},
		Differences: s.src.Unlike(),
	}
	for _, p := range s.src.Pools() {
		o.Pools = append(o.Pools, s.poolStatus(p))
	}
	return http.StatusOK, o, nil
}

// frontends returns the frontends, and /proxy as the last of them if it is on.
func (s *Server) frontends() []l4.Status {
	list := slices.Clone(s.src.Frontends())
	if set := s.rules.Load().proxy; set.Enabled {
		list = append(list, s.proxy.Status(s.proxyListen(), s.proxyPoolName(set)))
	}
	if list == nil {
		list = []l4.Status{}
	}
	return list
}

// proxyListen returns where clients of /proxy are served: its own listener if it
// has one.
func (s *Server) proxyListen() net.Addr {
	if s.rules.Load().proxy.Listens {
		return s.entrances[Traffic].listen()
	}
	return s.entrances[Everything].listen()
}

// shownPool is a pool in an answer.
type shownPool struct {
	pool.Status
	Names []Name `json:"names,omitempty"` // that stand for some of its backends
}

// poolStatus never has null for a list.
func (s *Server) poolStatus(p *pool.Pool) shownPool {
	st := shownPool{p.Status(), s.src.Names(p)}
	if st.Backends == nil {
		st.Backends = []pool.BackendStatus{}
	}
	return st
}

// pool returns the pool of that name; with an empty name the only one.
func (s *Server) pool(name string) (*pool.Pool, error) {
	pools := s.src.Pools()
	if name == "" && len(pools) == 1 {
		return pools[0], nil
	}
	var names []string
	for _, p := range pools {
		if name != "" && p.Name() == name {
			return p, nil
		}
		names = append(names, p.Name())
	}
	const most = 10 // in a message
	known := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		known += " and others"
	}
	switch {
	case len(names) == 0:
		return nil, answer.Refuse(http.StatusNotFound, "no pool %q: there is none", name)
	case name != "":
		return nil, answer.Refuse(http.StatusNotFound, "no pool %q; there is %s", name, known)
	}
	return nil, answer.Refuse(http.StatusBadRequest, "name one of the pools: %s; with pool=NAME in the query", known)
}

package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"sluice/admin/internal/answer"
	"sluice/pool"

	"go.uber.org/zap"
)

// maxAdded bounds the backends that the API can add to one pool, so that a
// client gone wild does not take the memory and the pick time of a pool. Chosen,
// not measured: ten times the largest pool that was thought of.
const maxAdded = 10_000

// listed is a backend in the list of several pools.
type listed struct {
	Pool string `json:"pool"`
	pool.BackendStatus
}

// listBackends lists the backends of one pool or of all.
func (s *Server) listBackends(c *call) (int, any, error) {
	name, err := c.poolName()
	if err != nil {
		return 0, nil, err
	}
	pools := s.src.Pools()
	if name != "" {
		p, err := s.pool(name)
		if err != nil {
			return 0, nil, err
		}
		pools = []*pool.Pool{p}
	}
	list := struct {
		Backends []listed `json:"backends"`
	}{[]listed{}}
	for _, p := range pools {
		for _, b := range p.Status().Backends {
			list.Backends = append(list.Backends, listed{p.Name(), b})
		}
	}
	return http.StatusOK, list, nil
}

// poolName returns the only parameter that the query may have; empty if it has
// none.
func (c *call) poolName() (pool string, err error) {
	err = parameters{"pool": name(&pool)}.take(c.r.URL.RawQuery)
	return pool, err
}

// inPool returns the pool that the query names; the only one if it names none.
func (s *Server) inPool(c *call) (*pool.Pool, error) {
	name, err := c.poolName()
	if err != nil {
		return nil, err
	}
	return s.pool(name)
}

// addBackend adds one backend.
func (s *Server) addBackend(c *call) (int, any, error) {
	name, spec, err := c.spec()
	if err != nil {
		return 0, nil, err
	}
	p, err := s.pool(name)
	if err != nil {
		return 0, nil, err
	}
	s.orders.Lock()
	defer s.orders.Unlock()
	if p.Added() >= s.most {
		return 0, nil, answer.Refuse(http.StatusConflict, "pool %s has %d backends of the API already, the most it may have; DELETE some, or write them into the file",
			p.Name(), s.most)
	}
	switch err := s.src.Add(p, spec); {
	case errors.Is(err, ErrOwnAddress):
		return 0, nil, answer.Refuse(http.StatusBadRequest, "field \"address\": %v; write the address of a server", err)
	case errors.Is(err, pool.ErrExists):
		return 0, nil, fmt.Errorf("%w; change it by PATCH, or remove it by DELETE first", err)
	case err != nil:
		return 0, nil, err
	}
	s.changed(c, "backend added", zap.String("pool", p.Name()), zap.String("backend", spec.ID),
		zap.String("address", spec.Address), zap.Int("weight", spec.Weight), zap.Int("max_sessions", spec.MaxSessions))
	c.w.Header().Set("Location", "/backends/"+url.PathEscape(spec.ID)+"?pool="+url.QueryEscape(p.Name()))
	return http.StatusCreated, backendOf(p, spec.ID), nil
}

// spec reads a new backend and the pool it is for.
func (c *call) spec() (name string, spec pool.Spec, err error) {
	var weight, most, tier *int
	asked, err := c.poolName()
	if err != nil {
		return "", spec, err
	}
	err = c.object(fields{
		"pool":         text(&name),
		"id":           text(&spec.ID),
		"address":      text(&spec.Address),
		"weight":       whole(&weight, pool.MaxWeight),
		"max_sessions": whole(&most, pool.MaxSessionLimit),
		"backup":       whole(&tier, pool.MaxTier),
		"zone":         text(&spec.Zone),
	})
	if err != nil {
		return "", spec, err
	}
	if err := check(spec); err != nil {
		return "", spec, err
	}
	if asked != "" && name != "" && asked != name {
		return "", spec, answer.Refuse(http.StatusBadRequest, "the query names pool %q and the body pool %q; leave one out", asked, name)
	}
	name = cmp.Or(name, asked)
	spec.Weight = 1
	if weight != nil {
		spec.Weight = *weight
	}
	if most != nil {
		spec.MaxSessions = *most
	}
	if tier != nil {
		spec.Backup = *tier
	}
	return name, spec, nil
}

// check says what is wrong with what names a new backend.
func check(spec pool.Spec) error {
	for _, f := range []struct {
		name, value string
		check       func(string) error
	}{{"id", spec.ID, pool.CheckName}, {"address", spec.Address, pool.CheckAddress}} {
		if f.value == "" {
			return answer.Refuse(http.StatusBadRequest, "field %q is missing", f.name)
		}
		if err := f.check(f.value); err != nil {
			return answer.Refuse(http.StatusBadRequest, "field %q: %v", f.name, err)
		}
	}
	return nil
}

// backendOf returns the backend of that id; only the pool is set if there is none.
func backendOf(p *pool.Pool, id string) listed {
	b, _ := p.Backend(id)
	return listed{p.Name(), b}
}

// removeBackend takes one backend out.
func (s *Server) removeBackend(c *call) (int, any, error) {
	p, err := s.inPool(c)
	if err != nil {
		return 0, nil, err
	}
	s.orders.Lock()
	defer s.orders.Unlock()
	was := backendOf(p, c.name)
	if err := p.Remove(c.name); err != nil {
		return 0, nil, missing(p, err)
	}
	s.proxy.Prune(s.src.Pools())
	s.changed(c, "backend removed", zap.String("pool", p.Name()), zap.String("backend", c.name),
		zap.String("address", was.Address), zap.Int64("active", was.Active))
	return http.StatusNoContent, nil, nil
}

// missing says where the ids are if err is that there is no such backend.
func missing(p *pool.Pool, err error) error {
	if errors.Is(err, pool.ErrNotFound) {
		return fmt.Errorf("%w; GET /backends?pool=%s lists them", err, url.QueryEscape(p.Name()))
	}
	return err
}

// patchBackend changes weight, limit or state of one backend.
func (s *Server) patchBackend(c *call) (int, any, error) {
	p, err := s.inPool(c)
	if err != nil {
		return 0, nil, err
	}
	patch, err := c.patch()
	if err != nil {
		return 0, nil, err
	}
	patch.By = c.by()
	s.orders.Lock()
	defer s.orders.Unlock()
	was := backendOf(p, c.name)
	if err := p.Patch(c.name, patch); err != nil {
		return 0, nil, missing(p, err)
	}
	is := backendOf(p, c.name)
	s.changed(c, "backend changed", zap.String("pool", p.Name()), zap.String("backend", c.name),
		zap.String("change", difference(was, is)))
	return http.StatusOK, is, nil
}

// patch reads what to change.
func (c *call) patch() (p pool.Patch, err error) {
	err = c.object(fields{
		"weight":       whole(&p.Weight, pool.MaxWeight),
		"max_sessions": whole(&p.MaxSessions, pool.MaxSessionLimit),
		"state":        state(&p.Admin),
		"ejected":      readmit(&p.Readmit),
	})
	if err == nil && p == (pool.Patch{}) {
		err = answer.Refuse(http.StatusBadRequest, "nothing to change; send some of: ejected, max_sessions, state, weight")
	}
	return p, err
}

// state takes the word for what an operator wants of a backend.
func state(to **pool.Admin) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		for _, a := range []pool.Admin{pool.Ready, pool.Drain, pool.Maint} {
			if string(raw) == `"`+a.String()+`"` {
				*to = &a
				return nil
			}
		}
		return fmt.Errorf(`must be "ready", "drain" or "maint"`)
	}
}

// readmit takes false, which is all that may be said of an ejection: the others
// begin by what the sessions say.
func readmit(to *bool) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if string(raw) != "false" {
			return errors.New("must be false, which lets an ejected backend back in")
		}
		*to = true
		return nil
	}
}

// difference says in one line what an order changed.
func difference(was, is listed) string {
	var d []string
	note := func(key string, a, b any) {
		if a != b {
			d = append(d, fmt.Sprintf("%s %v -> %v", key, a, b))
		}
	}
	note("weight", was.Weight, is.Weight)
	note("max_sessions", was.MaxSessions, is.MaxSessions)
	note("state", was.Admin, is.Admin)
	note("ejected", !was.EjectedUntil.IsZero(), !is.EjectedUntil.IsZero())
	if len(d) == 0 {
		return "none"
	}
	return strings.Join(d, ", ")
}

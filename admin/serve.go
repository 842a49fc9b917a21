package admin

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"sluice/admin/internal/answer"
	"sluice/admin/proxy"

	"go.uber.org/zap"
)

// Handler is the whole admin interface, for tests and for Serve. What a server
// as such has to bound (headers, connections) it leaves to Serve.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	t, missing := findFor(originOf(r).scope, r.URL.EscapedPath())
	switch {
	case t.kind == steering && dryRun(r):
		t.kind = planning
	case t.asks && r.Method == http.MethodPost:
		t.kind = asking
	}
	rules := s.rules.Load()
	who, err := rules.guard.admit(r, t.kind)
	if err == nil {
		err = missing
	}
	switch {
	case err != nil:
		s.turnAway(w, r, t, err)
	case t.kind == traffic:
		s.forward(w, r, t, rules.proxy, rules.guard.carries(r))
	default:
		s.obey(&call{w: w, r: r, who: who, name: t.name}, t)
	}
}

// turnAway answers a request that got no further than the guard.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, t target, err error) {
	switch {
	case changes(r, t):
		s.auditRefusal(r, s.rules.Load().guard.role(r), err)
	case errors.Is(err, errWrongToken):
		s.peers.Warn("token refused", zap.String("client", from(r)))
	}
	hurry(w, r)
	challenge(w, err)
	status := answer.StatusOf(err)
	switch {
	case t.kind == traffic && status == http.StatusNotFound:
		s.proxy.Reject(w, "no_path", err)
	case t.kind == traffic:
		s.proxy.Reject(w, "denied", err)
	default:
		answer.Error(w, err)
	}
}

// challenge says what is missing where err is that a token is.
func challenge(w http.ResponseWriter, err error) {
	if answer.StatusOf(err) == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
	}
}

// forward passes a request on to a backend. ours says that a token of ours is in
// its Authorization header.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, t target, set ProxySettings, ours bool) {
	if !set.Enabled || originOf(r).scope == Traffic && !set.Listens {
		hurry(w, r)
		s.proxy.Reject(w, "off", answer.Refuse(http.StatusNotFound,
			"/proxy is switched off; enabled = true in [admin.proxy] switches it on"))
		return
	}
	name := cmp.Or(t.name, set.Pool)
	p, err := s.pool(name)
	if name == "" && err != nil {
		err = answer.Refuse(http.StatusBadRequest, "no pool is chosen: name one by pool in [admin.proxy], or ask /pools/NAME/proxy")
	}
	if err != nil {
		hurry(w, r)
		s.proxy.Reject(w, "no_pool", err)
		return
	}
	s.proxy.Forward(w, r, proxy.Way{
		Pool: p, Path: t.rest, ResponseTimeout: set.ResponseTimeout, TrustedFrom: set.TrustedFrom, Private: ours,
	})
}

// proxyPoolName returns the name of the pool behind /proxy; empty if several
// are configured and none is chosen.
func (s *Server) proxyPoolName(set ProxySettings) string {
	if set.Pool != "" {
		return set.Pool
	}
	if pools := s.src.Pools(); len(pools) == 1 {
		return pools[0].Name()
	}
	return ""
}

// obey answers an API request.
func (s *Server) obey(c *call, t target) {
	do := t.methods.of(c.r.Method)
	if do == nil {
		hurry(c.w, c.r)
		c.w.Header().Set("Allow", t.methods.allow())
		s.refuse(c, t, answer.Refuse(http.StatusMethodNotAllowed, "%s is not for this path; it takes %s",
			c.r.Method, t.methods.allow()))
		return
	}
	bound(c.w, c.r)
	status, body, err := do(s, c)
	hurry(c.w, c.r)
	if err != nil {
		s.refuse(c, t, err)
		return
	}
	s.audit(c, status)
	if changes(c.r, t) && !c.planned {
		s.src.Keep()
	}
	if own, ok := body.(http.Handler); ok {
		own.ServeHTTP(c.w, c.r)
		return
	}
	answer.JSON(c.w, status, body)
}

// refuse answers an API request that changed nothing.
func (s *Server) refuse(c *call, t target, err error) {
	if changes(c.r, t) {
		s.auditRefusal(c.r, c.who, err)
	}
	challenge(c.w, err)
	answer.Error(c.w, err)
}

// hurry limits how long the server waits for the rest of a body. Without it anybody
// could hold a place at the door for ever.
func hurry(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restTimeout))
	}
}

// bound limits how long the client may take to send and to read. The server
// clears both for the connection's next request.
func bound(w http.ResponseWriter, r *http.Request) {
	rc, now := http.NewResponseController(w), time.Now()
	// Neither is supported by a recorder in a test.
	_ = rc.SetWriteDeadline(now.Add(answerTimeout))
	if r.ContentLength != 0 {
		_ = rc.SetReadDeadline(now.Add(bodyTimeout))
	}
}

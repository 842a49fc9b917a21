package admin

import (
	"net/http"
	"time"

	"go.uber.org/zap"
)

// Handler is the whole admin interface, for tests and for Serve. What a server
// as such has to bound (headers, connections) it leaves to Serve.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	t, missing := find(r.URL.EscapedPath())
	rules := s.rules.Load()
	who, err := rules.guard.admit(r, t.kind)
	if err == nil {
		err = missing
	}
	switch {
	case err != nil:
		s.turnAway(w, t, err)
	case t.kind == traffic:
		s.forward(w, r, passage{t, rules.proxy, who != nobody})
	default:
		s.obey(w, r, t)
	}
}

// turnAway answers a request that got no further than the guard.
func (s *Server) turnAway(w http.ResponseWriter, t target, err error) {
	if t.kind == traffic {
		s.proxy.rejected.Add(1)
	}
	if statusOf(err) == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
	}
	answerError(w, err)
}

// obey answers an API request.
func (s *Server) obey(w http.ResponseWriter, r *http.Request, t target) {
	do := t.methods.of(r.Method)
	if do == nil {
		w.Header().Set("Allow", t.methods.allow())
		answerError(w, refuse(http.StatusMethodNotAllowed, "%s is not for this path; it takes %s",
			r.Method, t.methods.allow()))
		return
	}
	bound(w, r)
	status, body, err := do(s, &call{w, r, t.name})
	if err != nil {
		answerError(w, err)
		return
	}
	answer(w, status, body)
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

// changed logs a change that was made.
func (s *Server) changed(c *call, what string, fields ...zap.Field) {
	s.log.Info(what, append([]zap.Field{zap.String("by", c.r.RemoteAddr)}, fields...)...)
}

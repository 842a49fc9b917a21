package admin

import (
	"net/http"

	"sluice/admin/internal/answer"

	"go.uber.org/zap"
)

// Every change, made or refused, is one line of the log: who asked, under which
// role, for what, and the status of the answer. A change that was made says what
// was before and after, and those are never held back; refusals, which anybody
// can cause, are bounded.

// maxShown bounds what a line shows of what a client sent. Chosen.
const maxShown = 256

// from names the peer of a request in the log.
func from(r *http.Request) string {
	if originOf(r).unix() {
		return "unix"
	}
	return r.RemoteAddr
}

// by is who asked for what the log line of another part tells.
func (c *call) by() string {
	if c.who == nobody {
		return from(c.r)
	}
	return from(c.r) + " " + c.who.String()
}

// note is one line to come.
type note struct {
	what   string
	fields []zap.Field
}

// changed notes a change that was made. It is logged with the answer's status.
func (s *Server) changed(c *call, what string, fields ...zap.Field) {
	c.notes = append(c.notes, note{what, fields})
}

// audit writes what the call has changed.
func (s *Server) audit(c *call, status int) {
	for _, n := range c.notes {
		s.log.Info(n.what, append([]zap.Field{
			zap.String("by", from(c.r)), zap.Stringer("role", c.who), zap.Int("status", status),
		}, n.fields...)...)
	}
}

// changes reports whether a request asks the API for a change, or may do so.
func changes(r *http.Request, t target) bool {
	return (t.kind == steering || t.kind == asking) && r.Method != http.MethodGet && r.Method != http.MethodHead
}

// auditRefusal writes that a change was not made.
func (s *Server) auditRefusal(r *http.Request, who role, err error) {
	s.peers.Warn("change refused",
		zap.String("by", from(r)), zap.Stringer("role", who), zap.Int("status", answer.StatusOf(err)),
		zap.String("method", shown(r.Method)), zap.String("path", shown(r.URL.EscapedPath())),
		zap.String("reason", shown(err.Error())))
}

// shown bounds what a client sent.
func shown(text string) string {
	if len(text) > maxShown {
		return text[:maxShown] + "..."
	}
	return text
}

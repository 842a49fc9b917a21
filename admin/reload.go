package admin

import (
	"errors"
	"net/http"

	"go.uber.org/zap"
)

// reload applies the file. Nothing has changed if it answers with an error.
func (s *Server) reload(c *call) (int, any, error) {
	done, err := s.src.Reload(c.r.Context())
	if err != nil {
		s.log.Warn("reload refused", zap.String("by", c.r.RemoteAddr), zap.Error(err))
		return http.StatusUnprocessableEntity, mistakes(err), nil
	}
	if done.Changes == nil {
		done.Changes = []string{}
	}
	s.proxy.lines.prune(s.src.Pools())
	s.changed(c, "reloaded", zap.Int64("generation", done.Generation),
		zap.Strings("changes", done.Changes))
	return http.StatusOK, done, nil
}

// mistakes lists everything that err holds.
func mistakes(err error) problem {
	p := problem{Error: "the configuration was not applied: " + err.Error()}
	var several Errors
	if errors.As(err, &several) {
		p.Errors = several
	}
	if len(p.Errors) == 0 {
		p.Errors = []string{err.Error()}
	}
	return p
}

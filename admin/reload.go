package admin

import (
	"errors"
	"net/http"

	"sluice/admin/internal/answer"
)

// reload applies the file. Nothing has changed if it answers with an error.
func (s *Server) reload(c *call) (int, any, error) {
	done, err := s.src.Reload(c.r.Context(), c.by())
	if err != nil {
		return http.StatusUnprocessableEntity, mistakes(err), nil
	}
	if done.Changes == nil {
		done.Changes = []string{}
	}
	return http.StatusOK, done, nil
}

// mistakes lists everything that err holds.
func mistakes(err error) answer.Problem {
	p := answer.Problem{Error: "the configuration was not applied: " + err.Error()}
	var several Errors
	if errors.As(err, &several) {
		p.Errors = several
	}
	if len(p.Errors) == 0 {
		p.Errors = []string{err.Error()}
	}
	return p
}

package admin

import (
	"net/http"
	"strings"

	"sluice/admin/internal/answer"
)

// readiness is the answer of /readyz when all is well.
type readiness struct {
	Ready bool `json:"ready"`
}

// healthz answers while the process lives.
func (s *Server) healthz(*call) (int, any, error) {
	return http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"}, nil
}

// readyz says whether an outer balancer should send clients here, and with a
// frontend's name whether to send that frontend's.
func (s *Server) readyz(c *call) (int, any, error) {
	if err := s.unready(); err != nil {
		return 0, nil, err
	}
	if c.name != "" {
		if err := s.unreadyFrontend(c.name); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, readiness{true}, nil
}

// unready returns why the process is not ready; nil if it is.
func (s *Server) unready() error {
	if s.src.Draining() {
		return answer.Refuse(http.StatusServiceUnavailable, "draining: the process is shutting down")
	}
	if !s.src.Bound() {
		return answer.Refuse(http.StatusServiceUnavailable, "not every listener is bound yet")
	}
	var waiting []string
	for _, p := range s.src.Pools() {
		if !p.Settled() {
			waiting = append(waiting, p.Name())
		}
	}
	if len(waiting) > 0 {
		return answer.Refuse(http.StatusServiceUnavailable,
			"first probe results are missing in pool %s", strings.Join(waiting, ", "))
	}
	return nil
}

func (s *Server) unreadyFrontend(name string) error {
	for _, f := range s.frontends() {
		if f.Name != name {
			continue
		}
		p, err := s.pool(f.Pool)
		if err != nil {
			return answer.Refuse(http.StatusServiceUnavailable, "frontend %s has no pool", name)
		}
		if !p.Ready() {
			return answer.Refuse(http.StatusServiceUnavailable,
				"no backend of pool %s is up, ready and of weight above 0", p.Name())
		}
		return nil
	}
	return answer.Refuse(http.StatusNotFound, "no frontend %q; GET /status lists them", name)
}

package admin

import (
	"net/http"

	"sluice/admin/internal/answer"

	"go.uber.org/zap"
)

// showPool shows one pool.
func (s *Server) showPool(c *call) (int, any, error) {
	p, err := s.pool(c.name)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.poolStatus(p), nil
}

// patchPool switches a pool's strategy. Running sessions are untouched.
func (s *Server) patchPool(c *call) (int, any, error) {
	p, err := s.pool(c.name)
	if err != nil {
		return 0, nil, err
	}
	name := ""
	if err := c.object(fields{"strategy": text(&name)}); err != nil {
		return 0, nil, err
	}
	if name == "" {
		return 0, nil, answer.Refuse(http.StatusBadRequest, `nothing to change; send {"strategy": "NAME"}`)
	}
	strategy, err := s.src.Strategy(p, name)
	if err != nil {
		return 0, nil, answer.Refuse(http.StatusBadRequest, "field \"strategy\": %v", err)
	}
	s.orders.Lock()
	defer s.orders.Unlock()
	before := p.Status().Strategy
	p.SetStrategy(strategy)
	s.changed(c, "strategy switched", zap.String("pool", p.Name()),
		zap.String("change", before+" -> "+name))
	return http.StatusOK, s.poolStatus(p), nil
}

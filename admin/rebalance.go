package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"sluice/admin/internal/answer"
	"sluice/admin/rebalance"
	"sluice/pool"

	"go.uber.org/zap"
)

// What a rebalance does where the request does not say, and the most that it can be
// told. A rate of 10 is what a database forks new connections for without being
// felt; more than 1,000 is as well done by ending the sessions. Chosen.
const (
	defaultRate   = 10
	defaultTarget = 10
	maxRate       = 1000
	maxTarget     = 1000
)

// startRebalance begins to move sessions on from the backends of a pool that have
// too many, or with dry_run says how many those are.
func (s *Server) startRebalance(c *call) (int, any, error) {
	p, err := s.pool(c.name)
	if err != nil {
		return 0, nil, err
	}
	o, dry, err := c.rebalanceOrder()
	if err != nil {
		return 0, nil, err
	}
	if dry {
		c.planned = true
		return http.StatusOK, rebalance.Foresee(p.Name(), p.Loads(), o), nil
	}
	// The guard let in who may only read: what the body asks for was not known yet.
	if _, err := s.rules.Load().guard.admit(c.r, steering); err != nil {
		return 0, nil, err
	}
	work := rebalance.Work{Loads: p.Loads, End: s.src.EndIdlest, Over: func() rebalance.State { return s.over(p) }}
	done, err := s.rebalances.Start(p.Name(), c.by(), o, work, s.rebalanced)
	switch {
	case errors.Is(err, rebalance.ErrRunning):
		return 0, nil, answer.Refuse(http.StatusConflict,
			"a rebalance of pool %q runs, %d of %d sessions are closed; GET shows it, DELETE stops it", p.Name(), done.Closed, done.Surplus)
	case err != nil:
		return 0, nil, answer.Refuse(http.StatusServiceUnavailable, "%v", err)
	}
	s.changed(c, "rebalance started", zap.String("pool", p.Name()), zap.Int64("surplus", done.Surplus),
		zap.Int("rate", o.Rate), zap.Int("target", o.Target), zap.Duration("min_age", o.MinAge), zap.Duration("min_idle", o.MinIdle))
	return http.StatusAccepted, done, nil
}

// rebalanceOrder reads the body; an empty one asks for the defaults.
func (c *call) rebalanceOrder() (o rebalance.Order, dry bool, err error) {
	o.Rate, o.Target = defaultRate, defaultTarget
	var rate, target *int
	err = c.objectOrNone(fields{
		"rate": whole(&rate, maxRate), "target": whole(&target, maxTarget),
		"min_age": duration(&o.MinAge), "min_idle": duration(&o.MinIdle), "dry_run": truth(&dry),
	})
	if err != nil {
		return o, false, err
	}
	if rate != nil {
		o.Rate = *rate
	}
	if target != nil {
		o.Target = *target
	}
	if o.Rate == 0 {
		return o, false, answer.Refuse(http.StatusBadRequest, `field "rate" must be 1 at least; DELETE stops a rebalance`)
	}
	return o, dry, nil
}

// duration takes a string with a unit.
func duration(to *time.Duration) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		word := ""
		if err := text(&word)(raw); err != nil {
			return mistake(`a string, a duration with a unit, such as "90s"`)
		}
		return span(to)(word)
	}
}

// truth takes true or false.
func truth(to *bool) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if err := json.Unmarshal(raw, to); err != nil || string(raw) == "null" {
			return mistake("true or false")
		}
		return nil
	}
}

// over says why a rebalance of p is to end, if it is.
func (s *Server) over(p *pool.Pool) rebalance.State {
	switch {
	case s.src.Draining():
		return rebalance.Shutdown
	case !slices.Contains(s.src.Pools(), p):
		return rebalance.Removed
	}
	return ""
}

// rebalanced writes how a rebalance ended.
func (s *Server) rebalanced(p rebalance.Progress) {
	s.log.Info("rebalance ended", zap.String("pool", p.Pool), zap.String("by", p.By),
		zap.String("state", string(p.State)), zap.String("reason", p.Reason), zap.Int64("surplus", p.Surplus),
		zap.Int64("closed", p.Closed), zap.Int64("remaining", p.Remaining), zap.Duration("took", p.Ended.Sub(p.Started)))
}

// showRebalance shows how the last rebalance of a pool goes, or went.
func (s *Server) showRebalance(c *call) (int, any, error) {
	return s.ofRebalance(c, s.rebalances.Progress, "there was no rebalance of pool %q; POST begins one")
}

// stopRebalance stops the rebalance of a pool, and shows how far it came.
func (s *Server) stopRebalance(c *call) (int, any, error) {
	status, body, err := s.ofRebalance(c, s.rebalances.Stop, "no rebalance of pool %q runs")
	if err == nil {
		s.changed(c, "rebalance stopped", zap.String("pool", c.name))
	}
	return status, body, err
}

// ofRebalance answers with what do knows of a pool's rebalance.
func (s *Server) ofRebalance(c *call, do func(string) (rebalance.Progress, bool), none string) (int, any, error) {
	p, err := s.pool(c.name)
	if err != nil {
		return 0, nil, err
	}
	done, ok := do(p.Name())
	if !ok {
		return 0, nil, answer.Refuse(http.StatusNotFound, none, p.Name())
	}
	return http.StatusOK, done, nil
}

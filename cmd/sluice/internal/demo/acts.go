package demo

import (
	"context"
	"fmt"
	"time"
)

// An act waits this long for the probes, which need a tenth of it.
const patience = 10 * time.Second

// failure returns the act in which b stops while clients keep coming.
func (s *show) failure(pool string, b *backend, c client) func(context.Context) error {
	return func(ctx context.Context) error {
		s.say("\nFailure: backend %s of %s stops. Nobody tells the balancer.", b.name, pool)
		b.halt()
		stopped := time.Now()
		if err := s.ask(ctx, 6, c); err != nil {
			return err
		}
		state, err := s.await(ctx, pool, b.name, "down")
		if err != nil {
			return err
		}
		s.say("  Every client got an answer: where %s refused, the balancer went on to the next.", b.name)
		s.say("  The probes noticed %s after the stop. GET /backends says of %s: %s (%s).",
			since(stopped), b.name, state.State, state.LastChange.Reason)
		return nil
	}
}

// recovery returns the act in which b is started again.
func (s *show) recovery(pool string, b *backend, c client) func(context.Context) error {
	return func(ctx context.Context) error {
		s.say("\nRecovery: backend %s of %s starts again on the same port.", b.name, pool)
		if err := b.start(ctx); err != nil {
			return fmt.Errorf("restart of backend %s: %w", b.name, err)
		}
		started := time.Now()
		state, err := s.await(ctx, pool, b.name, "up")
		if err != nil {
			return err
		}
		s.say("  The probes noticed after %s. GET /backends says of %s: %s (%s).",
			since(started), b.name, state.State, state.LastChange.Reason)
		return s.ask(ctx, 4, c)
	}
}

func since(t time.Time) time.Duration { return time.Since(t).Round(10 * time.Millisecond) }

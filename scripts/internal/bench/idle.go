//go:build linux

package main

import (
	"context"
	"time"

	"sluice/scripts/internal/bench/load"
	"sluice/scripts/internal/bench/proc"
	"sluice/scripts/internal/bench/serve"
	"sluice/scripts/internal/bench/subject"
	"sluice/scripts/internal/bench/trial"
)

// The ends of the slope, and how many sessions tell what one needs.
const (
	idleLow  = 2500
	idleHigh = 9000
	idleFew  = 100

	// spare is how many descriptors stay free.
	spare = 500
)

// idleSessions returns the ends of the slope for a subject that holds that many
// descriptors for a session: fewer sessions, if the limit is too low for all.
func (st *stage) idleSessions(descriptors float64) (low, high int) {
	high = min(idleHigh, int(float64(st.files-spare)/max(descriptors, 1)))
	if st.options.mode == "smoke" {
		high = min(high, idleFew*2)
	}
	high -= high % 90
	return max(high*idleLow/idleHigh, idleFew), high
}

// errNoProcess is why there is nothing to see where no balancer is in between.
const errNoProcess = subject.Unavailable("there is no process to look at")

// idleRound measures what a session holds that has moved one byte. What the
// process needs without sessions does not matter: it is a slope.
func idleRound(ctx context.Context, st *stage, r *subject.Running) (trial.Sample, error) {
	if r.Process == nil {
		return nil, errNoProcess
	}
	to, err := targets(r, serve.Echo)
	if err != nil {
		return nil, err
	}
	sessions := load.Idle{Targets: to}
	defer sessions.Close()
	hold := func(n int) (proc.Holding, error) {
		if err := sessions.Grow(ctx, n); err != nil {
			return proc.Holding{}, err
		}
		return st.settled(ctx, r)
	}
	none, err := r.Process.Holding()
	if err != nil {
		return nil, err
	}
	few, err := hold(idleFew)
	if err != nil {
		return nil, err
	}
	low, high := st.idleSessions(float64(few.Descriptors-none.Descriptors) / idleFew)
	if high < idleHigh && st.options.mode != "smoke" {
		st.note("%s: %d to %d sessions, as the limit is %d descriptors", r.Name, low, high, st.files)
	}
	from, err := hold(low)
	if err != nil {
		return nil, err
	}
	until, err := hold(high)
	if err != nil {
		return nil, err
	}
	per := float64(high - low)
	return trial.Sample{
		"memory":      float64(until.PSS-from.PSS) / 1024 / per,
		"descriptors": float64(until.Descriptors-from.Descriptors) / per,
	}, nil
}

// settled reads what a subject holds once it has had a second to come to rest.
func (st *stage) settled(ctx context.Context, r *subject.Running) (proc.Holding, error) {
	if err := pause(ctx, min(st.options.window, time.Second)); err != nil {
		return proc.Holding{}, err
	}
	return r.Process.Holding()
}

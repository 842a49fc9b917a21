package health

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sluice/pool"
)

// suspectGap is how soon after the start of one probe a suspicion may start the
// next. Chosen: a burst of failed dials then costs a backend ten probes a second
// at most, and a crash is still noticed within a few tenths of a second.
const suspectGap = 100 * time.Millisecond

// jitter keeps monitors and backends from falling into step: a gap is its
// nominal length give or take this part. Chosen; the first gap after a start is
// drawn from the whole interval.
const jitter = 0.1

// visit is the monitor's interest in one backend, from Sync to Sync.
type visit struct {
	backend *pool.Backend
	ctx     context.Context
	stop    context.CancelFunc
	done    chan struct{} // closed when its goroutine has ended
	suspect chan struct{} // holds a token while a probe is asked for
	changed chan struct{} // holds a token while the policy is to be read again
	streak  streak
}

func newVisit(ctx context.Context, b *pool.Backend) *visit {
	ctx, stop := context.WithCancel(ctx)
	return &visit{
		backend: b,
		ctx:     ctx,
		stop:    stop,
		done:    make(chan struct{}),
		suspect: make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
	}
}

func (v *visit) stopped() bool { return v.ctx.Err() != nil }

func (v *visit) ended() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// watch probes until the visit is stopped.
func (m *Monitor) watch(v *visit) {
	part := rand.Float64()
	for !v.stopped() {
		start := time.Now()
		m.check(v)
		m.pause(v, start, part)
		part = 1 - jitter + 2*jitter*rand.Float64()
	}
}

// check probes once and tells the pool what follows.
func (m *Monitor) check(v *visit) {
	probe, pol := m.using()
	err := run(v.ctx, probe, targetOf(v.backend), pol.Timeout)
	if v.stopped() {
		return // it says nothing about the backend
	}
	if m.observe != nil {
		m.observe(v.backend, err)
	}
	if errors.Is(err, ErrNoEvidence) {
		return
	}
	if err != nil {
		v.backend.ProbeFailed()
	}
	before := v.backend.Health()
	var after pool.Health
	v.streak, after = judge(v.streak, before, err == nil, pol)
	if after != before || v.streak.began(pool.Down, err) {
		m.pool.SetHealth(v.backend, after, evidence(v.streak, err))
	}
}

func run(ctx context.Context, probe Probe, t Target, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return probe(ctx, t)
}

// pause waits for the time of the next probe, which is a part of the gap after
// the start of the last. A suspicion brings it forward; a new policy moves it,
// but does not put off a suspicion.
func (m *Monitor) pause(v *visit, start time.Time, part float64) {
	due := m.due(v, start, part)
	next := time.NewTimer(time.Until(due))
	defer next.Stop()
	changed := v.changed
	for {
		select {
		case <-v.ctx.Done():
			return
		case <-next.C:
			return
		case <-v.suspect:
			due, changed = earlier(due, start.Add(suspectGap)), nil
		case <-changed:
			due = m.rescheduled(v, start, part)
		}
		next.Reset(time.Until(due))
	}
}

// due is when the next probe starts if nobody asks for one.
func (m *Monitor) due(v *visit, start time.Time, part float64) time.Time {
	_, pol := m.using()
	return start.Add(scale(pol.gap(v.backend.Health()), part))
}

// rescheduled is due under a new policy. Backends that are late by it are
// spread, as after a start.
func (m *Monitor) rescheduled(v *visit, start time.Time, part float64) time.Time {
	now := time.Now()
	if due := m.due(v, start, part); due.After(now) {
		return due
	}
	return m.due(v, now, rand.Float64())
}

func scale(d time.Duration, part float64) time.Duration { return time.Duration(float64(d) * part) }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

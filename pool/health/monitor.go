package health

import (
	"context"
	"sync"

	"sluice/pool"
)

// Monitor probes the backends of one pool. Safe for concurrent use.
type Monitor struct {
	pool    *pool.Pool
	observe func(b *pool.Backend, err error)
	sync    chan struct{} // holds a token while membership is to be looked at
	running sync.WaitGroup

	mu     sync.Mutex // guards the rest
	probe  Probe
	policy Policy
	visits map[*pool.Backend]*visit
}

// NewMonitor returns a monitor that has not started. observe, which may be nil,
// is told of every probe result.
func NewMonitor(p *pool.Pool, probe Probe, pol Policy, observe func(b *pool.Backend, err error)) *Monitor {
	return &Monitor{
		pool:    p,
		observe: observe,
		sync:    make(chan struct{}, 1),
		probe:   probe,
		policy:  pol,
		visits:  map[*pool.Backend]*visit{},
	}
}

// Run probes until ctx ends, and returns when every probe has ended. It is
// called once.
func (m *Monitor) Run(ctx context.Context) {
	defer m.running.Wait()
	ctx = withAfterwork(ctx, &m.running)
	for {
		m.reconcile(ctx)
		select {
		case <-ctx.Done():
			return
		case <-m.sync:
		}
	}
}

// Use changes probe and policy; streaks and schedules are kept.
func (m *Monitor) Use(probe Probe, pol Policy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.probe, m.policy = probe, pol
	for _, v := range m.visits {
		signal(v.changed)
	}
}

func (m *Monitor) using() (Probe, Policy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.probe, m.policy
}

// Sync makes the monitor look at the pool's membership again. Never blocks.
func (m *Monitor) Sync() { signal(m.sync) }

// Suspect asks for a probe of b now. Never blocks.
func (m *Monitor) Suspect(b *pool.Backend) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.visits[b]; v != nil {
		signal(v.suspect)
	}
}

// reconcile starts visits of backends that are new and stops those of backends
// that are gone. One that is back while its last visit still ends waits for it.
func (m *Monitor) reconcile(ctx context.Context) {
	wanted := map[*pool.Backend]bool{}
	for _, b := range m.pool.Probed() {
		wanted[b] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for b, v := range m.visits {
		switch {
		case !wanted[b]:
			v.stop()
			if v.ended() {
				delete(m.visits, b)
			}
		case v.stopped():
			m.start(ctx, b, v.done)
		}
		delete(wanted, b)
	}
	for b := range wanted {
		m.start(ctx, b, nil)
	}
}

// start needs mu.
func (m *Monitor) start(ctx context.Context, b *pool.Backend, previous <-chan struct{}) {
	v := newVisit(ctx, b)
	m.visits[b] = v
	m.running.Go(func() {
		defer close(v.done)
		defer v.stop()
		if previous != nil {
			<-previous
		}
		m.watch(v)
	})
}

// signal leaves a token unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

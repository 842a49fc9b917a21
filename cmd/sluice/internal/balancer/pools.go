package balancer

import (
	"context"
	"net/netip"
	"sync/atomic"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/discover"
	"sluice/cmd/sluice/internal/logs"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/health"
)

// watchedPool is a pool with the monitor that probes its backends, and the search
// for outliers among them.
type watchedPool struct {
	pool    *pool.Pool
	logs    *logs.Logs
	found   *discover.Names
	monitor atomic.Pointer[health.Monitor] // nil without probes; read by the pool's hooks
	stop    func()                         // ends the monitor; nil without one

	outliers detection
}

// newPool returns a pool that nothing probes yet, with what an earlier process
// kept of it.
func (b *Balancer) newPool(c config.Pool) *watchedPool {
	w := &watchedPool{logs: b.options.Logs, found: b.found}
	var lost []pool.Edit
	w.pool, lost = pool.Restore(c.Name, c.Config, b.restored.take(c.Name), pool.Hooks{
		Changed:    w.changed,
		Suspected:  w.suspected,
		Members:    w.members,
		Evict:      b.evict,
		Panicked:   w.logs.Panic,
		Conflicted: w.logs.Conflict,
	})
	for _, e := range lost {
		b.restored.lines = append(b.restored.lines, e.Lines()...)
	}
	return w
}

// evict has the sessions of a backend end. It does not wait: the pool may be told
// of what happened by one of them.
func (b *Balancer) evict(e pool.Eviction) {
	cause := map[pool.Why]session.Cause{
		pool.WentDown: session.OnDown, pool.WasRemoved: session.Removed, pool.WasDrained: session.Drained,
	}[e.Why]
	b.engine.Order(session.Match{On: e.Backend, Before: e.At}, cause)
}

func (w *watchedPool) changed(c pool.Change) {
	w.logs.Backend(c)
	if c.To == "down" {
		w.suspectName(c.Address)
	}
}

func (w *watchedPool) suspected(b *pool.Backend) {
	if m := w.monitor.Load(); m != nil {
		m.Suspect(b)
	}
	w.suspectName(b.Address())
}

// suspectName has the name looked up that stands for address, if one does.
func (w *watchedPool) suspectName(address string) {
	if at, err := netip.ParseAddrPort(address); err == nil {
		w.found.Suspect(w.pool.Name(), at.Addr())
	}
}

// probed keeps the result of a probe, and logs it.
func (w *watchedPool) probed(b *pool.Backend, err error) {
	b.NoteProbe(err)
	w.logs.Probe(b, err)
}

func (w *watchedPool) members() {
	if m := w.monitor.Load(); m != nil {
		m.Sync()
	}
}

// apply makes the file's view c current. A monitor that is no longer wanted
// ends first, so that a late verdict cannot take out a backend that no probe
// would bring back.
func (w *watchedPool) apply(c config.Pool) []pool.Edit {
	if c.Probe.Kind == "none" {
		w.stopProbing()
	}
	return w.pool.Apply(c.Config)
}

// probe starts the monitor that c asks for, or gives it its new policy.
func (w *watchedPool) probe(c config.Pool, probe health.Probe) {
	if c.Probe.Kind == "none" {
		return
	}
	if m := w.monitor.Load(); m != nil {
		m.Use(probe, c.Health)
		return
	}
	m := health.NewMonitor(w.pool, probe, c.Health, w.probed)
	w.monitor.Store(m) // before it runs, so that no change of members is missed
	w.stop = running(m.Run)
}

// running starts run, and returns what ends it and waits for that.
func running(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// stopProbing ends the monitor, if there is one, and the probes under way.
func (w *watchedPool) stopProbing() {
	if w.stop != nil {
		w.monitor.Store(nil)
		w.stop()
		w.stop = nil
	}
}

// stopWatching ends all that watches the pool.
func (w *watchedPool) stopWatching() {
	w.outliers.end()
	w.stopProbing()
}

// close removes every backend; sessions keep theirs.
func (w *watchedPool) close() {
	w.stopWatching()
	w.pool.Close()
}

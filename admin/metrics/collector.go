package metrics

import (
	"sluice/l4"
	"sluice/pool"

	"github.com/prometheus/client_golang/prometheus"
)

// collector tells the state at each scrape.
type collector struct{ read func() State }

// Describe lists the families.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	out <- buildInfo
	describe(out, ofProcess)
	describe(out, ofFrontend)
	describe(out, ofPool)
	describe(out, ofBackend)
}

// Collect reads the state and tells all of it.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.read()
	out <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, s.Process.Version, s.Process.Engine)
	collect(out, ofProcess, &s.Process)
	for i := range s.Frontends {
		collect(out, ofFrontend, &s.Frontends[i], s.Frontends[i].Name)
	}
	for i := range s.Pools {
		collect(out, ofPool, &s.Pools[i], s.Pools[i].Name)
		collectBackends(out, &s.Pools[i])
	}
	for i := range s.Leaving {
		collectBackends(out, &s.Leaving[i])
	}
}

// collectBackends tells of a pool's backends. Members come first in the status,
// so that of two with one id the member counts.
func collectBackends(out chan<- prometheus.Metric, p *pool.Status) {
	place := make(map[string]int, len(p.Backends))
	list := make([]pool.BackendStatus, 0, len(p.Backends))
	for _, b := range p.Backends {
		if i, ok := place[b.ID]; ok {
			list[i].Active += b.Active
			continue
		}
		place[b.ID] = len(list)
		list = append(list, b)
	}
	for i := range list {
		collect(out, ofBackend, &list[i], p.Name, list[i].ID)
	}
}

var buildInfo = prometheus.NewDesc("sluice_build_info", "Always 1; the version that runs, and the engine that drives its sessions.", []string{"version", "engine"}, nil)

var process = families[Process]{}

var ofProcess = []family[Process]{
	process.gauge("sluice_config_generation", "Number of the configuration in force; the start is 1.", func(p *Process) float64 { return float64(p.Generation) }),
	process.gauge("sluice_config_last_reload_successful", "Whether the newest attempt to make the file current succeeded.", func(p *Process) float64 { return truth(p.ReloadGood) }),
	process.gauge("sluice_config_last_reload_timestamp_seconds", "When the newest attempt to make the file current was made, good or not.", func(p *Process) float64 { return float64(p.Reloaded.UnixMilli()) / 1000 }),
	process.gauge("sluice_process_sessions_active", "Sessions of all frontends, without requests through /proxy.", func(p *Process) float64 { return float64(p.Sessions) }),
	process.gauge("sluice_process_sessions_limit", "How many of them the process takes.", func(p *Process) float64 { return float64(p.SessionsMax) }),
	process.counter("sluice_log_dropped_total", "Log lines and session records that found no room.", func(p *Process) int64 { return p.LogDropped }),
	process.gauge("sluice_state_saved", "Whether all that the API changed is in the state file; 1 also where nothing is to be kept.", func(p *Process) float64 { return truth(p.StateSaved) }),
	process.counter("sluice_state_write_failures_total", "Attempts to write the state file that failed.", func(p *Process) int64 { return p.StateFailures }),
}

var frontend = families[l4.Status]{"frontend"}

var ofFrontend = []family[l4.Status]{
	frontend.counters("sluice_frontend_sessions_total", "Sessions that ended, by cause.", "cause", endings),
	frontend.gauge("sluice_frontend_sessions_active", "Sessions that run, those that still look for a backend included.", func(f *l4.Status) float64 { return float64(f.Active) }),
	frontend.counters("sluice_frontend_rejected_total", "Clients refused before they were a session, by reason.", "reason", refusals),
	frontend.counter("sluice_frontend_accept_errors_total", "Accepts that failed.", func(f *l4.Status) int64 { return f.AcceptErrors }),
	frontend.counter("sluice_frontend_redials_total", "Dials made because an earlier one of the same session failed.", func(f *l4.Status) int64 { return f.Redials }),
	frontend.gauge("sluice_frontend_half_closed", "Sessions of which one side has ended and the other has not.", func(f *l4.Status) float64 { return float64(f.HalfClosed) }),
	frontend.histogram("sluice_session_seconds", "How long the sessions lasted that ended.", func(f *l4.Status) pool.Durations { return f.Durations }),
}

func endings(f *l4.Status) map[string]int64 {
	by := make(map[string]int64, len(f.EndedBy))
	for cause, n := range f.EndedBy {
		by[string(cause)] = n
	}
	return by
}

// reasons are why a frontend refuses a client. A series that is there before its
// first event lets Prometheus see that event.
var reasons = []string{
	"process_limit", "frontend_limit", "client_limit", "client_rate",
	"denied", "proxy_header", "proxy_header_timeout", "shutdown", // words of l4 and l4/session
}

func refusals(f *l4.Status) map[string]int64 {
	by := make(map[string]int64, len(reasons))
	if f.Name != "/proxy" { // it has words of its own
		for _, r := range reasons {
			by[r] = 0
		}
	}
	for r, n := range f.RejectedBy {
		by[r] = n
	}
	return by
}

var inPool = families[pool.Status]{"pool"}

var ofPool = []family[pool.Status]{
	inPool.gauge("sluice_pool_backends_eligible", "Backends that a new session may get, full ones included.", func(p *pool.Status) float64 { return float64(p.Eligible) }),
	inPool.gauge("sluice_pool_panic", "Whether all backends are used, whatever is known of them, since too few are up.", func(p *pool.Status) float64 { return truth(p.Panic) }),
	inPool.gauge("sluice_pool_queue_length", "Sessions that wait for a backend.", func(p *pool.Status) float64 { return float64(p.Queued) }),
	inPool.gauge("sluice_pool_held", "Of them, those that wait because no backend is eligible, or for their turn after that.", func(p *pool.Status) float64 { return float64(p.Held) }),
	inPool.counter("sluice_pool_held_total", "Sessions that were held.", func(p *pool.Status) int64 { return p.HeldTotal }),
	inPool.counter("sluice_pool_hold_timeouts_total", "Sessions that were held in vain.", func(p *pool.Status) int64 { return p.HoldTimeouts }),
	inPool.gauge("sluice_pool_conflict", "Whether several backends claim to be the only one of a pool with single = true.", func(p *pool.Status) float64 { return truth(len(p.Conflict) > 1) }),
	inPool.counter("sluice_resolve_failures_total", "Look-ups of names of its backends that failed.", func(p *pool.Status) int64 { return p.LookupFailures }),
}

var backend = families[pool.BackendStatus]{"pool", "backend"}

var ofBackend = []family[pool.BackendStatus]{
	backend.gauge("sluice_backend_up", "Whether its health lets sessions in.", up),
	backend.gauge("sluice_backend_draining", "Whether an operator keeps new sessions away: drain, maint or removing.", func(b *pool.BackendStatus) float64 { return truth(b.Admin != "ready") }),
	backend.gauge("sluice_backend_weight", "Share of the pool's sessions; 0 gets no new ones.", func(b *pool.BackendStatus) float64 { return float64(b.Weight) }),
	backend.gauge("sluice_backend_sessions_active", "Sessions that hold the backend, dials under way and requests through /proxy included.", func(b *pool.BackendStatus) float64 { return float64(b.Active) }),
	backend.gauge("sluice_backend_sessions_limit", "How many may hold it; 0 is no limit.", func(b *pool.BackendStatus) float64 { return float64(b.MaxSessions) }),
	backend.counter("sluice_backend_sessions_total", "Sessions that reached it, and requests through /proxy that it answered.", func(b *pool.BackendStatus) int64 { return b.Total }),
	backend.counters("sluice_backend_dial_failures_total", "Dials, and requests through /proxy, whose failure counts against it.", "reason", func(b *pool.BackendStatus) map[string]int64 { return b.FailuresBy }),
	backend.histogram("sluice_backend_dial_seconds", "How long dials took that succeeded or say something about it.", func(b *pool.BackendStatus) pool.Durations { return b.Dials }),
	backend.counters("sluice_backend_bytes_total", "Payload bytes, also of sessions that run.", "direction", func(b *pool.BackendStatus) map[string]int64 {
		return map[string]int64{"to_backend": b.BytesToBack, "to_client": b.BytesToClient}
	}),
	backend.gauge("sluice_backend_ejected", "Whether it gets no new sessions because those that it had went wrong.", func(b *pool.BackendStatus) float64 { return truth(!b.EjectedUntil.IsZero()) }),
	backend.counter("sluice_backend_ejections_total", "Times that it was ejected.", func(b *pool.BackendStatus) int64 { return b.Ejections }),
	backend.counters("sluice_backend_failed_sessions_total", "Sessions that it ended before the client did: by a reset soon after the connect, or without a byte.", "reason", func(b *pool.BackendStatus) map[string]int64 {
		return map[string]int64{"early_reset": b.EarlyResets, "empty": b.Empty}
	}),
	backend.counter("sluice_probe_failures_total", "Probes that failed.", func(b *pool.BackendStatus) int64 { return b.ProbeFailures }),
}

// up is about health alone: who drains a healthy backend has not made it sick.
func up(b *pool.BackendStatus) float64 {
	if b.State == "up" || b.State == "down" {
		return truth(b.State == "up")
	}
	return truth(b.Health != pool.Down.String())
}

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"sluice/scripts/internal/bench/load"
	"sluice/scripts/internal/bench/proc"
	"sluice/scripts/internal/bench/serve"
	"sluice/scripts/internal/bench/stats"
	"sluice/scripts/internal/bench/subject"
	"sluice/scripts/internal/bench/trial"
)

// messageSize is the message of short connections and of requests to an echo.
const messageSize = 64

// patience is how long nothing may happen.
const patience = 5 * time.Second

// unit says how a load's units become figures.
type unit struct {
	cpu, rate string  // the measures
	cpuScale  float64 // of seconds per unit
	rateScale float64 // of units per second
}

var (
	request    = unit{"cpu_request", "requests", 1e6, 1}
	connection = unit{"cpu_connection", "connections", 1e6, 1}
	gigabyte   = unit{"cpu_gb", "gbit", 1e3 * 1e9, 8 / 1e9}
)

// lead is how long a load runs before it is measured: some hundred round trips,
// or as long as many streams need to fill the buffers of all their sockets.
func (b *bench) lead(u unit) time.Duration {
	if u == gigabyte {
		return b.options.window * 2 / 5
	}
	return min(max(b.options.window/8, 20*time.Millisecond), 300*time.Millisecond)
}

// starter is a load that has not begun.
type starter interface{ Start() (load.Load, error) }

// measure runs a load for one window, and others beside it, and returns the
// figures of the first.
func (st *stage) measure(ctx context.Context, r *subject.Running, u unit, window time.Duration, main starter, beside ...starter) (trial.Sample, error) {
	var all []load.Load
	var faults []error
	for _, s := range append(beside, main) {
		l, err := s.Start()
		if err != nil {
			faults = append(faults, err)
			break
		}
		all = append(all, l)
	}
	var sample trial.Sample
	if faults == nil {
		var err error
		sample, err = st.window(ctx, r, u, window, all[len(all)-1])
		faults = append(faults, err)
	}
	var latency *stats.Histogram
	for _, l := range all {
		h, err := l.Stop()
		latency = h
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if latency.Count() > 0 {
		sample["p50"] = microseconds(latency.Quantile(0.50))
		sample["p99"] = microseconds(latency.Quantile(0.99))
		sample["p999"] = microseconds(latency.Quantile(0.999))
	}
	return sample, nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// window measures a load that runs.
func (st *stage) window(ctx context.Context, r *subject.Running, u unit, window time.Duration, l load.Load) (trial.Sample, error) {
	if err := pause(ctx, st.lead(u)); err != nil {
		return nil, err
	}
	var m *proc.Meter
	if r.Process != nil {
		if err := r.Process.Alive(); err != nil {
			return nil, err
		}
		var err error
		if m, err = r.Process.Meter(); err != nil {
			return nil, err
		}
	}
	l.Record(true)
	before, err := look(m, l)
	if err != nil {
		return nil, err
	}
	after := before
	// A short window can miss what a busy machine does in turns.
	for after.units == before.units && time.Since(before.at) < window+patience {
		if err := pause(ctx, window); err != nil {
			return nil, err
		}
		if after, err = look(m, l); err != nil {
			return nil, err
		}
	}
	l.Record(false)
	done := float64(after.units - before.units)
	if done == 0 {
		return nil, fmt.Errorf("nothing was done within %v", window+patience)
	}
	sample := trial.Sample{u.rate: done / after.at.Sub(before.at).Seconds() * u.rateScale}
	if m != nil {
		sample[u.cpu] = (after.cpu - before.cpu).Seconds() / done * u.cpuScale
		return sample, m.Verify()
	}
	return sample, nil
}

// sight is what is seen at one end of a window.
type sight struct {
	at    time.Time
	units int64
	cpu   time.Duration
}

// closeEnough is how much CPU time may pass while the units are read. Where all
// cores are busy, somebody else's turn may come in between.
const closeEnough = time.Millisecond

// look reads CPU time and units as much at the same moment as a few tries allow.
// Without a meter there is no CPU time.
func look(m *proc.Meter, l load.Load) (best sight, err error) {
	least := time.Duration(-1)
	for range 5 {
		var s sight
		var first, last time.Duration
		if m != nil {
			if first, err = m.Used(); err != nil {
				return s, err
			}
		}
		if s.units, err = l.Units(); err != nil {
			return s, err
		}
		s.at = time.Now()
		if m != nil {
			if last, err = m.Used(); err != nil {
				return s, err
			}
		}
		s.cpu = (first + last) / 2
		if passed := last - first; least < 0 || passed < least {
			best, least = s, passed
		}
		if least < closeEnough {
			break
		}
	}
	return best, nil
}

// pause waits, and returns an error if ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// targets returns where a service is reached through a subject.
func targets(r *subject.Running, service string) ([]netip.AddrPort, error) {
	return load.Targets(r.Addresses[service])
}

// requests returns our own clients of a service.
func (st *stage) requests(r *subject.Running, clients, depth int) (load.Requests, error) {
	q := load.Requests{Clients: clients, Depth: depth, Request: make([]byte, messageSize), Answer: messageSize}
	service := serve.Echo
	if st.redis != nil {
		service, q.Request, q.Answer = redisService, []byte(load.RedisRequest), load.RedisAnswer
	}
	var err error
	q.Targets, err = targets(r, service)
	return q, err
}

// requestRound measures a closed loop. With redis, redis-benchmark gives the CPU
// time and the throughput, and our own clients, in a shorter window after that,
// the latencies.
func requestRound(clients, depth int) func(context.Context, *stage, *subject.Running) (trial.Sample, error) {
	return func(ctx context.Context, st *stage, r *subject.Running) (trial.Sample, error) {
		q, err := st.requests(r, clients, depth)
		if err != nil {
			return nil, err
		}
		if st.redis == nil {
			return st.measure(ctx, r, request, st.options.window, q)
		}
		sample, err := st.measure(ctx, r, request, st.options.window, load.Redis{
			Group: st.group, Path: st.redisBenchmark, Log: filepath.Join(st.dir, "redis-benchmark.log"),
			Target: r.Addresses[redisService][0], Servers: st.redis, Clients: clients, Depth: depth,
		})
		if err != nil {
			return nil, err
		}
		timed, err := st.measure(ctx, r, request, st.options.window/3, q)
		if err != nil {
			return nil, err
		}
		for _, measure := range []string{"p50", "p99", "p999"} {
			sample[measure] = timed[measure]
		}
		return sample, nil
	}
}

// shortClients is enough to keep two cores busy, and few enough for any queue.
const shortClients = 32

func shortRound(ctx context.Context, st *stage, r *subject.Running) (trial.Sample, error) {
	to, err := targets(r, serve.Echo)
	if err != nil {
		return nil, err
	}
	return st.measure(ctx, r, connection, st.options.window, load.Short{Targets: to, Clients: shortClients, Size: messageSize})
}

func bulkRound(streams int, toBackend bool) func(context.Context, *stage, *subject.Running) (trial.Sample, error) {
	return func(ctx context.Context, st *stage, r *subject.Running) (trial.Sample, error) {
		service := serve.Source
		if toBackend {
			service = serve.Sink
		}
		to, err := targets(r, service)
		if err != nil {
			return nil, err
		}
		return st.measure(ctx, r, gigabyte, st.options.window, load.Bulk{Targets: to, Streams: streams, ToBackend: toBackend})
	}
}

// openClients is over how many connections an open loop sends.
const openClients = 50

// partOfPeak sets the rate of open loops: a part of the requests per second that
// HAProxy answers as fast as it can, or the subject where there is no HAProxy.
func partOfPeak(part float64) func(context.Context, *stage) error {
	return func(ctx context.Context, st *stage) error {
		r := st.running[subject.HAProxy]
		if r == nil {
			r = st.running[st.first.name]
		}
		var peaks []float64
		for range 3 {
			sample, err := requestRound(openClients, 1)(ctx, st, r)
			if err != nil {
				return fmt.Errorf("peak of %s: %w", r.Name, err)
			}
			peaks = append(peaks, sample[request.rate])
		}
		st.rate = stats.Median(peaks) / part
		st.note("%.0f requests per second", st.rate)
		return nil
	}
}

func openLoopRound(ctx context.Context, st *stage, r *subject.Running) (trial.Sample, error) {
	q, err := st.requests(r, openClients, 1)
	if err != nil {
		return nil, err
	}
	q.Rate = st.rate
	return st.measure(ctx, r, request, st.options.window, q)
}

func besideBulkRound(ctx context.Context, st *stage, r *subject.Running) (trial.Sample, error) {
	q, err := st.requests(r, openClients, 1)
	if err != nil {
		return nil, err
	}
	q.Rate = st.rate
	to, err := targets(r, serve.Source)
	if err != nil {
		return nil, err
	}
	sample, err := st.measure(ctx, r, request, st.options.window, q, load.Bulk{Targets: to, Streams: 4})
	// The CPU time is mostly that of the bulk.
	delete(sample, request.cpu)
	return sample, err
}

func slowReaderRound(ctx context.Context, st *stage, r *subject.Running) (trial.Sample, error) {
	q, err := st.requests(r, 50, 1)
	if err != nil {
		return nil, err
	}
	to, err := targets(r, serve.Source)
	if err != nil {
		return nil, err
	}
	slow := load.Bulk{Targets: to, Streams: 1, Block: 16 << 10, Pause: 100 * time.Millisecond}
	sample, err := st.measure(ctx, r, request, st.options.window, q, slow)
	if err != nil {
		return nil, err
	}
	h, err := r.Process.Holding()
	if err != nil {
		return nil, err
	}
	sample["pss"] = float64(h.PSS) / (1 << 20)
	return sample, nil
}

//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"sluice/scripts/internal/bench/load"
	"sluice/scripts/internal/bench/serve"
	"sluice/scripts/internal/bench/stats"
	"sluice/scripts/internal/bench/subject"
	"sluice/scripts/internal/bench/trial"
)

// messageSize is the message of short connections and of requests to an echo.
const messageSize = 64

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

// scraped is what reads the metrics meanwhile, of a subject that has them.
func scraped(r *subject.Running) []starter {
	if r.Admin == "" {
		return nil
	}
	return []starter{load.Scrapes{Socket: r.Admin, Every: time.Second}}
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
			return st.measure(ctx, r, request, st.options.window, q, scraped(r)...)
		}
		sample, err := st.measure(ctx, r, request, st.options.window, load.Redis{
			Group: st.group, Path: st.redisBenchmark, Log: filepath.Join(st.dir, "redis-benchmark.log"),
			Target: r.Addresses[redisService][0], Servers: st.redis, Clients: clients, Depth: depth,
		}, scraped(r)...)
		if err != nil {
			return nil, err
		}
		timed, err := st.measure(ctx, r, request, st.options.window/3, q, scraped(r)...)
		if err != nil {
			return nil, err
		}
		for _, measure := range []string{"p50", "p99", "p999"} {
			sample[measure] = timed[measure]
		}
		return sample, nil
	}
}

func webRound(ctx context.Context, st *stage, r *subject.Running) (trial.Sample, error) {
	return st.measure(ctx, r, request, st.options.window, load.Wrk{
		Group: st.group, Path: st.wrk, Log: filepath.Join(st.dir, "wrk.log"),
		Target: r.Addresses[webService][0], Servers: st.setup.Backends[webService], Connections: 50,
	})
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
	if r.Process == nil {
		return nil, errNoProcess
	}
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

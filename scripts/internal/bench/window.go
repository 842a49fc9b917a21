//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/scripts/internal/bench/load"
	"sluice/scripts/internal/bench/proc"
	"sluice/scripts/internal/bench/stats"
	"sluice/scripts/internal/bench/subject"
	"sluice/scripts/internal/bench/trial"
)

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

// measure runs a main load for one window, with others beside it, and returns
// the figures of the main one.
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
	// The main one first: it is not measured with nothing beside it.
	for i := len(all) - 1; i >= 0; i-- {
		h, err := all[i].Stop()
		latency = cmp.Or(latency, h)
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
	l.Record()
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

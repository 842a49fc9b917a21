//go:build linux

// Package load makes the traffic of a measurement, and times it.
//
// A Load goes on from its start until it is stopped; what is measured is a
// window in between, so that neither the connections nor the end of a load are
// part of it. Latencies are recorded from Record to Stop. All loads connect to
// loopback addresses that they are given, and take their targets in turn.
//
// A load that meets an error says so when it is stopped: a figure of a subject
// that refused or lost a connection is no figure.
package load

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"sluice/scripts/internal/bench/stats"
	"sluice/scripts/internal/bench/wire"
)

// Load is work that goes on until it is stopped.
type Load interface {
	// Units returns how much was done so far: requests, connections or bytes;
	// or the error that has ended the load.
	Units() (int64, error)
	// Record begins to record latencies. Until then none are.
	Record()
	// Stop ends the load. It returns what was recorded, or the first error.
	Stop() (*stats.Histogram, error)
}

// patience bounds the wait for connections that take milliseconds.
const patience = 10 * time.Second

// turn is how long a worker waits before it looks whether it is to end.
const turn = 20 * time.Millisecond

// crew is a load that goroutines share.
type crew struct {
	workers []*worker
	start   time.Time
	record  atomic.Bool
	stop    atomic.Bool
	wg      sync.WaitGroup
}

// worker is the share of one goroutine, which owns all but done.
type worker struct {
	*crew
	poller  *wire.Poller
	done    atomic.Int64
	latency stats.Histogram
	failed  chan struct{} // closed once err is set
	err     error
}

// newCrew returns workers for that many connections, at most one per core.
func newCrew(connections int) *crew {
	c := &crew{start: time.Now()}
	for range max(1, min(connections, runtime.NumCPU())) {
		c.workers = append(c.workers, &worker{crew: c, failed: make(chan struct{})})
	}
	return c
}

// run calls f for every worker, in a goroutine and with a poller. It returns
// once all have called ready, or an error if one failed before.
func (c *crew) run(f func(i int, w *worker, ready func()) error) (Load, error) {
	begun := make(chan bool, len(c.workers))
	for i, w := range c.workers {
		c.wg.Go(func() {
			ready := sync.OnceFunc(func() { begun <- true })
			defer ready()
			if w.err = w.work(i, f, ready); w.err != nil {
				close(w.failed)
			}
		})
	}
	for range c.workers {
		<-begun
	}
	for _, w := range c.workers {
		select {
		case <-w.failed:
			_, err := c.Stop()
			return nil, err
		default:
		}
	}
	return c, nil
}

func (w *worker) work(i int, f func(int, *worker, func()) error, ready func()) (err error) {
	if w.poller, err = wire.NewPoller(); err != nil {
		return err
	}
	defer w.poller.Close()
	return f(i, w, ready)
}

func (c *crew) now() time.Duration { return time.Since(c.start) }

// took records a latency, if latencies are recorded now.
func (w *worker) took(d time.Duration) {
	if w.record.Load() {
		w.latency.Add(d)
	}
}

func (c *crew) Record() { c.record.Store(true) }

func (c *crew) Units() (int64, error) {
	var sum int64
	for _, w := range c.workers {
		select {
		case <-w.failed:
			return 0, w.err
		default:
		}
		sum += w.done.Load()
	}
	return sum, nil
}

func (c *crew) Stop() (*stats.Histogram, error) {
	c.stop.Store(true)
	c.wg.Wait()
	var all stats.Histogram
	var faults []error
	for _, w := range c.workers {
		all.Merge(&w.latency)
		faults = append(faults, w.err)
	}
	return &all, errors.Join(faults...)
}

// Targets parses addresses.
func Targets(texts []string) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	for _, text := range texts {
		a, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, fmt.Errorf("target %q: %w", text, err)
		}
		if !a.Addr().Is4() || !a.Addr().IsLoopback() {
			return nil, fmt.Errorf("target %q is not an IPv4 loopback address", text)
		}
		all = append(all, a)
	}
	return all, nil
}

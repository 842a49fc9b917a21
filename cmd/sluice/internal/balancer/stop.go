package balancer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"sluice/cmd/sluice/internal/logs"
	"sluice/l4"

	"go.uber.org/zap"
)

// Stop drains and ends everything: it stops accepting, waits until the last
// session is gone or the drain timeout is over, cuts the rest, and closes the
// admin side last. It must be called once.
func (b *Balancer) Stop() {
	began := time.Now()
	b.draining.Store(true)
	b.mu.Lock()
	b.stopping = true // no reload from here on
	b.mu.Unlock()
	timeout := b.config.Process.DrainTimeout
	b.log.Info("draining", zap.Int64(logs.Sessions, b.limit.Active()), zap.Duration(logs.Timeout, timeout))

	b.closeClients()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cut := b.drain(ctx)
	if err := b.admin.Shutdown(ctx); err != nil {
		b.log.Info("admin side cut", zap.NamedError(logs.Error, err))
	}
	for _, w := range b.pools {
		w.stopProbing()
	}
	b.names.Close()
	b.log.Info("stopped", zap.Int64(logs.Cut, cut), zap.Duration(logs.Took, time.Since(began)))
}

// closeClients closes the sockets of all frontends.
func (b *Balancer) closeClients() {
	var all sync.WaitGroup
	for _, s := range b.sockets {
		if s.clients != nil {
			all.Go(s.close)
		}
	}
	all.Wait()
}

// drain waits for the sessions of all frontends, and returns how many it had to
// cut when ctx ended.
func (b *Balancer) drain(ctx context.Context) int64 {
	var cut atomic.Int64
	var all sync.WaitGroup
	stop := func(f *l4.Frontend) {
		all.Go(func() { cut.Add(int64(f.Shutdown(ctx))) })
	}
	for _, f := range b.frontends {
		stop(f)
	}
	for _, f := range b.retired.frontends {
		stop(f)
	}
	all.Wait()
	return cut.Load()
}

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

// Stop drains and ends everything: it is not ready from then on, stops accepting
// after the delay before that, waits until the last session and the last request
// through /proxy are gone or the drain timeout is over, cuts the rest, and closes
// the admin side last. Another call waits for the first.
func (b *Balancer) Stop() { b.ending.Do(b.stop) }

func (b *Balancer) stop() {
	began := time.Now()
	b.draining.Store(true)
	b.hurry()
	b.mu.Lock() // waits for a reload that has begun to change things
	b.stopping = true
	b.mu.Unlock()
	b.found.Close()
	b.endWatch()
	d := newDrain(began, b.config.Process)
	b.drains.Store(d)
	b.log.Info("draining", zap.Int64(logs.Sessions, b.left()),
		zap.Duration(logs.Delay, b.config.Process.PreDrainDelay), zap.Duration(logs.Timeout, b.config.Process.DrainTimeout))

	over, tells := make(chan struct{}), new(sync.WaitGroup)
	tells.Go(func() { everyNowAndThen(over, func() { b.tellProgress(d) }) })
	time.Sleep(time.Until(d.AcceptsUntil))
	b.closeClients()
	ctx, cancel := context.WithDeadline(context.Background(), d.Until)
	defer cancel()
	cut := b.drain(ctx)
	close(over)
	tells.Wait()
	b.engine.Close()
	if n := b.engine.Dropped(); n > 0 {
		b.log.Warn("session records dropped: sessions ended faster than they could be recorded", zap.Int64(logs.Count, n))
	}
	b.closeAdmin()
	b.state.Close()
	for _, w := range b.pools {
		w.stopWatching()
	}
	b.names.Close()
	b.log.Info("stopped", zap.Int64(logs.Cut, cut), zap.Duration(logs.Took, time.Since(began)))
}

// closeClients closes the sockets of all frontends, and that of /proxy.
func (b *Balancer) closeClients() {
	var all sync.WaitGroup
	for _, s := range b.sockets {
		if s.first() {
			all.Go(s.close)
		}
	}
	all.Wait()
}

// closeAdmin closes the admin side, one that has not begun to serve included.
func (b *Balancer) closeAdmin() {
	b.admin.Close()
	for _, s := range b.sockets {
		if s.admin != nil {
			s.close()
		}
	}
	b.serves.Wait()
}

// drain waits for the sessions of all frontends and for the requests through
// /proxy, and returns how many it had to cut when ctx ended.
func (b *Balancer) drain(ctx context.Context) int64 {
	var cut atomic.Int64
	var all sync.WaitGroup
	stop := func(f *l4.Frontend) {
		all.Go(func() { cut.Add(int64(f.Shutdown(ctx))) })
	}
	all.Go(func() { cut.Add(int64(b.admin.Drain(ctx))) })
	for _, f := range b.frontends {
		stop(f)
	}
	for _, f := range b.retired.frontends {
		stop(f.Frontend)
	}
	all.Wait()
	return cut.Load()
}

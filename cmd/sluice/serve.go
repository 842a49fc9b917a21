package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/balancer"
	"sluice/cmd/sluice/internal/demo"
	"sluice/cmd/sluice/internal/logs"
	"sluice/cmd/sluice/internal/systemd"
	"sluice/pool/health/redis"
)

// How long the exit waits for a log that is slow to take its last lines. After
// a second signal somebody is waiting.
const (
	flushTime       = time.Second
	flushTimeForced = 50 * time.Millisecond
)

// doubled is how soon after the first a signal is still the same one: timeout(1)
// and some supervisors signal a process and then its group. Chosen, not measured.
const doubled = 100 * time.Millisecond

// tellEvery is how often the service manager hears how a drain goes on. Chosen.
const tellEvery = time.Second

// errForced is the end by a second signal. The log has told of it.
var errForced = errors.New("ended by a second signal: sessions were cut")

// serve runs a balancer with the configuration at path until a signal, or the
// end of ctx, stops it.
func serve(ctx context.Context, path string, stderr io.Writer) error {
	signals := make(chan os.Signal, 8)
	// Never given back: a signal on the way out must not change the exit status.
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
	// A reader of the log that goes away must not take the process with it.
	signal.Ignore(syscall.SIGPIPE)

	file, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	out := logs.New(stderr)
	defer out.TakeStandard()()
	redis.Quiet()
	manager := systemd.New(out.Zap())
	b, err := balancer.Start(balancer.Options{
		Load:      func() (*config.Config, error) { return config.Load(path) },
		File:      file,
		Logs:      out,
		Version:   version(),
		Zone:      os.Getenv("SLUICE_ZONE"),
		Inherited: systemd.Listeners(),
		Reloading: func() func(string) { manager.Reloading(); return manager.Ready },
	})
	if err != nil {
		out.Close(flushTime)
		return err
	}
	manager.Ready(b.Summary())
	defer reassure(ctx, manager, b)()
	reloadUntilStopped(ctx, b, signals)
	if err := stop(b, manager, signals); err != nil {
		out.Zap().Error(err.Error())
		out.Close(flushTimeForced)
		return err
	}
	out.Close(flushTime)
	return nil
}

// reloadUntilStopped reloads at every SIGHUP and returns at any other signal,
// also while a reload still reads. Those that come during one are one more.
func reloadUntilStopped(ctx context.Context, b *balancer.Balancer, signals <-chan os.Signal) {
	asked := make(chan struct{}, 1)
	defer close(asked)
	go func() {
		for range asked {
			_, _ = b.Reload(ctx, "SIGHUP") // it tells the log
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			if s != syscall.SIGHUP {
				return
			}
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	}
}

// reassure tells the manager that b works, also while it drains, until the func is
// called that it returns.
func reassure(ctx context.Context, m *systemd.Manager, b *balancer.Balancer) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	watching.Go(func() { m.Watch(ctx, b.Answers) })
	return func() {
		cancel()
		watching.Wait()
	}
}

// stop drains, unless another signal says that there is no time for it.
func stop(b *balancer.Balancer, m *systemd.Manager, signals <-chan os.Signal) error {
	m.Stopping(left(b))
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	began, drained := time.Now(), make(chan struct{})
	go func() {
		defer close(drained)
		b.Stop()
	}()
	for {
		select {
		case <-drained:
			return nil
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				go b.Reload(context.Background(), "SIGHUP") // it tells the log that it is too late
			case time.Since(began) > doubled:
				return errForced
			}
		case <-tick.C:
			m.Draining(left(b))
		}
	}
}

// left says what a stop waits for.
func left(b *balancer.Balancer) string { return fmt.Sprintf("draining, sessions left: %d", b.Left()) }

// runDemo runs the demo until it is over or a signal stops it.
func runDemo(ctx context.Context, o demo.Options) error {
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer release()
	context.AfterFunc(ctx, release) // a second signal ends the process at once
	return demo.Run(ctx, o)
}

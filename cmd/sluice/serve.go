package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/balancer"
	"sluice/cmd/sluice/internal/demo"
	"sluice/cmd/sluice/internal/logs"
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
	b, err := balancer.Start(balancer.Options{
		Load:    func() (*config.Config, error) { return config.Load(path) },
		File:    file,
		Logs:    out,
		Version: version(),
	})
	if err != nil {
		out.Close(flushTime)
		return err
	}
	reloadUntilStopped(ctx, b, signals)
	if err := stop(b, signals); err != nil {
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

// stop drains, unless another signal says that there is no time for it.
func stop(b *balancer.Balancer, signals <-chan os.Signal) error {
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
			if s != syscall.SIGHUP && time.Since(began) > doubled {
				return errForced
			}
		}
	}
}

// runDemo runs the demo until it is over or a signal stops it.
func runDemo(ctx context.Context, o demo.Options) error {
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer release()
	context.AfterFunc(ctx, release) // a second signal ends the process at once
	return demo.Run(ctx, o)
}

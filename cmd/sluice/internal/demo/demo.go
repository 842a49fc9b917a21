// Package demo shows the balancer at work with nothing to install: backends in
// this process, a balancer in front of them, and clients that tell what they
// see.
//
// The balancer is the real one, started from the text of a configuration file
// like any other. The demo acts as its environment: it is the backends that
// fail, the clients that connect, and the operator who looks at the API.
package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/balancer"
	"sluice/cmd/sluice/internal/logs"
)

// Options are what the demo needs. All but Once are required.
type Options struct {
	Out     io.Writer // the show
	Log     io.Writer // the balancer's log
	Version string
	Once    bool // exit after the show
}

// flushTime is how long the exit waits for the log.
const flushTime = time.Second

// Run plays the show, and then waits until ctx ends unless it is to exit. An
// end of ctx is no error.
func Run(ctx context.Context, o Options) error {
	s := &show{out: o.Out, http: &http.Client{Transport: &http.Transport{}}, tcp: backends(newEcho), web: backends(newWeb)}
	defer s.http.CloseIdleConnections()
	defer s.halt()
	if err := s.startBackends(ctx); err != nil {
		return err
	}
	out := logs.New(o.Log)
	defer out.TakeStandard()()
	defer out.Close(flushTime)
	b, err := balancer.Start(balancer.Options{
		Load:    func() (*config.Config, error) { return config.Parse("demo", []byte(s.config())) },
		Logs:    out,
		Version: o.Version,
	})
	if err != nil {
		return err
	}
	defer b.Stop()
	s.frontend = b.Frontends()[0].Listen
	s.admin = b.AdminAddr()
	return s.play(ctx, o.Once)
}

// play plays all of it; ctx may end it at any point.
func (s *show) play(ctx context.Context, once bool) error {
	err := s.acts(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if once {
		return nil
	}
	s.invite()
	<-ctx.Done()
	return nil
}

func backends(make func(name string) *backend) (bs []*backend) {
	for _, name := range []string{"A", "B", "C"} {
		bs = append(bs, make(name))
	}
	return bs
}

func (s *show) startBackends(ctx context.Context) error {
	for _, b := range s.all() {
		if err := b.start(ctx); err != nil {
			return fmt.Errorf("demo backend %s: %w", b.name, err)
		}
	}
	return nil
}

func (s *show) halt() {
	for _, b := range s.all() {
		b.halt()
	}
}

func (s *show) all() []*backend { return append(append([]*backend(nil), s.tcp...), s.web...) }

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

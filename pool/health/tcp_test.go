package health_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"sluice/pool"
	"sluice/pool/health"
)

func dial(ctx context.Context, t health.Target) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", t.Address)
}

// at dials address whatever the target.
func at(address string) health.Dial {
	return func(ctx context.Context, _ health.Target) (net.Conn, error) {
		return dial(ctx, health.Target{Address: address})
	}
}

// server serves each connection and reports how the client ended it: nil for
// FIN. It stops with the test.
func server(t *testing.T, serve func(net.Conn) error) (address string, ends chan error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ends = make(chan error, 1000)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				ends <- serve(c)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return ln.Addr().String(), ends
}

var greeting = make([]byte, 70)

// untilEnd reads what the client sends until it ends.
func untilEnd(c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	return err
}

// greetAfter sends pieces of the given sizes, each after a pause.
func greetAfter(d time.Duration, sizes ...int) func(net.Conn) error {
	return func(c net.Conn) error {
		for _, n := range sizes {
			<-time.After(d)
			if _, err := c.Write(make([]byte, n)); err != nil {
				return err
			}
		}
		return untilEnd(c)
	}
}

// B069: however the server behaves, the probe ends with FIN and never with RST.
func TestTCPNeverResets(t *testing.T) {
	for name, serve := range map[string]func(net.Conn) error{
		"greets at once":      greetAfter(0, len(greeting)),
		"greets in two parts": greetAfter(20*time.Millisecond, 4, 66),
		"greets late":         greetAfter(200*time.Millisecond, len(greeting)),
		"greets late, twice":  greetAfter(150*time.Millisecond, 50, 20),
		"greets at length":    greetAfter(0, 300_000),
		"silent":              untilEnd,
		"closes at once":      func(net.Conn) error { return nil },
		"keeps it open":       func(c net.Conn) error { err := untilEnd(c); <-time.After(700 * time.Millisecond); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, ends := server(t, serve)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if err := health.TCP(dial)(t.Context(), health.Target{Address: address}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for range 20 {
				if err := <-ends; err != nil {
					t.Errorf("the server saw %v, want an orderly end", err)
				}
			}
		})
	}
}

func TestTCPFailsIfTheDialDoes(t *testing.T) {
	refused := errors.New("connection refused")
	probe := health.TCP(func(context.Context, health.Target) (net.Conn, error) { return nil, refused })
	if err := probe(t.Context(), health.Target{Address: "a:1"}); !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
}

// The verdict comes with the connect; Run waits for what follows, but not long.
func TestTCPVerdictDoesNotWaitForTheParting(t *testing.T) {
	served := make(chan struct{}, 1)
	hold := make(chan struct{})
	address, _ := server(t, func(c net.Conn) error {
		served <- struct{}{}
		<-hold
		return nil
	})
	defer close(hold)

	p := pool.New("p", config(t, pool.InitProbe, []string{address}), pool.Hooks{})
	defer p.Close()
	conns := make(chan *watchedConn, 10)
	probe := health.TCP(func(ctx context.Context, target health.Target) (net.Conn, error) {
		c, err := dial(ctx, target)
		if err != nil {
			return nil, err
		}
		w := &watchedConn{TCPConn: c.(*net.TCPConn), closed: make(chan struct{})}
		conns <- w
		return w, nil
	})
	verdict := make(chan error, 10)
	pol := health.Policy{Interval: time.Hour, DownInterval: time.Hour, Timeout: time.Second}
	m := health.NewMonitor(p, probe, pol, func(_ *pool.Backend, err error) { verdict <- err })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	if err := <-verdict; err != nil {
		t.Fatal(err)
	}
	<-served
	w := <-conns
	if w.isClosed() {
		t.Error("the probe had closed before its verdict")
	}
	stop()
	<-done
	if !w.isClosed() {
		t.Error("Run returned with a probe's connection open")
	}
}

type watchedConn struct {
	*net.TCPConn
	once   sync.Once
	closed chan struct{}
}

func (w *watchedConn) Close() error {
	err := w.TCPConn.Close()
	w.once.Do(func() { close(w.closed) })
	return err
}

func (w *watchedConn) isClosed() bool {
	select {
	case <-w.closed:
		return true
	default:
		return false
	}
}

func TestTCPUnderAMonitor(t *testing.T) {
	address, ends := server(t, greetAfter(200*time.Millisecond, len(greeting)))
	p := pool.New("p", config(t, pool.InitProbe, []string{address}), pool.Hooks{})
	defer p.Close()
	pol := health.Policy{Interval: 20 * time.Millisecond, DownInterval: 20 * time.Millisecond, Timeout: time.Second, Rise: 1, Fall: 1}
	m := health.NewMonitor(p, health.TCP(dial), pol, func(_ *pool.Backend, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	for i := range 100 {
		if err := <-ends; err != nil {
			t.Error(fmt.Errorf("probe %d: the server saw %w, want an orderly end", i, err))
		}
	}
	stop()
	<-done
}

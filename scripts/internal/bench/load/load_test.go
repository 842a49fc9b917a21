//go:build linux

package load_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/scripts/internal/bench/load"
	"sluice/scripts/internal/bench/serve"
)

// services serves until the end of the test.
func services(t *testing.T) serve.Addresses {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan serve.Addresses, 1)
	done := make(chan error, 1)
	go func() { done <- serve.Run(ctx, 2, func(a serve.Addresses) { ready <- a }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the services ended with %v", err)
		}
	})
	select {
	case a := <-ready:
		return a
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	return nil
}

// targets parses addresses.
func targets(t *testing.T, texts ...string) []netip.AddrPort {
	t.Helper()
	a, err := load.Targets(texts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// starter is any load that has not begun.
type starter interface{ Start() (load.Load, error) }

// begin starts a load.
func begin(t *testing.T, s starter) load.Load {
	t.Helper()
	l, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// await waits until a load has done that much more.
func await(t *testing.T, l load.Load, units int64) {
	t.Helper()
	before, err := l.Units()
	if err != nil {
		t.Fatal(err)
	}
	late := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		n, err := l.Units()
		if err != nil {
			t.Fatal(err)
		}
		if n -= before; n >= units {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("after 20 s: %d units, want %d", n, units)
		}
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	to := targets(t, services(t)[serve.Echo]...)
	for name, q := range map[string]load.Requests{
		"one client": {Clients: 1},
		"many":       {Clients: 51},
		"pipelined":  {Clients: 7, Depth: 16},
		"open loop":  {Clients: 5, Rate: 2000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q.Targets, q.Request, q.Answer = to, make([]byte, 64), 64
			l := begin(t, q)
			l.Record()
			await(t, l, 500)
			latency, err := l.Stop()
			if err != nil {
				t.Fatal(err)
			}
			if n := latency.Count(); n < 450 {
				t.Errorf("%d latencies of 500 requests", n)
			}
		})
	}
}

// Nothing is recorded before it is asked for.
func TestRecord(t *testing.T) {
	t.Parallel()
	to := targets(t, services(t)[serve.Echo]...)
	l := begin(t, load.Requests{Targets: to, Clients: 2, Request: []byte("x"), Answer: 1})
	await(t, l, 100)
	if latency, err := l.Stop(); err != nil || latency.Count() != 0 {
		t.Errorf("got %d latencies and %v", latency.Count(), err)
	}
}

// An open loop sends on while nothing is answered, and charges the stall to all
// that it held up: a closed loop would see one slow request.
func TestOpenLoopChargesAStall(t *testing.T) {
	t.Parallel()
	const stall = 300 * time.Millisecond
	to := targets(t, stalling(t, stall))
	l := begin(t, load.Requests{Targets: to, Clients: 1, Rate: 1000, Request: []byte("x"), Answer: 1})
	l.Record()
	await(t, l, 300)
	latency, err := l.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if n := latency.Count(); n < 200 {
		t.Errorf("%d requests were charged for, want about 300", n)
	}
	if got := latency.Quantile(0.5); got < stall/4 {
		t.Errorf("half of the requests took less than %v, the stall was %v", got, stall)
	}
}

// A request that is never answered has waited until the end.
func TestOpenLoopChargesTheUnanswered(t *testing.T) {
	t.Parallel()
	const enough = 100
	got := make(chan bool)
	to := targets(t, listen(t, func(c net.Conn) {
		io.CopyN(io.Discard, c, enough)
		close(got)
		io.Copy(io.Discard, c)
	}))
	l := begin(t, load.Requests{Targets: to, Clients: 1, Rate: 2000, Request: []byte("x"), Answer: 1})
	l.Record()
	<-got
	latency, err := l.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if latency.Count() < enough || latency.Quantile(1) < 40*time.Millisecond {
		t.Errorf("got %d latencies, the longest %v", latency.Count(), latency.Quantile(1))
	}
}

// stalling is an echo that takes a while before it begins to read.
func stalling(t *testing.T, stall time.Duration) string {
	t.Helper()
	return listen(t, func(c net.Conn) {
		<-time.After(stall)
		io.Copy(c, c)
	})
}

// listen accepts connections until the end of the test.
func listen(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// A subject that loses a connection has no figure.
func TestALostConnectionIsAnError(t *testing.T) {
	t.Parallel()
	to := targets(t, listen(t, func(c net.Conn) { io.CopyN(c, c, 10) }))
	q := load.Requests{Targets: to, Clients: 1, Request: []byte("x"), Answer: 1}
	l := begin(t, q)
	late := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for err := error(nil); err == nil; _, err = l.Units() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("nobody noticed the end of the connection")
		}
	}
	if _, err := l.Stop(); err == nil {
		t.Error("got no error")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := targets(t, l.Addr().String())
	l.Close()
	for name, s := range map[string]starter{
		"requests": load.Requests{Targets: to, Clients: 3, Request: []byte("x"), Answer: 1},
		"bulk":     load.Bulk{Targets: to, Streams: 2},
	} {
		if l, err := s.Start(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: got %v, %v", name, l, err)
		}
	}
}

// Short connections come from more than one address, or ports would run out.
func TestShort(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	sources := map[string]bool{}
	to := targets(t, listen(t, func(c net.Conn) {
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		mu.Lock()
		sources[host] = true
		mu.Unlock()
		io.Copy(c, c)
	}))
	l := begin(t, load.Short{Targets: to, Clients: 3, Size: 64})
	l.Record()
	await(t, l, 200)
	latency, err := l.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if latency.Count() < 190 || latency.Quantile(0.5) <= 0 {
		t.Errorf("got %d latencies, %v in the middle", latency.Count(), latency.Quantile(0.5))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sources) < 50 {
		t.Errorf("200 connections came from %d addresses", len(sources))
	}
}

func TestBulk(t *testing.T) {
	t.Parallel()
	a := services(t)
	for name, b := range map[string]load.Bulk{
		"to client":  {Targets: targets(t, a[serve.Source]...), Streams: 3},
		"to backend": {Targets: targets(t, a[serve.Sink]...), Streams: 3, ToBackend: true},
	} {
		l := begin(t, b)
		await(t, l, 16<<20)
		if _, err := l.Stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A reader with pauses is slow.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	b := load.Bulk{Targets: targets(t, services(t)[serve.Source]...), Streams: 1, Block: 1000, Pause: 20 * time.Millisecond}
	l := begin(t, b)
	begun := time.Now()
	await(t, l, 10_000)
	if took := time.Since(begun); took < 9*b.Pause {
		t.Errorf("10,000 bytes took %v", took)
	}
	if _, err := l.Stop(); err != nil {
		t.Error(err)
	}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	sessions := load.Idle{Targets: targets(t, services(t)[serve.Echo]...)}
	defer sessions.Close()
	for _, n := range []int{10, 200} {
		if err := sessions.Grow(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if sessions.Len() != n {
			t.Errorf("got %d sessions, want %d", sessions.Len(), n)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sessions.Grow(ctx, 300); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTargetsAreLoopback(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"192.0.2.1:80", "[::1]:80", "localhost:80", "127.0.0.1", ""} {
		if a, err := load.Targets([]string{text}); err == nil {
			t.Errorf("%q: got %v", text, a)
		}
	}
}

//go:build linux

package serve_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"sluice/scripts/internal/bench/serve"
)

// run serves until the end of the test.
func run(t *testing.T) serve.Addresses {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan serve.Addresses, 1), make(chan error, 1)
	go func() { done <- serve.Run(ctx, 3, func(a serve.Addresses) { ready <- a }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
	return <-ready
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// All that is sent comes back, also to a client that reads late: more is in
// flight then than the sockets have room for.
func TestEcho(t *testing.T) {
	t.Parallel()
	a := run(t)
	if len(a[serve.Echo]) != 3 {
		t.Fatalf("got addresses %v", a)
	}
	sent := make([]byte, 64<<20)
	for i := 0; i < len(sent); i += 1 << 10 {
		sent[i] = byte(rand.Uint32())
	}
	c := dial(t, a[serve.Echo][1])
	c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	n, err := c.Write(sent)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the sockets took all %d bytes: %v", n, err)
	}
	c.SetWriteDeadline(time.Time{})
	var wg sync.WaitGroup
	wg.Go(func() { c.Write(sent[n:]) })
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if !bytes.Equal(got, sent) {
		t.Error("the echo differs from what was sent")
	}
}

func TestSourceAndSink(t *testing.T) {
	t.Parallel()
	a := run(t)
	if n, err := io.CopyN(io.Discard, dial(t, a[serve.Source][2]), 5<<20); err != nil {
		t.Errorf("source: %d bytes, %v", n, err)
	}
	if n, err := dial(t, a[serve.Sink][0]).Write(make([]byte, 32<<20)); err != nil {
		t.Errorf("sink: %d bytes, %v", n, err)
	}
}

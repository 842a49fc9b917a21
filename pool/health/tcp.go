package health

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// A server that gets RST where it expected a session counts a connect error, and
// MySQL for one bans the host that causes many. The kernel sends RST for a close
// with bytes unread, and for bytes that come after the close. So the probe reads
// the greeting, ends its side, and reads on until the server ends its own. All
// three bounds are chosen: a greeting later than the first is caught by the
// second, and a server that sends for ever is not worth more than the third.
const (
	greetingTime  = 100 * time.Millisecond
	partingTime   = 2 * time.Second
	partingLength = 1 << 20
)

// Dial connects to a target by the path that sessions take, and has sent what
// its sessions begin with. An error of ours wraps ErrNoEvidence.
type Dial func(ctx context.Context, t Target) (net.Conn, error)

// TCP returns a probe that connects, reads a greeting if one comes at once, and
// closes with FIN, never with RST, so that a server does not count an error. The
// connect alone decides; under a Monitor the rest happens after the verdict.
func TCP(dial Dial) Probe {
	return func(ctx context.Context, t Target) error {
		c, err := dial(ctx, t)
		if err != nil {
			return err
		}
		afterwards(ctx, func(ctx context.Context) { part(ctx, c) })
		return nil
	}
}

// part closes c politely, or at once when ctx ends.
func part(ctx context.Context, c net.Conn) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	var greeting [512]byte
	c.SetReadDeadline(time.Now().Add(greetingTime))
	c.Read(greeting[:])
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	c.SetReadDeadline(time.Now().Add(partingTime))
	io.CopyN(io.Discard, c, partingLength)
}

// afterwork is a Run that a probe can leave work to.
type afterwork struct {
	ctx     context.Context
	running *sync.WaitGroup
}

type afterworkKey struct{}

func withAfterwork(ctx context.Context, running *sync.WaitGroup) context.Context {
	return context.WithValue(ctx, afterworkKey{}, afterwork{ctx, running})
}

// afterwards does work that the verdict need not wait for. Its context is not
// the probe's, which ends with the verdict, but that of the Run which waits for
// it; without a Run the caller waits.
func afterwards(ctx context.Context, work func(context.Context)) {
	if a, ok := ctx.Value(afterworkKey{}).(afterwork); ok {
		a.running.Go(func() { work(a.ctx) })
		return
	}
	work(ctx)
}

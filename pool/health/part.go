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
// with bytes unread, and for bytes that come after the close. So a probe hears
// what the server has to say, ends its side, and reads on until the server ends
// its own. All three bounds are chosen: a greeting later than the first is
// caught by the second, and a server that sends for ever is not worth more than
// the third.
const (
	greetingTime  = 100 * time.Millisecond
	partingTime   = 2 * time.Second
	partingLength = 1 << 20
)

// hearGreeting reads what comes at once.
func hearGreeting(c net.Conn) {
	var greeting [512]byte
	c.SetReadDeadline(time.Now().Add(greetingTime))
	c.Read(greeting[:])
}

// hearAll reads until the server ends its side, which one that was asked to
// close does by itself.
func hearAll(c net.Conn) {
	c.SetReadDeadline(time.Now().Add(partingTime))
	io.CopyN(io.Discard, c, partingLength)
}

// heard is for a server that has said what it was asked for.
func heard(net.Conn) {}

// part closes c politely after hear, or at once when ctx ends.
func part(ctx context.Context, c net.Conn, hear func(net.Conn)) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	hear(c)
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	hearAll(c)
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

// Afterwards does work of a probe that the verdict need not wait for, or that may
// outlast it. Its context is not the probe's, which ends with the verdict, but
// that of the Run which waits for it; without a Run the caller waits, and the
// context is the probe's. Work must return soon after its context ends.
func Afterwards(ctx context.Context, work func(context.Context)) {
	if a, ok := ctx.Value(afterworkKey{}).(afterwork); ok {
		a.running.Go(func() { work(a.ctx) })
		return
	}
	work(ctx)
}

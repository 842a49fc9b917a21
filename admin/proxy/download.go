package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// download is the body of a response. One goroutine reads it.
type download struct {
	io.ReadCloser
	tally   *tally
	backend *pool.Backend
	whole   bool // read to its end
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.tally.moved(d.backend, 0, n)
	d.whole = d.whole || err == io.EOF
	return n, err
}

// stream is a connection that can end one direction.
type stream interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// errHalfOpen is why an upgraded connection was cut that only one side used.
var errHalfOpen = errors.New("one side has ended and nothing moves")

// duplex is the backend's side of an upgraded connection. ReverseProxy copies
// in each direction, hands the end of one on by CloseWrite, and is done when
// both have ended or one has failed. Safe for concurrent use.
type duplex struct {
	stream
	x       *exchange
	backend *pool.Backend
	closed  atomic.Bool
	first   atomic.Pointer[session.Cause] // who ended first and how
}

func newDuplex(x *exchange, s stream) *duplex {
	return &duplex{stream: s, x: x, backend: x.attempt.backend}
}

func (d *duplex) Read(p []byte) (int, error) {
	n, err := d.stream.Read(p)
	d.x.tally.moved(d.backend, 0, n)
	switch {
	case err == io.EOF:
		d.ended(session.BackendClosed)
	case err != nil && !errors.Is(err, net.ErrClosed):
		d.ended(session.BackendReset)
	}
	return n, err
}

func (d *duplex) Write(p []byte) (int, error) {
	n, err := d.stream.Write(p)
	d.x.tally.moved(d.backend, n, 0)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		d.ended(session.BackendReset)
	}
	return n, err
}

// CloseWrite hands on that the client has ended.
func (d *duplex) CloseWrite() error {
	d.ended(session.ClientClosed)
	return d.stream.CloseWrite()
}

// Close ends both directions; what then fails is not the backend's doing.
func (d *duplex) Close() error {
	d.closed.Store(true)
	return d.stream.Close()
}

// ended notes who ended first. From then on silence has a bound.
func (d *duplex) ended(c session.Cause) {
	if !d.closed.Load() && d.first.CompareAndSwap(nil, &c) {
		if after := d.limit(); after > 0 {
			d.watch(after)
		}
	}
}

// limit is how long a connection of which one side has ended may be silent; 0
// is for ever.
func (d *duplex) limit() time.Duration { return d.x.front.options.Settings.HalfCloseTimeout }

// watch looks after a while whether anything has moved; the request's end ends
// it.
func (d *duplex) watch(after time.Duration) {
	t := time.AfterFunc(after, func() {
		left := d.limit() - d.x.tally.idle()
		switch {
		case d.x.ctx.Err() != nil:
		case left <= 0:
			d.x.cancel(errHalfOpen)
		default:
			d.watch(left)
		}
	})
	context.AfterFunc(d.x.ctx, func() { t.Stop() })
}

// cause is how the connection ended.
func (d *duplex) cause() session.Cause {
	if c := d.first.Load(); c != nil {
		return *c
	}
	return session.ClientReset // only the client's side is left to have failed
}

package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"sluice/admin/internal/answer"
	"sluice/l4/session"
	"sluice/pool"
)

// exchange is one request through /proxy, from its pick to the end of its
// response. It belongs to its handler's goroutine, but for the tally and what
// the two bodies note in it.
type exchange struct {
	front  *Front
	in     *http.Request // under ctx
	ctx    context.Context
	cancel context.CancelCauseFunc
	way    Way
	client *client
	route  session.Route
	tally  tally
	rec    session.Record

	attempt  *attempt  // the one that was answered, else the last; nil before the first
	reached  bool      // some attempt may have been acted on
	response *download // nil until there is a response header
	both     *duplex   // set if it is an upgraded connection
	cause    session.Cause
}

func newExchange(f *Front, r *http.Request, way Way) *exchange {
	x := &exchange{front: f, way: way}
	x.ctx, x.cancel = context.WithCancelCause(r.Context())
	x.in = r.WithContext(x.ctx)
	x.rec = newRecord(r, f.id(f.total.Add(1)), way.Pool.Name())
	x.tally.began = x.rec.Started
	x.route.Start(way.Pool, &f.options.Settings, x.rec.Client.Addr())
	return x
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// run does the request. It may panic: see Forward.
func (x *exchange) run(w http.ResponseWriter) {
	defer context.AfterFunc(x.front.ended, func() { x.cancel(errShutdown) })()
	x.client = &client{ResponseWriter: w, ctx: x.ctx, left: x.front.options.Left}
	p := httputil.ReverseProxy{
		Rewrite:        x.rewrite,
		Transport:      x,
		FlushInterval:  -1,
		ErrorLog:       x.front.options.ErrorLog,
		BufferPool:     &x.front.buffers,
		ModifyResponse: x.label,
		ErrorHandler:   x.refuse,
	}
	p.ServeHTTP(x.client, x.in)
}

// RoundTrip finds a backend and gets its response header. It is the transport
// of one request.
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
		try, cause := x.route.Next(time.Now())
		if x.route.Queues() {
			try, cause = x.queue()
		}
		switch {
		case cause != "":
			return nil, x.none(cause)
		case try.Backend == nil:
			return nil, x.left(nil)
		}
		a, res, err := x.try(try, req)
		x.attempt = a
		if err == nil {
			return x.begin(res), nil
		}
		a.stop()
		again, err := x.judge(a, req, err)
		if !again {
			return nil, err
		}
	}
}

// begin notes that a response header came, and makes its body count.
func (x *exchange) begin(res *http.Response) *http.Response {
	x.route.Dialed(time.Now(), nil)
	x.response = &download{ReadCloser: res.Body, tally: &x.tally, backend: x.attempt.backend}
	res.Body = x.response
	if two, ok := x.response.ReadCloser.(stream); ok && res.StatusCode == http.StatusSwitchingProtocols {
		x.both = newDuplex(x, two)
		res.Body = x.both
	}
	return res
}

// errGone is the end of a request whose client has left.
var errGone = errors.New("the client has left")

// judge says whether to try another backend after an attempt that got no
// response header, and if not, what to answer.
func (x *exchange) judge(a *attempt, req *http.Request, err error) (again bool, out error) {
	now := time.Now()
	var dial *dialError
	switch {
	case x.ctx.Err() != nil:
		x.route.Cancel(now)
		return false, x.left(a)
	case a.upload != nil && a.upload.failed.Load():
		x.route.Cancel(now)
		x.cause = session.ClientReset
		return false, answer.Refuse(http.StatusBadRequest, "the body of the request broke off")
	case errors.As(err, &dial):
		err = dial.err
	case a.line == nil: // the transport does not take the request, say for its trailers
		x.route.Cancel(now)
		x.cause = session.ClientLeft
		return false, answer.Refuse(http.StatusBadRequest, "the request cannot be forwarded: %v", err)
	case !errors.Is(err, errNoAnswer):
		err = &lost{err}
	}
	if a.reached() {
		x.reached = true
		x.route.Reached()
	}
	again, x.cause = x.route.Dialed(now, err)
	switch {
	case x.cause != "":
		return false, answer.Refuse(http.StatusServiceUnavailable,
			"%v: this machine is out of descriptors, memory or permissions", pool.ErrNoBackend)
	case errors.Is(err, errNoAnswer):
		x.cause = session.Idle
		return false, answer.Refuse(http.StatusGatewayTimeout, "backend %s sent no response header within %v",
			a.backend.ID(), x.way.ResponseTimeout)
	case a.untouched() && (!a.reached() || replayable(req)):
		return again, nil
	}
	x.cause = session.BackendReset
	return false, x.broken()
}

// left is the end of a request because its client has left or it was cut. a is
// nil if it waited in the queue.
func (x *exchange) left(a *attempt) error {
	switch {
	case errors.Is(context.Cause(x.ctx), errShutdown):
		x.cause = session.Shutdown
		return answer.Refuse(http.StatusServiceUnavailable, "%v", errShutdown)
	case a == nil || a.line == nil:
		x.cause = session.ClientLeft
	default:
		x.cause = session.ClientReset
	}
	return errGone
}

// none is the answer when no further backend can be tried.
func (x *exchange) none(c session.Cause) error {
	if x.reached {
		x.cause = session.BackendReset
		return x.broken()
	}
	x.cause = c
	switch c {
	case session.QueueTimeout:
		return answer.Refuse(http.StatusServiceUnavailable, "%v: %v", pool.ErrNoBackend, pool.ErrLate)
	case session.HoldTimeout:
		return answer.Refuse(http.StatusServiceUnavailable, "%v: %v", pool.ErrNoBackend, pool.ErrHeldLate)
	case session.BackendLimit:
		return answer.Refuse(http.StatusServiceUnavailable, "%v: %v", pool.ErrNoBackend, pool.ErrFull)
	}
	return answer.Refuse(http.StatusServiceUnavailable, "%v", pool.ErrNoBackend)
}

func (x *exchange) broken() error {
	return answer.Refuse(http.StatusBadGateway, "backend %s sent no response", x.attempt.backend.ID())
}

// refuse answers a request that got no response of a backend.
func (x *exchange) refuse(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, errGone) || x.client.taken {
		panic(http.ErrAbortHandler) // not the empty 200 that an early return would be
	}
	if !answer.Refused(err) {
		// ReverseProxy did not like the request; it never came to RoundTrip.
		x.cause = session.ClientLeft
		err = answer.Refuse(http.StatusBadRequest, "%v", err)
	}
	x.hurry()
	if x.reached {
		w.Header().Set(backendHeader, x.attempt.backend.ID())
	}
	answer.Error(w, err)
}

// uploading reports whether the client may still be sending its body.
func (x *exchange) uploading() bool {
	if x.in.Body == nil || x.in.Body == http.NoBody {
		return false
	}
	a := x.attempt
	return a == nil || a.upload != nil && !a.upload.ended.Load()
}

// hurry bounds how long the server waits for the rest of a body that nobody
// needs. It reads on for a while, because the next request comes after that.
func (x *exchange) hurry() {
	if x.uploading() && !x.client.taken {
		_ = http.NewResponseController(x.client).SetReadDeadline(time.Now().Add(uploadGrace))
	}
}

// end releases the backend and leaves the record. It runs when the response is
// delivered or the upgraded connection is closed, whether or not by a panic.
func (x *exchange) end() {
	if x.attempt != nil {
		x.attempt.stop()
	}
	x.hurry()
	x.close()
	x.route.Lease().Release()
	x.cancel(nil)
	if x.cause == session.BackendReset && x.response != nil {
		x.client.reset(x.in)
	}
	x.front.redials.Add(int64(x.rec.Redials()))
	x.front.finished.Add(x.rec.Cause, x.rec.Total)
	if record := x.front.options.Record; record != nil {
		record(x.rec)
	}
}

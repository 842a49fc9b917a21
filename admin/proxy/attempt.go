package proxy

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// attempt is one backend tried for one request.
type attempt struct {
	backend  *pool.Backend
	deadline time.Time // of the dial
	cancel   context.CancelCauseFunc
	patience *patience
	upload   *upload // nil if the request has no body

	line    *line     // the connection in use; nil while there is none
	mark    int64     // what line had sent before
	earlier bool      // a connection that the transport gave up had sent something
	found   time.Time // when line was found
}

// gotConn is told of the connection that the transport will use, and of another
// if that one turns out to be stale.
func (a *attempt) gotConn(i httptrace.GotConnInfo) {
	a.earlier = a.reached()
	a.line, _ = i.Conn.(*line)
	a.mark = a.line.sent.Load()
	a.found = time.Now()
	a.patience.run()
}

// reached reports whether the backend can have got anything of the request.
func (a *attempt) reached() bool {
	return a.earlier || a.line != nil && a.line.sent.Load() > a.mark
}

// untouched reports whether the body, if any, is still all there.
func (a *attempt) untouched() bool { return a.upload == nil || !a.upload.touched.Load() }

// stop ends the attempt. Nothing of it touches the request any more.
func (a *attempt) stop() {
	a.patience.stop()
	if a.upload != nil {
		a.upload.Close()
	}
	a.cancel(nil)
}

// try sends the request to one backend.
func (x *exchange) try(t session.Try, req *http.Request) (*attempt, *http.Response, error) {
	a := &attempt{backend: t.Backend, deadline: t.Deadline}
	ctx, cancel := context.WithCancelCause(context.WithValue(req.Context(), attemptKey{}, a))
	a.cancel = cancel
	a.patience = newPatience(x.way.ResponseTimeout, func() { cancel(errNoAnswer) })
	out := req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: a.gotConn}))
	out.URL = at(out, t.Backend.Address())
	if req.Body != nil {
		a.upload = &upload{body: req.Body, patience: a.patience, tally: &x.tally, backend: t.Backend}
		out.Body = a.upload
	}
	transport := x.front.lines.single
	if repeatable(req) {
		transport = x.front.lines.to(t.Backend)
	} else {
		out.Close = true
	}
	res, err := transport.RoundTrip(out)
	a.patience.stop()
	return a, res, err
}

// repeatable reports whether a transport would repeat the request by itself.
func repeatable(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return req.Body == nil
	}
	return false
}

// replayable reports whether the request may be sent to another backend although
// this one may have acted on it: it is idempotent (RFC 9110, section 9.2.2) and
// has no body, which is not kept.
func replayable(req *http.Request) bool {
	switch req.Method {
	case http.MethodPut, http.MethodDelete:
		return req.Body == nil
	}
	return repeatable(req)
}

// errNoAnswer is why an attempt's context ended that got no response in time.
var errNoAnswer = fmt.Errorf("no response header in time: %w", os.ErrDeadlineExceeded)

// lost is an error of a connection that had been made: the backend sent no
// response header. It counts as a reset unless it names a fault itself.
type lost struct{ err error }

func (l *lost) Error() string { return "no response header: " + l.err.Error() }

// Unwrap makes session.FaultOf find a fault in any case.
func (l *lost) Unwrap() []error { return []error{l.err, syscall.ECONNRESET} }

// at returns the URL of a request to the backend at address. It names the
// backend to the transport; the request line has the path alone.
func at(req *http.Request, address string) *url.URL {
	u := *req.URL
	u.Scheme, u.Host = "http", address
	if strings.HasPrefix(address, "unix:") {
		u.Host = "localhost"
	}
	return &u
}

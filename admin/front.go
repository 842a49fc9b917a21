package admin

import (
	"cmp"
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/l4"
	"sluice/l4/session"

	"go.uber.org/zap"
)

// frontName is the name under which /proxy counts and logs.
const frontName = "/proxy"

// The search for a backend of one request: the defaults of a frontend.
const (
	attempts       = 3
	connectTimeout = 2 * time.Second
	dialBudget     = 6 * time.Second
)

// halfCloseTimeout is how long an upgraded connection of which one side has
// ended may be silent: the default of a frontend.
const halfCloseTimeout = time.Minute

// errShutdown is why the context of a request ended that Shutdown cut.
var errShutdown = errors.New("the process is shutting down")

// front is the frontend that /proxy is: counters, and what its requests share.
type front struct {
	lines    lines
	left     func(net.Conn) // told of an upgraded connection that was closed
	record   func(session.Record)
	errors   *log.Logger
	search   session.Settings
	halfOpen time.Duration // see halfCloseTimeout
	gate     gate
	ended    context.Context // ends when what is left must go
	end      context.CancelCauseFunc

	born                     int64 // nanoseconds; with total it makes ids unique across restarts
	total, rejected, redials atomic.Int64
}

func newFront(dial Dial, record func(session.Record), left func(net.Conn), logger *zap.Logger) *front {
	f := &front{
		lines:    newLines(dial),
		left:     left,
		record:   record,
		errors:   newComplaints(logger),
		search:   session.Settings{Attempts: attempts, ConnectTimeout: connectTimeout, DialBudget: dialBudget},
		halfOpen: halfCloseTimeout,
		gate:     newGate(),
		born:     time.Now().UnixNano(),
	}
	f.ended, f.end = context.WithCancelCause(context.Background())
	return f
}

// cut ends the requests under way.
func (f *front) cut() { f.end(errShutdown) }

// status shows /proxy as what it counts as.
func (f *front) status(listen, pool string) l4.Status {
	return l4.Status{
		Name:     frontName,
		Listen:   listen,
		Pool:     pool,
		Active:   int64(f.gate.count()),
		Total:    f.total.Load(),
		Rejected: f.rejected.Load(),
		Redials:  f.redials.Load(),
	}
}

// id returns the session id of the n-th request.
func (f *front) id(n int64) string {
	return strconv.FormatInt(f.born, 36) + "-p" + strconv.FormatInt(n, 36)
}

// proxyPoolName returns the name of the pool behind /proxy; empty if several
// are configured and none is chosen.
func (s *Server) proxyPoolName(set ProxySettings) string {
	if set.Pool != "" {
		return set.Pool
	}
	if pools := s.src.Pools(); len(pools) == 1 {
		return pools[0].Name()
	}
	return ""
}

// passage is one request's way through /proxy: where to, under which settings,
// and whether its Authorization header is for us alone.
type passage struct {
	target
	set  ProxySettings
	ours bool
}

// forward passes a request on to a backend.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, way passage) {
	if !way.set.Enabled {
		s.turnAway(w, way.target, refuse(http.StatusNotFound, "/proxy is switched off"))
		return
	}
	p, err := s.pool(cmp.Or(way.name, way.set.Pool))
	if err != nil {
		s.turnAway(w, way.target, err)
		return
	}
	if !s.proxy.gate.enter() {
		w.Header().Set("Connection", "close")
		s.turnAway(w, way.target, refuse(http.StatusServiceUnavailable, "%v", errShutdown))
		return
	}
	defer s.proxy.gate.leave()
	x := newExchange(s, r, p, way)
	defer x.end()
	x.run(w)
}

package admin

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sluice/admin/metrics"
	"sluice/admin/proxy"
	"sluice/admin/rebalance"

	"go.uber.org/zap"
)

const (
	// headerTimeout is how long a request's header may take. Chosen: half of the
	// 10 s within which a peer that sends a byte now and then has to be gone.
	headerTimeout = 5 * time.Second
	// idleTimeout is how long a connection is kept for the next request. Chosen,
	// not measured: longer than the pause between two scrapes.
	idleTimeout = 75 * time.Second
	// bodyTimeout is how long the body of an API request may take, and answerTimeout
	// how long its client may take to read the answer. Chosen, not measured.
	bodyTimeout   = 10 * time.Second
	answerTimeout = 30 * time.Second
	// restTimeout is how long what is left of a body may take that nobody reads: the
	// server waits for it before the answer. Chosen: what was sent is there.
	restTimeout = time.Second
	// maxHeader bounds a request's header: room for many cookies. Chosen.
	maxHeader = 64 << 10
	// linger is how long Close leaves to an answer that is under way. As for
	// sessions.
	linger = time.Second
)

// Server is the admin HTTP server. Safe for concurrent use.
type Server struct {
	src   Sources
	log   *zap.Logger
	peers *zap.Logger // bounded: what peers cause
	rules atomic.Pointer[rules]
	proxy *proxy.Front
	page  *metrics.Page
	most  int // see maxAdded

	entrances  [scopes]entrance
	rebalances rebalance.Desk

	// orders is held during a change, so that what is logged as before and after
	// belongs together. Bodies are read before.
	orders sync.Mutex
}

// New returns a server that listens nowhere yet. Of o, Left and ErrorLog are the
// server's own and need not be set.
func New(s Sources, set Settings, o proxy.Options, logger *zap.Logger) *Server {
	server := &Server{src: s, log: logger, peers: bounded(logger), most: maxAdded}
	complaints := newComplaints(server.peers)
	o.Left, o.ErrorLog = server.left, complaints
	server.proxy = proxy.New(o)
	server.page = metrics.New(server.state, complaints)
	server.rules.Store(newRules(set))
	for i := range server.entrances {
		server.entrances[i].open(Scope(i), server.Handler(), complaints)
	}
	return server
}

// Use makes set the settings of the requests that arrive from now on, and lets
// go of the connections to backends that are gone.
func (s *Server) Use(set Settings) {
	s.rules.Store(newRules(set))
	s.proxy.Prune(s.src.Pools())
}

// Serve accepts on ln until ln is closed or Close is called, and returns nil
// then; on one of scope Traffic also when Drain is called. It closes ln. It may
// be called for several listeners.
func (s *Server) Serve(ln net.Listener, scope Scope) error { return s.entrances[scope].serve(ln) }

// Active returns how many requests are on their way through /proxy.
func (s *Server) Active() int64 { return s.proxy.Status(nil, "").Active }

// Drain ends what moves sessions on, refuses new requests through /proxy, stops
// accepting where nothing else is served, and waits for the requests under way,
// upgraded connections included. When ctx ends first it cuts what is left, and
// returns how much that was. The API goes on answering.
func (s *Server) Drain(ctx context.Context) (cut int) {
	ctx, cancel := context.WithCancel(ctx)
	s.rebalances.Close()
	var idle sync.WaitGroup
	idle.Go(func() { _ = s.entrances[Traffic].http.Shutdown(ctx) })
	defer idle.Wait()
	defer cancel()
	return s.proxy.Drain(ctx)
}

// Close cuts what Drain has not waited for, closes the listeners, and ends the
// connections. An answer of the API that is under way gets a moment.
func (s *Server) Close() {
	s.rebalances.Close()
	s.proxy.Close()
	ctx, cancel := context.WithTimeout(context.Background(), linger)
	defer cancel()
	s.each(func(e *entrance) { e.close(ctx) })
}

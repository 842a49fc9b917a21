package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sluice/admin/proxy"

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
	http  http.Server
	door  door
	rules atomic.Pointer[rules]
	proxy *proxy.Front
	most  int                      // see maxAdded
	addr  atomic.Pointer[net.Addr] // last listened on

	// orders is held during a change, so that what is logged as before and after
	// belongs together. Bodies are read before.
	orders sync.Mutex
}

// New returns a server that listens nowhere yet. Of o, Left and ErrorLog are the
// server's own and need not be set.
func New(s Sources, set Settings, o proxy.Options, logger *zap.Logger) *Server {
	server := &Server{
		src: s, log: logger, peers: bounded(logger), most: maxAdded,
		door: door{max: maxConns, conns: map[net.Conn]time.Time{}},
	}
	complaints := newComplaints(server.peers)
	o.Left, o.ErrorLog = server.door.leave, complaints
	server.proxy = proxy.New(o)
	server.rules.Store(newRules(set))
	server.http = http.Server{
		Handler:           server.Handler(),
		BaseContext:       noteListener,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         server.door.changed,
		ErrorLog:          complaints,
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
// then. It closes ln. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	addr := ln.Addr()
	s.addr.Store(&addr)
	err := s.http.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// listen returns the address that was last listened on; nil if none was.
func (s *Server) listen() net.Addr {
	if a := s.addr.Load(); a != nil {
		return *a
	}
	return nil
}

// Active returns how many requests are on their way through /proxy.
func (s *Server) Active() int64 { return s.proxy.Status(nil, "").Active }

// Drain refuses new requests through /proxy and waits for those under way,
// upgraded connections included. When ctx ends first it cuts what is left, and
// returns how much that was. The API goes on answering.
func (s *Server) Drain(ctx context.Context) (cut int) { return s.proxy.Drain(ctx) }

// Close cuts what Drain has not waited for, closes the listeners, and ends the
// connections. An answer of the API that is under way gets a moment.
func (s *Server) Close() {
	s.proxy.Close()
	ctx, cancel := context.WithTimeout(context.Background(), linger)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

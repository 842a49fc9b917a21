package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sluice/l4/session"

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
	// linger is how long Shutdown leaves to what it has cut. As for sessions.
	linger = time.Second
)

// Server is the admin HTTP server. Safe for concurrent use.
type Server struct {
	src   Sources
	log   *zap.Logger
	http  http.Server
	door  door
	rules atomic.Pointer[rules]
	proxy *front
	most  int                    // see maxAdded
	addr  atomic.Pointer[string] // last listened on

	// orders is held during a change, so that what is logged as before and after
	// belongs together. Bodies are read before.
	orders sync.Mutex
}

// New returns a server that listens nowhere yet. record gets one record per
// /proxy request, under the frontend name "/proxy"; nil drops it. dial is how
// /proxy reaches a backend's address.
func New(s Sources, set Settings, dial Dial, record func(session.Record), logger *zap.Logger) *Server {
	server := &Server{src: s, log: logger, most: maxAdded, door: door{max: maxConns, conns: map[net.Conn]time.Time{}}}
	server.proxy = newFront(dial, record, server.door.leave, logger)
	server.rules.Store(newRules(set))
	server.http = http.Server{
		Handler:           server.Handler(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         server.door.changed,
		ErrorLog:          newComplaints(logger),
	}
	return server
}

// Use makes set the settings of the requests that arrive from now on, and lets
// go of the connections to backends that are gone.
func (s *Server) Use(set Settings) {
	s.rules.Store(newRules(set))
	s.proxy.lines.prune(s.src.Pools())
}

// Serve accepts on ln until ln is closed or Shutdown is called, and returns nil
// then. It closes ln. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	addr := addressOf(ln.Addr())
	s.addr.Store(&addr)
	err := s.http.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// listen returns the address that was last listened on; empty if none was.
func (s *Server) listen() string {
	if a := s.addr.Load(); a != nil {
		return *a
	}
	return ""
}

// Shutdown refuses new /proxy requests, waits for those under way, upgraded
// connections included, and closes the listeners last, so that the API answers
// until then. When ctx ends first it cuts what is left and returns an error
// that says how much that was.
func (s *Server) Shutdown(ctx context.Context) error {
	idle := s.proxy.gate.shut()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		if n := s.proxy.gate.count(); n > 0 {
			err = fmt.Errorf("cut %d requests through /proxy: %w", n, context.Cause(ctx))
		}
		s.proxy.cut()
		within(idle, linger)
	}
	s.close(ctx)
	within(idle, linger)
	s.proxy.lines.close()
	return err
}

// close ends the listeners and the connections. An answer that is under way
// gets a moment.
func (s *Server) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), linger)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

// within waits for done, but not longer than d.
func within(done <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

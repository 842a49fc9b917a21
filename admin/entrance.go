package admin

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sluice/l4"
)

// Scope is what requests that come in through a listener can reach.
type Scope int

const (
	Everything Scope = iota // by the rules of the guard
	Probes                  // /healthz, /readyz and what else is for anybody
	Traffic                 // /proxy paths, for anybody, as through a frontend
	scopes
)

// reaches reports whether a path of that kind can be found from here.
func (s Scope) reaches(k kind) bool {
	switch s {
	case Probes:
		return k == probing
	case Traffic:
		return k == traffic
	}
	return true
}

// entrance is the listeners of one scope. Each has a server and a door of its
// own, so that who may only use /proxy cannot shut out who steers.
type entrance struct {
	scope Scope
	door  door
	http  http.Server
	addr  atomic.Pointer[net.Addr] // last listened on
}

func (e *entrance) open(s Scope, h http.Handler, complaints *log.Logger) {
	e.scope = s
	e.door = door{max: mostConns(l4.DescriptorLimit()), conns: map[net.Conn]time.Time{}}
	e.http = http.Server{
		Handler:           h,
		BaseContext:       e.note,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         e.door.changed,
		ErrorLog:          complaints,
	}
}

// serve accepts on ln until it or the entrance is closed.
func (e *entrance) serve(ln net.Listener) error {
	addr := ln.Addr()
	e.addr.Store(&addr)
	err := e.http.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// listen returns the address that was last listened on; nil if none was.
func (e *entrance) listen() net.Addr {
	if a := e.addr.Load(); a != nil {
		return *a
	}
	return nil
}

// close ends the connections. An answer that is under way gets until the end of
// ctx.
func (e *entrance) close(ctx context.Context) {
	if e.http.Shutdown(ctx) != nil {
		e.http.Close()
	}
}

// origin is how a connection came in. The context of its requests holds it.
type origin struct {
	scope Scope
	addr  net.Addr // of the listener
}

type originKey struct{}

// note is the server's BaseContext hook.
func (e *entrance) note(ln net.Listener) context.Context {
	return context.WithValue(context.Background(), originKey{}, origin{e.scope, ln.Addr()})
}

// originOf returns how r came in. In a server that is not ours it is judged by
// the connection's own address.
func originOf(r *http.Request) origin {
	if o, ok := r.Context().Value(originKey{}).(origin); ok {
		return o
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return origin{Everything, local}
}

// public reports whether others than this machine can come in here. It is asked
// for each request and not taken from the settings: a connection may outlive its
// listener. It is not the connection's own address that counts, either: what
// comes to a public listener by loopback may come from a forwarder on this
// machine.
func (o origin) public() bool {
	switch a := o.addr.(type) {
	case *net.UnixAddr:
		return false
	case *net.TCPAddr:
		return !a.IP.IsLoopback()
	}
	return true // nobody knows
}

// unix reports whether it came by a unix socket. Who may, its file's mode says.
func (o origin) unix() bool {
	_, ok := o.addr.(*net.UnixAddr)
	return ok
}

// each calls f for all entrances at once, and returns when all have returned.
func (s *Server) each(f func(e *entrance)) {
	var all sync.WaitGroup
	for i := range s.entrances {
		all.Go(func() { f(&s.entrances[i]) })
	}
	all.Wait()
}

// left is told when an upgraded connection is closed. It knows not by which door
// it came.
func (s *Server) left(c net.Conn) {
	for i := range s.entrances {
		s.entrances[i].door.leave(c)
	}
}

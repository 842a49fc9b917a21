package l4

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"
)

// Config is what a frontend is made of. Name, Pool, Names and Settings are
// required.
type Config struct {
	Name        string
	Pool        *pool.Pool
	Names       *resolve.Cache
	Limit       *Limit // of the process; nil is none
	Settings    session.Settings
	MaxSessions int // of this frontend; 0 is no limit

	Record   func(session.Record)                       // a finished session; nil drops it
	Rejected func(reason string, client netip.AddrPort) // a refused client; nil
	Fault    func(err error)                            // an accept error, or a defect of ours; nil
}

// Frontend owns the sessions and counters of one frontend. It outlives its
// listener: sessions go on when the listener is gone. Safe for concurrent use.
type Frontend struct {
	name     string
	config   atomic.Pointer[Config] // never edited once stored
	process  string                 // first part of session ids: random for each Frontend
	numbers  atomic.Uint64          // given out so far; the second part of ids
	started  atomic.Int64           // sessions started so far
	counters counters

	mu      sync.Mutex // guards live and closed; running grows under it, while not closed
	live    map[*conn]struct{}
	closed  bool
	running sync.WaitGroup // sessions whose record is not handed over yet

	buffers sync.Pool // of *[bufferSize]byte, for copies outside the kernel
}

// NewFrontend returns a frontend that no listener feeds yet.
func NewFrontend(c Config) *Frontend {
	f := &Frontend{name: c.Name, live: map[*conn]struct{}{}}
	f.config.Store(&c)
	var id [6]byte
	rand.Read(id[:])
	f.process = hex.EncodeToString(id[:])
	return f
}

// Use changes everything but the name; running sessions keep their pool and
// settings.
func (f *Frontend) Use(c Config) {
	c.Name = f.name
	f.config.Store(&c)
}

// admit takes a client in and starts its session, or refuses it. It does
// nothing that could wait.
func (f *Frontend) admit(client stream, listen string) {
	cfg := f.config.Load()
	c := newConn(f, cfg, client, listen)
	if reason := f.enter(c, cfg); reason != "" {
		f.reject(cfg, reason, client)
		return
	}
	f.started.Add(1)
	go c.run()
}

// enter registers c, or returns why it may not.
func (f *Frontend) enter(c *conn, cfg *Config) (reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return "shutdown"
	case cfg.MaxSessions > 0 && len(f.live) >= cfg.MaxSessions:
		return "frontend_limit"
	case cfg.Limit != nil && !cfg.Limit.enter():
		return "process_limit"
	}
	f.running.Add(1)
	f.live[c] = struct{}{}
	f.counters.active.Store(int64(len(f.live)))
	return ""
}

// reject closes a client that is not let in.
func (f *Frontend) reject(cfg *Config, reason string, client stream) {
	addr := clientAddr(client)
	f.counters.reject(reason)
	reset(client)
	if cfg.Rejected != nil {
		cfg.Rejected(reason, addr)
	}
}

// leave is the end of a session: the counterpart of enter.
func (f *Frontend) leave(c *conn, r session.Record) {
	defer f.running.Done()
	f.counters.redials.Add(int64(r.Redials()))
	f.mu.Lock()
	delete(f.live, c)
	f.counters.active.Store(int64(len(f.live)))
	f.mu.Unlock()
	if c.config.Limit != nil {
		c.config.Limit.leave()
	}
	if c.config.Record != nil {
		c.config.Record(r)
	}
}

// Shutdown refuses new clients and waits for the sessions to end. When ctx ends
// first, it ends them with cause shutdown, and returns how many it had to cut
// once they are gone. Every record has been handed over by then.
func (f *Frontend) Shutdown(ctx context.Context) (cut int) {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	drained := make(chan struct{})
	go func() {
		f.running.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		return 0
	case <-ctx.Done():
	}
	cut = f.endAll(session.Shutdown)
	<-drained
	return cut
}

// endAll orders every session to end, and returns how many there were.
func (f *Frontend) endAll(cause session.Cause) int {
	f.mu.Lock()
	conns := make([]*conn, 0, len(f.live))
	for c := range f.live {
		conns = append(conns, c)
	}
	f.mu.Unlock()
	for _, c := range conns {
		c.ask(cause)
	}
	return len(conns)
}

func (f *Frontend) acceptFailed(err error) {
	f.counters.acceptErrors.Add(1)
	f.fault(err)
}

func (f *Frontend) fault(err error) {
	if cfg := f.config.Load(); cfg.Fault != nil {
		cfg.Fault(err)
	}
}

// clientAddr returns the peer's address, unmapped; zero for a unix socket.
func clientAddr(s stream) netip.AddrPort {
	a, ok := s.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

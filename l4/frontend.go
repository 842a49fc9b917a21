package l4

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/netip"
	"sync/atomic"

	"sluice/l4/access"
	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"
)

// Config is what a frontend is made of. Name, Pool, Names and Settings are
// required. None of the funcs may block for long.
type Config struct {
	Name        string
	Pool        *pool.Pool
	Names       *resolve.Cache
	Limit       *Limit // of the process; nil is none
	Settings    session.Settings
	MaxSessions int // of this frontend; 0 is no limit
	Admission   Admission

	Record   func(session.Record)                       // a finished session; nil drops it
	Rejected func(reason string, client netip.AddrPort) // a refused client; nil
	Fault    func(err error)                            // an accept error, or a defect of ours; nil
}

// Frontend owns the admission and the counters of one frontend. It outlives its
// listener: sessions go on when the listener is gone. Safe for concurrent use.
type Frontend struct {
	name     string
	driver   driver
	config   atomic.Pointer[Config]         // never edited once stored
	shared   atomic.Pointer[session.Origin] // see origin
	process  string                         // first part of session ids: random for each Frontend
	numbers  atomic.Uint64                  // given out so far; the second part of ids
	started  atomic.Int64                   // sessions started so far
	counters counters
	clients  access.Clients // those whose sessions are counted
	running  running        // sessions whose record is not handed over yet
	cutting  atomic.Bool    // all of them were ordered to end
}

func newFrontend(d driver, c Config) *Frontend {
	f := &Frontend{name: c.Name, driver: d, running: newRunning()}
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

// leave counts a session out whose sockets are closed, so that no limit is ever
// exceeded by sockets still open. r is its record, kept or not; admitted is what
// the session said. report must follow.
func (f *Frontend) leave(cfg *Config, r *session.Record, admitted bool) {
	switch {
	case r.Cause.Rejected():
		f.reject(cfg, string(r.Cause), r.Client)
	case admitted:
		f.counters.ended.Add(r.Cause, r.Total)
		f.depart(cfg, r.Client.Addr())
	default: // an order, or its reset, came before its header
		f.started.Add(1)
		f.counters.ended.Add(r.Cause, r.Total)
	}
	if n := r.Redials(); n > 0 {
		f.counters.redials.Add(int64(n))
	}
	f.counters.active.Add(-1)
	if cfg.Limit != nil {
		cfg.Limit.leave()
	}
}

// report hands over the record of a session that left.
func (f *Frontend) report(cfg *Config, r session.Record) {
	defer f.running.leave()
	if cfg.Record != nil && !r.Cause.Rejected() {
		cfg.Record(r)
	}
}

// Shutdown refuses new clients and waits for the sessions to end. When ctx ends
// first, it ends them with cause shutdown, and returns how many it had to cut
// once they are gone. Every record has been handed over by then.
func (f *Frontend) Shutdown(ctx context.Context) (cut int) {
	drained := f.running.close()
	select {
	case <-drained:
		return 0
	case <-ctx.Done():
	}
	f.cutting.Store(true)
	cut = f.driver.order(session.Match{Key: session.Key{Process: f.process}}, session.Shutdown)()
	<-drained
	return cut
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

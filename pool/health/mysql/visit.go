package mysql

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"sluice/pool/health"
)

// longestVisit is how long a login may take that the verdict did not wait for.
// Chosen: long enough for a host that is looked up in vain or a server that
// stands still for a moment, and with the default of max_connect_errors, 100, a
// server that stands still for longer would have to do so for more than an hour.
const longestVisit = time.Minute

// farewell is how long a login may still take once nobody probes any more. Chosen: as
// long as a session lingers. A server that answers at all is done by then, and a
// stop is not held up for long.
const farewell = time.Second

// stage is how far a visit has come, in the words of who waits for more.
type stage int32

const (
	connected stage = iota
	greeted
	loggedIn
)

func (s stage) String() string {
	return [...]string{"no greeting in time", "no answer to the login in time", "no answer to a query in time"}[s]
}

// visit is one connection to a server.
type visit struct {
	target health.Target
	wire   *wire
	stage  atomic.Int32
	done   chan struct{} // closed when err is there
	err    error
}

func (p *prober) begin(t health.Target, c net.Conn) *visit {
	v := &visit{target: t, wire: &wire{Conn: c, left: mostRead}, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.visits[t] = v
	return v
}

// conclude makes err the result of v, which no probe finds any more.
func (p *prober) conclude(v *visit, err error) {
	v.err = err
	p.mu.Lock()
	if p.visits[v.target] == v {
		delete(p.visits, v.target)
	}
	p.mu.Unlock()
	close(v.done)
}

func (v *visit) at(s stage) { v.stage.Store(int32(s)) }

// await returns the result of v, or that there is none in time.
func (v *visit) await(ctx context.Context) error {
	select {
	case <-v.done:
		return v.err
	case <-ctx.Done():
	}
	select {
	case <-v.done:
		return v.err
	default:
		return errors.New(stage(v.stage.Load()).String())
	}
}

// run visits a server, as long as probing lasts and a moment longer. The verdict does
// not wait for the end of the connection.
func (p *prober) run(probing context.Context, v *visit) {
	defer v.wire.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(probing), longestVisit)
	defer cancel()
	defer context.AfterFunc(probing, func() { time.AfterFunc(farewell, cancel) })()
	defer context.AfterFunc(ctx, func() { v.wire.Close() })()
	s, err := p.login(ctx, v)
	p.refusals.note(v.target, err, time.Now())
	if err != nil {
		p.conclude(v, err)
		return
	}
	v.at(loggedIn)
	p.conclude(v, s.fits(ctx, p.options))
	s.conn.Close() // what it says of an end that went wrong helps nobody
}

package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"sluice/l4/session"
)

// newRecord returns the record of a request that has just arrived.
func newRecord(r *http.Request, id, pool string) session.Record {
	rec := session.Record{Started: time.Now(), Session: id, Frontend: frontName, Pool: pool}
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		rec.Client = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		rec.Listen = textOf(local)
	}
	return rec
}

// textOf writes an address as the file does; nil as nothing.
func textOf(a net.Addr) string {
	switch {
	case a == nil:
		return ""
	case a.Network() == "unix":
		return "unix:" + a.String()
	}
	return a.String()
}

// close completes the record. The lease is still held.
func (x *exchange) close() {
	r := &x.rec
	if x.cause == "" {
		x.cause = x.ending()
	}
	r.Cause = x.cause
	r.Code = x.cause.Code(session.Moment{
		TimedOut:  x.route.TimedOut(),
		ToBackend: x.tally.up.Load() || x.response == nil,
		Queued:    x.route.LeftQueue(),
	})
	r.Attempts, r.Queue = x.route.Attempts(), x.route.Queued()
	r.ToBackend, r.ToClient = x.tally.toBackend.Load(), x.tally.toClient.Load()
	r.Total = time.Since(r.Started)
	r.Last = x.tally.idle()
	r.FrontendActive = int64(x.front.gate.count())
	if a := x.attempt; a != nil {
		r.Backend = a.backend.ID()
		r.BackendActive = a.backend.Active()
		x.noteDial(a)
	}
}

// noteDial notes where the last attempt went. One that found a kept connection
// has not dialed, and its time is next to nothing.
func (x *exchange) noteDial(a *attempt) {
	if a.line == nil {
		x.rec.Dial = x.rec.Total - x.rec.Queue
		return
	}
	x.rec.Dial = a.found.Sub(x.rec.Started) - x.rec.Queue
	x.rec.Address = textOf(a.line.RemoteAddr())
	x.rec.Source = textOf(a.line.LocalAddr())
}

// ending returns the cause of the end of a request that was answered. There is
// no word for a complete response but backend_closed; a 502 and a response that
// broke off are backend_reset, and a 504 (no response header in time) is idle.
func (x *exchange) ending() session.Cause {
	why := context.Cause(x.ctx)
	switch {
	case x.response == nil:
		return session.LocalFault // a panic of ours
	case errors.Is(why, errHalfOpen):
		return session.HalfCloseTimeout
	case errors.Is(why, errShutdown) && !x.response.whole:
		return session.Shutdown
	case x.both != nil:
		return x.both.cause()
	case x.client.failed || !x.response.whole && why != nil:
		return session.ClientReset
	case !x.response.whole:
		return session.BackendReset
	}
	return session.BackendClosed
}

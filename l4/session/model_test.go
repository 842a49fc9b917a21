package session_test

import (
	"slices"
	"strings"
	"time"

	"sluice/l4/session"
)

// check is what must hold after each event.
func (z *fuzz) check() {
	holds := int64(0)
	if !z.closed && (z.relaying || z.cause == "" && (z.step.Do == session.Lookup || z.step.Do == session.Dial)) {
		holds = 1
	}
	if !z.closed && z.cause == "" && z.step.Do == session.Wait && z.woken {
		holds = 1
	}
	if z.held.Backend() != nil {
		holds++
	}
	some := (z.holds || z.upset) && z.step.Do == session.Wait // it may have been woken for something else
	if n := z.active(); n != holds && !(some && n == z.atMost()) && !(some && n == z.atMost()-1) {
		z.t.Fatalf("%d leases are held, want %d (step %s, cause %q, closed %v)", n, holds, steps[z.step.Do], z.cause, z.closed)
	}
	z.checkDeadline()
	if z.closed {
		z.checkRecord(z.record)
	}
}

// atMost returns how many leases there can be.
func (z *fuzz) atMost() int64 {
	if z.held.Backend() != nil {
		return 2
	}
	return 1
}

// half reports whether one side is over.
func (z *fuzz) half() bool { return z.HalfClosed() || z.broken != [2]bool{} }

// progressed notes progress, before which no queue was looked at.
func (z *fuzz) progressed() { z.progress, z.queues = z.now, [2]int{} }

// over returns why a look at the queues may end the relay, "" if it must not.
func (z *fuzz) over(unsent [2]int) session.Cause {
	limit, cause := z.set.IdleTimeout, session.Idle
	if half := z.set.HalfCloseTimeout; z.half() && half != 0 && (limit == 0 || half <= limit) {
		limit, cause = half, session.HalfCloseTimeout
	}
	if limit > 0 && unsent != z.queues {
		z.progress, z.queues = z.now, unsent
	}
	if limit > 0 && z.now.Sub(z.progress) >= limit+z.lag {
		return cause
	}
	youngest := z.set.MaxAge - z.set.MaxAge*time.Duration(z.set.AgeJitter)/100
	if z.set.MaxAge > 0 && z.now.Sub(began) >= youngest {
		return session.MaxAge
	}
	return ""
}

// checkDeadline wants a deadline wherever something is waited for.
func (z *fuzz) checkDeadline() {
	limited := z.set.IdleTimeout > 0 || z.set.HalfCloseTimeout > 0 && z.half() || z.set.MaxAge > 0
	want := false
	switch {
	case z.closed || !z.relaying:
	case z.verb == session.None:
		want = limited
	case z.verb == session.Linger, z.verb == session.Abort, z.verb == session.Reset:
		want = true
	}
	if got := !z.Deadline().IsZero(); got != want {
		z.t.Fatalf("deadline %v, want one: %v (verb %s, closed %v)", z.Deadline(), want, verbs[z.verb], z.closed)
	}
}

var words = strings.Fields("refused timeout reset unreachable resolve local canceled")

func (z *fuzz) checkRecord(r session.Record) {
	searched := []session.Cause{session.ConnectFailed, session.NoBackend, session.BackendLimit, session.QueueTimeout, session.HoldTimeout, session.LocalFault}
	if r.Cause != z.cause && !(z.cause == "search" && slices.Contains(searched, r.Cause)) || len(r.Code) != 2 {
		z.t.Fatalf("cause %q, code %q; want %q", r.Cause, r.Code, z.cause)
	}
	if r.ToBackend != z.moved[session.Client] || r.ToClient != z.moved[session.Backend] {
		z.t.Fatalf("moved %d and %d, want %v", r.ToBackend, r.ToClient, z.moved)
	}
	if r.Dial < 0 || r.Queue < 0 || r.Dial+r.Queue > r.Total || r.Last < 0 || r.Last > r.Total {
		z.t.Fatalf("dial %v, last %v, total %v", r.Dial, r.Last, r.Total)
	}
	var toBackend, toClient int64
	for _, b := range z.pool.Status().Backends {
		toBackend, toClient = toBackend+b.BytesToBack, toClient+b.BytesToClient
	}
	if toBackend != r.ToBackend || toClient != r.ToClient {
		z.t.Fatalf("backends count %d and %d, the record %d and %d", toBackend, toClient, r.ToBackend, r.ToClient)
	}
	if len(r.Attempts) > z.set.Attempts && !z.holds {
		z.t.Fatalf("%d attempts, want %d at most", len(r.Attempts), z.set.Attempts)
	}
	seen := map[string]bool{}
	for i, a := range r.Attempts {
		reached := z.relaying && i == len(r.Attempts)-1
		if seen[a.Backend] && !z.holds || a.Took < 0 || (a.Error == "") != reached || a.Error != "" && !slices.Contains(words, a.Error) {
			z.t.Fatalf("attempts %+v", r.Attempts)
		}
		seen[a.Backend] = true
	}
}

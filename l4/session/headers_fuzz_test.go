package session_test

import (
	"net/netip"
	"os"
	"slices"
	"time"

	"sluice/l4/access"
	"sluice/l4/header"
	"sluice/l4/session"
)

// headerTime is how long a header may take in the fuzz test.
const headerTime = 5 * time.Second

// firstBytes may follow each other in any order.
var firstBytes = []string{"PROXY TCP4 198.51.100.9 ", "P", "203.0.113.1 1234 5432\r\nhello", "PROXY UNKNOWN\r\n", "GET /", "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"}

// awaitHeader makes the client one that is to begin with a header.
func (z *fuzz) awaitHeader(mode session.HeaderMode) {
	z.awaits = true
	z.headers = session.HeaderRules{
		Mode: mode, Timeout: headerTime, From: access.NewSet([]netip.Prefix{netip.PrefixFrom(client.Addr(), 32)}),
	}
	z.admit = func(netip.Addr) session.Cause { return "" }
}

// header tells the session what the client sent.
func (z *fuzz) header(p []byte) {
	payload, step := z.Header(z.now, p)
	if !z.answers() {
		z.ignored(payload, step)
		return
	}
	z.begun = append(z.begun, p...)
	switch told, v := header.Read(z.begun); v {
	case header.More:
		if step.Do != session.Header || len(payload) > 0 {
			z.t.Fatalf("%q: got %+v, payload %q; want more", z.begun, step, payload)
		}
		z.stepped(step)
	case header.Whole:
		z.cameIn(payload, z.begun[told.Size:], step)
	default:
		z.without(payload, step, session.BadHeader)
	}
}

func (z *fuzz) noHeader(late bool) {
	var err error
	if late {
		err = os.ErrDeadlineExceeded
	}
	payload, step := z.NoHeader(z.now, err)
	if !z.answers() {
		z.ignored(payload, step)
		return
	}
	cause := session.BadHeader
	if late {
		cause = session.HeaderTimeout
	}
	z.without(payload, step, cause)
}

// answers reports whether the session asked for a header.
func (z *fuzz) answers() bool { return z.awaits && z.cause == "" && !z.closed }

func (z *fuzz) ignored(payload []byte, step session.Step) {
	if len(payload) > 0 || step.Do == session.Header {
		z.t.Fatalf("an answer that nobody asked for gave %q, %+v", payload, step)
	}
}

// without is the end of the wait if no header came.
func (z *fuzz) without(payload []byte, step session.Step, c session.Cause) {
	if z.headers.Mode == session.AcceptHeaders {
		z.cameIn(payload, z.begun, step)
		return
	}
	if step.Do != session.End || len(payload) > 0 || z.Admitted() {
		z.t.Fatalf("%q is required to be a header: got %+v, payload %q", z.begun, step, payload)
	}
	z.cause, z.step = c, step
}

func (z *fuzz) cameIn(payload, want []byte, step session.Step) {
	if z.awaits = false; !slices.Equal(payload, want) || !z.Admitted() {
		z.t.Fatalf("%q: payload %q, want %q; let in: %v", z.begun, payload, want, z.Admitted())
	}
	z.stepped(step)
}

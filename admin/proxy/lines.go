package proxy

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sluice/l4/greeting"
	"sluice/l4/session"
	"sluice/pool"
)

const (
	// keptFor is how long an idle connection to a backend is kept: below the 5 s of
	// Apache and Node.js, the shortest in common use, so that we close first.
	keptFor = 4 * time.Second
	// keptPerBackend bounds the idle connections to one backend. Chosen, not
	// measured.
	keptPerBackend = 64
	// continueTimeout is how long to wait for a backend's 100 Continue before the
	// body is sent anyway.
	continueTimeout = time.Second
	// maxAnswerHeader bounds the header of a response. Chosen: far above what
	// clients accept.
	maxAnswerHeader = 256 << 10
)

// Dial connects to a backend's configured address, "host:port" or "unix:/path",
// before ctx ends. The caller closes the connection.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// lines are the HTTP connections to the backends. Safe for concurrent use.
//
// A request that may be repeated uses the backend's kept connections: when the
// backend closes one at the moment it is used, the transport repeats the request
// on another. All others get a connection of their own, because nobody could
// tell whether the backend has acted on them.
type lines struct {
	dial   Dial
	single *http.Transport // never keeps a connection

	mu   sync.Mutex // guards kept
	kept map[*pool.Backend]*http.Transport
}

func newLines(dial Dial) lines {
	single := newTransport(dial)
	single.DisableKeepAlives = true
	return lines{dial: dial, single: single, kept: map[*pool.Backend]*http.Transport{}}
}

func newTransport(dial Dial) *http.Transport {
	var plain http.Protocols
	plain.SetHTTP1(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialFor(ctx, dial)
		},
		Protocols:              &plain,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    keptPerBackend,
		IdleConnTimeout:        keptFor,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: maxAnswerHeader,
	}
}

// to returns the kept connections to b.
func (l *lines) to(b *pool.Backend) *http.Transport {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.kept[b]
	if t == nil {
		t = newTransport(l.dial)
		l.kept[b] = t
	}
	return t
}

// identity is what makes a backend the same one.
type identity struct{ pool, id, address string }

// prune is Front.Prune.
func (l *lines) prune(pools []*pool.Pool) {
	here := map[identity]bool{}
	for _, p := range pools {
		for _, b := range p.Status().Backends {
			if b.Admin != "removing" {
				here[identity{p.Name(), b.ID, b.Address}] = true
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for b, t := range l.kept {
		if !here[identity{b.Pool(), b.ID(), b.Address()}] {
			delete(l.kept, b)
			t.CloseIdleConnections()
		}
	}
}

// attemptKey is where the context of a dial holds its *attempt: a transport
// hands nothing else through.
type attemptKey struct{}

// dialError is an error of a dial, told apart from all others of a transport.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// dialFor dials the backend of the attempt in ctx, as long as that may take.
func dialFor(ctx context.Context, dial Dial) (net.Conn, error) {
	a := ctx.Value(attemptKey{}).(*attempt)
	ctx, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	began := time.Now()
	c, err := dial(ctx, a.backend.Address())
	if err == nil || session.FaultOf(err).Blame == session.OnBackend {
		a.backend.Dialed(time.Since(began))
	}
	if err != nil {
		return nil, &dialError{err}
	}
	if v := a.backend.SendProxy(); v != 0 { // for ourselves: many clients share the connection
		if _, err := c.Write(greeting.Own(v)); err != nil {
			c.Close()
			return nil, &dialError{err}
		}
	}
	return &line{Conn: c}, nil
}

// line is one connection to a backend. It knows how much was sent, which tells
// whether a request that failed can have reached the backend.
type line struct {
	net.Conn
	sent atomic.Int64
}

func (c *line) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

// CloseWrite ends our side of an upgraded connection.
func (c *line) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}

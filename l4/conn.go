package l4

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"sluice/l4/session"
)

// watchAfter is how long a dial may take before the client is watched for a
// reset: most dials are over sooner and are spared the goroutine. Chosen.
const watchAfter = 20 * time.Millisecond

// conn is one session on the copy engine.
type conn struct {
	engine   *copying
	frontend *Frontend
	config   *Config
	socks    [2]stream // by session.Side; the backend's is set under mu once connected
	greeting []byte    // what the backend gets before payload, and is none
	payload  []byte    // what came with a header, and goes out first

	ctx context.Context // of the search, for run alone

	mu       sync.Mutex // guards what follows, and the deadlines of socks
	session  session.Session
	cancel   context.CancelFunc // ends the look-up or dial under way
	diverted session.Cause      // the order that did, if the search goes on
	stopped  [2]bool            // by side: nothing more is read from it
	ended    [2]bool            // by side: its end of stream was read
	verb     session.Verb       // how the relay ends; None or HalfClose while it goes on
	timer    *time.Timer        // for session.Deadline
	released bool               // close has begun: no order is taken any more
}

// newConn prepares the session of an accepted client; run starts it.
func newConn(e *copying, f *Frontend, cfg *Config, client stream, listen string) *conn {
	c := &conn{engine: e, frontend: f, config: cfg}
	c.socks[session.Client] = client
	c.session.Start(time.Now(), f.origin(cfg, listen), f.numbers.Add(1), clientAddr(client))
	return c
}

// run is the whole life of a session.
func (c *conn) run() {
	defer c.survive() // what close calls may panic too
	defer c.close()
	defer c.survive()
	tune(c.socks[session.Client], &c.config.Settings)
	if c.connect() {
		c.relay()
	}
}

// survive keeps a defect in one session from ending all the others: it is
// reported with its stack, and this session ends.
func (c *conn) survive() {
	if p := recover(); p != nil {
		c.frontend.fault(fmt.Errorf("a session of %s panicked: %v\n%s", c.frontend.name, p, debug.Stack()))
		c.ask(session.LocalFault)
	}
}

// connect finds a backend. It returns false if there is none for this client.
func (c *conn) connect() bool {
	c.mu.Lock()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.mu.Unlock()
	defer func() { c.cancel() }()
	if hasFailed(c.socks[session.Client]) {
		c.gone()
	}
	step := c.tell(c.session.Next)
	if step.Do == session.Header {
		step = c.header(step)
	}
	defer c.watch()() // behind the header: two cannot wait for one socket

	for {
		switch step.Do {
		case session.Lookup:
			step = c.lookup(step)
		case session.Queue:
			step = c.queue()
		case session.Dial:
			step = c.dial(step)
		case session.Relay:
			c.greet(step.Greet)
			return true
		case session.End:
			return false
		}
	}
}

// tell runs one call of the session's brain.
func (c *conn) tell(event func(now time.Time) session.Step) session.Step {
	c.mu.Lock()
	defer c.mu.Unlock()
	return event(time.Now())
}

func (c *conn) lookup(s session.Step) session.Step {
	ctx, cancel := context.WithDeadline(c.ctx, s.Deadline)
	defer cancel()
	list, err := lookup(ctx, c.config.Names, s.Address)
	return c.tell(func(now time.Time) session.Step {
		if c.diverted != "" {
			return c.divert(now)
		}
		return c.session.Resolved(now, list, err)
	})
}

func (c *conn) dial(s session.Step) session.Step {
	backend, err := dialOne(c.ctx, &c.config.Settings, s.Address, s.Deadline)
	learned(c.config.Names, s, err)
	return c.tell(func(now time.Time) session.Step {
		switch {
		case c.diverted != "":
			if err == nil {
				reset(backend)
			}
			return c.divert(now)
		case err == nil:
			c.socks[session.Backend] = backend
		}
		return c.session.Dialed(now, err)
	})
}

// divert goes on with another backend, as an order wants. The mutex is held.
func (c *conn) divert(now time.Time) session.Step {
	cause := c.diverted
	c.diverted = ""
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c.session.Diverted(now, cause)
}

// watch looks out for a client that leaves while dials or the queue take long.
// The func it returns ends that, and leaves the client's deadline as it was.
func (c *conn) watch() (stop func()) {
	client := c.socks[session.Client]
	done := make(chan struct{})
	t := time.AfterFunc(watchAfter, func() {
		defer close(done)
		for c.leaves() {
		}
	})
	return func() {
		if t.Stop() {
			return
		}
		client.SetReadDeadline(longAgo)
		<-done
		client.SetReadDeadline(time.Time{})
	}
}

// gone says that the client reset its connection while there was no backend.
func (c *conn) gone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session.Gone(time.Now())
	c.cancel()
}

// ask gives an order from outside.
func (c *conn) ask(cause session.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.released {
		c.obey(c.session.Asked(time.Now(), cause), session.Client)
	}
}

// asked gives an order if it is for this session, and reports whether it was
// taken.
func (c *conn) asked(m *session.Match, cause session.Cause) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.released || !c.session.Matches(now, m) {
		return false
	}
	v := c.session.Asked(now, cause)
	if v == session.Redial {
		c.diverted = cause
		c.cancel()
		return true
	}
	c.obey(v, session.Client)
	return v != session.None
}

// look shows the session, unless it is over.
func (c *conn) look(see func(shown)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.released {
		see(shown{time.Now(), &c.session, c})
	}
}

func (c *conn) link(side session.Side) session.Link { return linkOf(c.socks[side]) }

func (c *conn) owed(side session.Side) int {
	if c.socks[side] == nil {
		return 0
	}
	return unsent(c.socks[side])
}

// close ends both sockets as the session decided, counts the session down, so
// that no limit is ever exceeded by sockets still open, and reports.
func (c *conn) close() {
	c.flush()
	c.mu.Lock()
	c.released = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.closeSocket(session.Client)
	c.closeSocket(session.Backend)
	if c.ended[session.Client] || c.ended[session.Backend] {
		c.frontend.counters.halfClosed.Add(-1)
	}
	r := c.session.Close(time.Now(), c.source(), c.frontend.counters.active.Load())
	c.engine.leave(c)
	c.frontend.leave(c.config, &r, c.session.Admitted())
	c.frontend.report(c.config, r)
}

// source returns our address towards the backend, empty without a connection.
func (c *conn) source() string {
	s := c.socks[session.Backend]
	if s == nil {
		return ""
	}
	return s.LocalAddr().String()
}

// closeSocket closes one side: with FIN if its stream came to a proper end, else
// with RST.
func (c *conn) closeSocket(side session.Side) {
	s := c.socks[side]
	switch {
	case s == nil:
	case c.verb == session.Finish, c.verb == session.Linger && c.ended[side]:
		s.Close()
	default:
		reset(s)
	}
}

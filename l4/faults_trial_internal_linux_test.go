package l4

import (
	"context"
	"iter"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/l4/access"
	"sluice/l4/l4test"
	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"

	"golang.org/x/sys/unix"
)

// trial is an engine of faulty loops with one frontend, and the plays that run
// through it.
type trial struct {
	t        *testing.T
	kernel   *faulty
	driver   *looping
	engine   *Engine
	front    *Frontend
	config   Config
	pool     *pool.Pool
	strategy pool.Strategy
	limit    *Limit
	listener *Listener
	backends []*l4test.Backend // two that play, and perhaps more

	mu       sync.Mutex // guards what follows
	records  int
	recordOf map[string]session.Record // by client
	plays    map[uint32]*play
	faults   []error
}

// shape is how a trial's loops are made.
type shape struct {
	loops  int
	buffer int
	set    session.Settings
	header bool // clients may begin with one
}

// patient are settings under which nothing but the ends ends a session.
func patient() session.Settings {
	return session.Settings{Attempts: 3, ConnectTimeout: 5 * time.Second, DialBudget: 5 * time.Second}
}

// startTrial starts an engine that does not accept yet: that is for the caller to
// ask for.
func startTrial(t *testing.T, k *faulty, s shape) *trial {
	t.Helper()
	driver, err := startLooping(s.loops, loopConfig{calls: k.calls(), buffer: s.buffer, splice: true})
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{t: t, kernel: k, driver: driver, engine: &Engine{"epoll", driver}, recordOf: map[string]session.Record{}, plays: map[uint32]*play{}}
	if tr.strategy, err = balance.ByName("round_robin", ""); err != nil {
		t.Fatal(err)
	}
	tr.backends = []*l4test.Backend{l4test.Serve(t, tr.serve), l4test.Serve(t, tr.serveGreeted)}
	tr.pool = pool.New("p", tr.poolConfig(), pool.Hooks{})
	tr.limit = tr.engine.NewLimit(1000)
	tr.config = Config{
		Name: "f", Pool: tr.pool, Names: resolve.New(nil, nil), Limit: tr.limit, Settings: s.set,
		Record: tr.record, Fault: tr.fault,
	}
	if s.header {
		all := access.NewSet([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
		tr.config.Admission.Headers = session.HeaderRules{Mode: session.AcceptHeaders, From: all, Timeout: time.Minute}
	}
	tr.front = tr.engine.NewFrontend(tr.config)
	if tr.listener, err = tr.engine.Listen(t.Context(), "127.0.0.1:0", 0); err != nil {
		t.Fatal(err)
	}
	tr.listener.Assign(tr.front)
	k.lend(tr.gate().fd, true)
	return tr
}

func (tr *trial) gate() *gate { return tr.listener.acceptor.(*gate) }

func (tr *trial) poolConfig() pool.Config {
	c := pool.Config{Strategy: tr.strategy}
	for i, b := range tr.backends {
		s := pool.Spec{ID: string(rune('A' + i)), Address: b.Addr, Weight: 1}
		if i == 1 {
			s.SendProxy = 2
		}
		c.Backends = append(c.Backends, s)
	}
	return c
}

func (tr *trial) record(r session.Record) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.records++
	tr.recordOf[r.Client.String()] = r
}

// fault takes what the frontend reports: errors of accepting, which were asked
// for.
func (tr *trial) fault(err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.faults = append(tr.faults, err)
}

// until waits until what holds.
func (tr *trial) until(what string, holds func() bool) {
	tr.t.Helper()
	for end := time.Now().Add(l4test.Patience); !holds(); <-time.After(100 * time.Microsecond) {
		if time.Now().After(end) {
			tr.t.Fatalf("not in time: %s; %+v, rows %+v, faults %v", what, tr.front.Status(), tr.sessions(), tr.kernel.faults())
		}
	}
}

func (tr *trial) sessions() []session.Row {
	rows, _ := tr.engine.Sessions(session.Match{}, session.Key{}, 1<<20)
	return rows
}

// alive checks that every loop still takes orders.
func (tr *trial) alive() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tr.driver.onAll(func(int, *loop) {})
	}()
	select {
	case <-done:
	case <-time.After(l4test.Patience):
		tr.t.Fatal("a loop takes no orders any more")
	}
}

// close ends a trial, and checks that nothing of it is left.
func (tr *trial) close() {
	t := tr.t
	t.Helper()
	tr.alive()
	tr.listener.Close()
	tr.kernel.lend(tr.gate().fd, false)
	tr.front.Shutdown(canceledNow())
	st := tr.front.Status()
	if st.Active != 0 || st.HalfClosed != 0 || tr.limit.Active() != 0 {
		t.Errorf("after the last session: active %d, half-closed %d, process %d; want 0", st.Active, st.HalfClosed, tr.limit.Active())
	}
	if int64(tr.records) != st.Total {
		t.Errorf("%d records of %d sessions", tr.records, st.Total)
	}
	for _, b := range tr.pool.Status().Backends {
		if b.Active != 0 {
			t.Errorf("after the last session: backend %s has %d active", b.ID, b.Active)
		}
	}
	for i, l := range tr.driver.loops {
		if n := l.load.Load(); n != 0 {
			t.Errorf("loop %d counts %d sessions", i, n)
		}
	}
	tr.engine.Close()
	for i, l := range tr.driver.loops {
		if n := l.timers.Len(); n != 0 {
			t.Errorf("loop %d left %d timers", i, n)
		}
	}
	tr.pool.Close()
	tr.config.Names.Close()
	tr.kernel.over()
	for _, b := range tr.backends[:2] {
		tr.until("the backends saw how it ended", func() bool { return b.Active() == 0 })
		b.Stop()
	}
}

// tight makes the send queue of a socket as small as can be.
func tight(c syscall.Conn) {
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 1) })
	}
}

// crowd connects n clients that do nothing, and returns when all have a backend.
// The func that it returns has them leave.
func (tr *trial) crowd(n int) (leave func()) {
	var clients []net.Conn
	for range n {
		c, err := net.Dial("tcp", tr.listener.Addr())
		if err != nil {
			tr.t.Fatal(err)
		}
		clients = append(clients, c)
	}
	tr.until("all have a backend", func() bool {
		relaying := 0
		for _, row := range tr.sessions() {
			if row.State == "relaying" {
				relaying++
			}
		}
		return relaying == n
	})
	return func() {
		for _, c := range clients {
			c.Close()
		}
	}
}

// sessionsOf yields the sessions of a loop; on its own thread.
func sessionsOf(l *loop) iter.Seq[*duplex] {
	return func(yield func(*duplex) bool) {
		for i := 0; ; i++ {
			d := l.slots.nth(i)
			if d == nil || d.phase != free && !yield(d) {
				return
			}
		}
	}
}

// occupy keeps a loop from doing anything until free is called.
func occupy(l *loop) (free func()) {
	busy, on := make(chan struct{}), make(chan struct{})
	l.post(func() { close(busy); <-on })
	<-busy
	return func() { close(on) }
}

// canceledNow returns a context that is over.
func canceledNow() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

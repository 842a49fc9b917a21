package l4_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/l4"
	"sluice/l4/l4test"
	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if child := childProcess(); child != nil {
		child()
		return
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // most tests wait most of the time
	goleak.VerifyTestMain(m)
}

// engines are those that every test of behaviour runs over.
var engines = map[bool][]string{false: {"copy"}, true: {"copy", "epoll"}}[runtime.GOOS == "linux"]

// startEngine starts an engine that ends with the test.
func startEngine(t testing.TB, name string) *l4.Engine {
	t.Helper()
	e, err := l4.NewEngine(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// starter starts a rig on the engine of a test.
type starter func(t testing.TB, s setup) *rig

// onEngines runs test over every engine, beside other tests.
func onEngines(t *testing.T, test func(t *testing.T, start starter)) {
	t.Parallel()
	onEnginesAlone(t, func(t *testing.T, start starter) {
		t.Parallel()
		test(t, start)
	})
}

// onEnginesAlone is onEngines for a test that measures the whole process.
func onEnginesAlone(t *testing.T, test func(t *testing.T, start starter)) {
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			test(t, func(t testing.TB, s setup) *rig {
				t.Helper()
				s.engine = engine
				return start(t, s)
			})
		})
	}
}

// engineOf returns the engine of a test inside onEngines.
func engineOf(t *testing.T) string { return strings.Split(t.Name(), "/")[1] }

// rig is a frontend in front of some backends, as a test sees it.
type rig struct {
	t        testing.TB
	addr     string
	engine   *l4.Engine
	ln       *l4.Listener
	front    *l4.Frontend
	pool     *pool.Pool
	limit    *l4.Limit
	config   l4.Config
	refusals chan refusal
	records  chan session.Record
	conns    <-chan *net.TCPConn // of the backend that hands them over
	apply    func([]pool.Spec)   // reloads the pool
}

// setup is what a test asks of a rig; its zero fields are the product's
// defaults.
type setup struct {
	engine      string // see engines
	beside      *rig   // shares its engine
	set         session.Settings
	policy      pool.Policy
	strategy    string
	maxSessions int
	admission   l4.Admission
	limit       int
	specs       []pool.Spec
	names       *resolve.Cache
	listen      string
	record      func(session.Record) // called beside r.records
	drop        bool                 // nothing goes to r.records
	silent      bool                 // nobody takes records
	fault       func(error)          // nil: a fault fails the test
	wrap        func(pool.Picker) pool.Picker
}

// defaults are those of a frontend in the file.
func defaults() session.Settings {
	return session.Settings{
		Attempts: 3, ConnectTimeout: 2 * time.Second, DialBudget: 6 * time.Second,
		HalfCloseTimeout: time.Minute,
		KeepAlive:        session.KeepAlive{Idle: time.Minute, Interval: 10 * time.Second, Count: 6},
	}
}

// specs names the addresses A, B, C, ...
func specs(addrs ...string) []pool.Spec {
	var s []pool.Spec
	for i, a := range addrs {
		s = append(s, pool.Spec{ID: string(rune('A' + i)), Address: a, Weight: 1})
	}
	return s
}

// start starts a frontend over s, and stops it with the test: then nothing of
// it may be left.
func start(t testing.TB, s setup) *rig {
	t.Helper()
	if s.set.Attempts == 0 {
		s.set = defaults()
	}
	strategy, err := balance.ByName(cmpOr(s.strategy, "round_robin"), "")
	if err != nil {
		t.Fatal(err)
	}
	if build := strategy.Build; s.wrap != nil {
		strategy.Build = func(eligible []*pool.Member, previous pool.Picker) pool.Picker {
			return s.wrap(build(eligible, nil))
		}
	}
	if s.names == nil {
		s.names = resolve.New(nil, nil)
	}
	if s.fault == nil {
		s.fault = func(err error) { t.Errorf("fault: %v", err) }
	}
	if s.record == nil {
		s.record = func(session.Record) {}
	}
	var engine *l4.Engine
	if s.beside != nil {
		engine = s.beside.engine
	} else {
		engine = startEngine(t, cmpOr(s.engine, engines[0]))
	}
	r := &rig{t: t, engine: engine, limit: engine.NewLimit(s.limit), records: make(chan session.Record, 1<<14), refusals: make(chan refusal, 1<<14)}
	if s.specs == nil {
		var habit func(c *net.TCPConn)
		habit, r.conns = l4test.Hand(t)
		s.specs = specs(l4test.Serve(t, habit).Addr)
	}
	r.pool = pool.New("p", pool.Config{Strategy: strategy, Policy: s.policy, Backends: s.specs}, pool.Hooks{Evict: func(ev pool.Eviction) {
		cause := []session.Cause{pool.WentDown: session.OnDown, pool.WasRemoved: session.Removed, pool.WasDrained: session.Drained}[ev.Why]
		engine.Order(session.Match{On: ev.Backend, Before: ev.At}, cause)
	}})
	r.apply = func(to []pool.Spec) {
		r.pool.Apply(pool.Config{Strategy: strategy, Policy: s.policy, Backends: to})
	}
	record := func(rec session.Record) {
		s.record(rec)
		if !s.drop {
			r.records <- rec
		}
	}
	if s.silent {
		record = nil
	}
	r.config = l4.Config{
		Name: "f", Pool: r.pool, Names: s.names, Limit: r.limit, Settings: s.set, MaxSessions: s.maxSessions, Admission: s.admission,
		Rejected: r.refuse,
		Record:   record,
		Fault:    s.fault,
	}
	r.front = engine.NewFrontend(r.config)
	ln, err := engine.Listen(t.Context(), cmpOr(s.listen, "127.0.0.1:0"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ln.Assign(r.front)
	go ln.Serve()
	r.ln, r.addr = ln, ln.Addr()
	t.Cleanup(func() {
		ln.Close()
		r.front.Shutdown(canceled())
		s.names.Close()
		r.pool.Close()
		r.quiet()
	})
	return r
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// dial connects a client, which closes with the test.
func (r *rig) dial() *net.TCPConn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(2 * l4test.Patience))
	return c.(*net.TCPConn)
}

// pair returns both ends of a new session: setup.specs was nil.
func (r *rig) pair() (client, backend *net.TCPConn) {
	r.t.Helper()
	before := int64(0)
	if r.pool != nil {
		before = r.pool.Status().Backends[0].Total
	}
	client = r.dial()
	select {
	case backend = <-r.conns:
	case <-time.After(l4test.Patience):
		r.t.Fatalf("the session reached no backend\n%s", stacks())
	}
	backend.SetDeadline(time.Now().Add(2 * l4test.Patience))
	if r.pool != nil {
		eventually(r.t, "the session counts as connected", func() bool { return r.pool.Status().Backends[0].Total > before })
	}
	return client, backend
}

// refusal is a client that was refused.
type refusal struct {
	reason string
	client netip.AddrPort
}

func (r *rig) refuse(reason string, client netip.AddrPort) { r.refusals <- refusal{reason, client} }

// mustRefuse checks the next refusal, and returns who was refused.
func (r *rig) mustRefuse(reason string) netip.AddrPort {
	r.t.Helper()
	select {
	case f := <-r.refusals:
		if f.reason != reason {
			r.t.Errorf("%v was refused because of %s, want %s", f.client, f.reason, reason)
		}
		return f.client
	case <-time.After(l4test.Patience):
		r.t.Fatalf("nobody was refused in time, want %s\n%s", reason, stacks())
		return netip.AddrPort{}
	}
}

// refused connects a client that says something, and returns how it ends. A
// reset can come as early as in the connect.
func (r *rig) refused(hello string) string {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		return ending(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * l4test.Patience))
	if _, err := io.WriteString(c, hello); err != nil {
		return ending(err) // the error is told once
	}
	_, err = io.ReadAll(c)
	return ending(err)
}

// sessions lists those from the rig's listener.
func (r *rig) sessions() []session.Row {
	rows, _ := r.engine.Sessions(session.Match{}, session.Key{}, 1<<20)
	return slices.DeleteFunc(rows, func(row session.Row) bool { return row.Listen != r.addr })
}

// kill ends the session with that id, and reports whether there is one.
func (r *rig) kill(id string) bool {
	k, ok := session.ParseKey(id)
	return ok && r.engine.End(session.Match{Key: k}, session.Killed) > 0
}

// record waits for the next finished session.
func (r *rig) record() session.Record {
	r.t.Helper()
	select {
	case rec := <-r.records:
		return rec
	case <-time.After(2 * l4test.Patience):
		r.t.Fatalf("no session finished in time\n%s", stacks())
		return session.Record{}
	}
}

// quiet checks that every count is back at zero.
func (r *rig) quiet() {
	st := r.front.Status()
	if st.Active != 0 || st.HalfClosed != 0 || r.limit.Active() != 0 {
		r.t.Errorf("after the last session: active %d, half-closed %d, process %d; want 0", st.Active, st.HalfClosed, r.limit.Active())
	}
	if r.config.Admission.PerClient.Rate == 0 && st.Clients != 0 {
		r.t.Errorf("after the last session: %d clients are counted, want 0", st.Clients)
	}
	for _, b := range r.pool.Status().Backends {
		if b.Active != 0 {
			r.t.Errorf("after the last session: backend %s has %d active", b.ID, b.Active)
		}
	}
}

// eventually waits until what holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(l4test.Patience); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s\n%s", what, stacks())
		}
		runtime.Gosched()
		<-time.After(time.Millisecond)
	}
}

// stacks returns the goroutines that are in the data plane.
func stacks() string {
	buf := make([]byte, 1<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return !strings.Contains(s, "sluice/l4.") }), "\n\n")
}

// line reads one line, byte by byte, so that nothing behind it is taken.
func line(t testing.TB, c io.Reader) string {
	t.Helper()
	var b strings.Builder
	one := make([]byte, 1)
	for {
		if _, err := io.ReadFull(c, one); err != nil {
			t.Fatalf("read a line: got %q, then %v", b.String(), err)
		}
		if one[0] == '\n' {
			return b.String()
		}
		b.WriteByte(one[0])
	}
}

func ask(t testing.TB, c net.Conn, question string) string {
	t.Helper()
	if _, err := fmt.Fprintln(c, question); err != nil {
		t.Fatal(err)
	}
	return line(t, c)
}

// canceled returns a context that is over.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

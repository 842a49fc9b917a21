package l4_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a frontend in front of some backends, as a test sees it.
type rig struct {
	t       testing.TB
	addr    string
	front   *l4.Frontend
	pool    *pool.Pool
	limit   *l4.Limit
	records chan session.Record
}

// setup is what a test asks of a rig; its zero fields are the product's
// defaults.
type setup struct {
	set         session.Settings
	policy      pool.Policy
	strategy    string
	maxSessions int
	limit       int
	specs       []pool.Spec
	names       *resolve.Cache
	listen      string
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
	if s.names == nil {
		s.names = resolve.New(nil, nil)
	}
	r := &rig{t: t, limit: l4.NewLimit(s.limit), records: make(chan session.Record, 1<<14)}
	r.pool = pool.New("p", pool.Config{Strategy: strategy, Policy: s.policy, Backends: s.specs}, pool.Hooks{})
	r.front = l4.NewFrontend(l4.Config{
		Name: "f", Pool: r.pool, Names: s.names, Limit: r.limit, Settings: s.set, MaxSessions: s.maxSessions,
		Record: func(rec session.Record) { r.records <- rec },
		Fault:  func(err error) { t.Errorf("fault: %v", err) },
	})
	ln, err := l4.Listen(cmpOr(s.listen, "127.0.0.1:0"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ln.Assign(r.front)
	go ln.Serve()
	r.addr = ln.Addr()
	t.Cleanup(func() {
		ln.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.front.Shutdown(ctx)
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

func stacks() string {
	buf := make([]byte, 1<<18)
	return string(buf[:runtime.Stack(buf, true)])
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

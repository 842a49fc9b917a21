package l4_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/l4"
	"sluice/l4/l4test"
	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"
)

// B034: a client that is gone before it is accepted costs no dial and counts
// against nobody.
func TestClientGoneBeforeAcceptCostsNoDial(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		b := l4test.Serve(t, l4test.Sink)
		r := start(t, setup{specs: specs(b.Addr)})
		ln, err := r.engine.Listen(t.Context(), "127.0.0.1:0", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		const clients = 100
		for range clients { // nobody accepts yet
			c, err := net.Dial("tcp", ln.Addr())
			if err != nil {
				t.Fatal(err)
			}
			l4test.Abort(c.(*net.TCPConn))
		}
		ln.Assign(r.front)
		go ln.Serve()
		for range clients {
			r.mustEnd(session.ClientLeft, "CC", 0, 0)
		}
		if st := r.pool.Status().Backends[0]; st.DialFailures != 0 || b.Total() != 0 {
			t.Errorf("%d dials failed, %d reached the backend; want none", st.DialFailures, b.Total())
		}
	})
}

// Over a limit a client is reset at once, also when it has sent bytes, and a
// place that is free again can be taken.
func TestLimits(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for reason, s := range map[string]setup{"frontend_limit": {maxSessions: 5}, "process_limit": {limit: 5}} {
			s.specs = specs(l4test.Serve(t, l4test.Tag("A")).Addr)
			r := start(t, s)
			var held []*net.TCPConn
			for range 5 {
				c := r.dial()
				line(t, c)
				held = append(held, c)
			}
			for range 3 {
				began := time.Now()
				if how := r.refused("hello"); how != "reset" || time.Since(began) > 2*time.Second {
					t.Errorf("%s: the client saw %v after %v, want a reset", reason, how, time.Since(began))
				}
			}
			st := r.front.Status()
			if st.Active != 5 || st.Rejected != 3 || st.RejectedBy[reason] != 3 || st.Total != 5 {
				t.Errorf("%s: status %+v", reason, st)
			}
			held[0].Close()
			r.record()
			if got := ask(t, r.dial(), "again"); got != "A" {
				t.Errorf("%s: got %q", reason, got)
			}
		}
	})
}

// A burst never gets more than the limit through to the backend.
func TestBurstNeverExceedsTheLimit(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		const limit, clients = 8, 200
		var now, most atomic.Int64
		b := l4test.Serve(t, func(c *net.TCPConn) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			io.WriteString(c, "A\n")
			io.ReadAll(c) // until the relay lets go
			now.Add(-1)
		})
		r := start(t, setup{limit: limit, specs: specs(b.Addr)})
		var served atomic.Int64
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				c, err := net.Dial("tcp", r.addr)
				if err != nil {
					if ending(err) != "reset" {
						t.Error(err)
					}
					return
				}
				defer c.Close()
				if n, _ := io.ReadFull(c, make([]byte, 2)); n == 2 {
					served.Add(1)
				}
			})
		}
		wg.Wait()
		// The backend hears of an end a moment after the place is free.
		if n := most.Load(); n > limit+2 || served.Load() < limit {
			t.Errorf("the backend had %d sessions at once of %d; %d were served", n, limit, served.Load())
		}
	})
}

// A listen address changes its frontend under load: no client is lost, and
// sessions of the old one go on.
func TestFrontendSwapUnderLoad(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		a := start(t, setup{specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr)})
		b := start(t, setup{specs: specs(l4test.Serve(t, l4test.Tag("B")).Addr), beside: a})
		ln, err := a.engine.Listen(t.Context(), "127.0.0.1:0", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		ln.Assign(a.front)
		go ln.Serve()
		a.addr = ln.Addr()
		old := a.dial()
		line(t, old)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var tags sync.Map
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					c, err := net.Dial("tcp", ln.Addr())
					if err != nil {
						t.Error(err)
						return
					}
					tag := make([]byte, 2)
					if _, err := io.ReadFull(c, tag); err != nil {
						t.Errorf("a client was lost: %v", err)
					}
					tags.Store(string(tag), true)
					c.Close()
				}
			})
		}
		seen := func(tag string) {
			eventually(t, "clients get to "+tag, func() bool { _, ok := tags.Load(tag + "\n"); return ok })
		}
		seen("A")
		for range 20 {
			ln.Assign(b.front)
			ln.Assign(a.front)
		}
		ln.Assign(b.front)
		seen("B")
		close(stop)
		wg.Wait()
		if got := ask(t, old, "still there?"); got != "still there?" {
			t.Errorf("the old session answered %q", got)
		}
	})
}

// B134: a shutdown among arriving clients. Each client is served or refused,
// every session is reported, and none is left, all before Shutdown returns.
func TestShutdownAmongArrivingClients(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		rounds := 200
		if testing.Short() {
			rounds = 30
		}
		b := l4test.Serve(t, l4test.Tag("A"))
		strategy := start(t, setup{specs: specs(b.Addr)}) // lends its pool
		for range rounds {
			var records atomic.Int64
			limit := strategy.engine.NewLimit(1000)
			f := strategy.engine.NewFrontend(l4.Config{
				Name: "f", Pool: strategy.pool, Names: resolve.New(nil, nil), Limit: limit, Settings: defaults(),
				Record: func(session.Record) { records.Add(1) },
			})
			ln, err := strategy.engine.Listen(t.Context(), "127.0.0.1:0", 0)
			if err != nil {
				t.Fatal(err)
			}
			ln.Assign(f)
			go ln.Serve()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if c, err := net.Dial("tcp", ln.Addr()); err == nil {
						c.SetDeadline(time.Now().Add(l4test.Patience))
						io.ReadAll(c)
						c.Close()
					}
				})
			}
			eventually(t, "the first session", func() bool { return f.Status().Total > 0 })
			f.Shutdown(canceled())
			if st := f.Status(); st.Active != 0 || limit.Active() != 0 || records.Load() != st.Total {
				t.Fatalf("after Shutdown: %d active, %d of the process, %d records of %d sessions", st.Active, limit.Active(), records.Load(), st.Total)
			}
			ln.Close()
			wg.Wait()
		}
	})
}

// Shutdown waits for sessions that end in time, and cuts none.
func TestShutdownWaits(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		set := defaults()
		set.HalfCloseTimeout = time.Second // of clients that were served and gave up
		r := start(t, setup{set: set})
		e := r.ends()
		e[session.Client].read()
		e[session.Backend].read()
		cut := make(chan int)
		go func() { cut <- r.front.Shutdown(t.Context()) }()
		eventually(t, "new clients are refused", func() bool {
			c, err := net.Dial("tcp", r.addr)
			if err == nil {
				defer c.Close()
				c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // it may be in time to be served
				_, err = io.ReadAll(c)
			}
			return ending(err) == "reset"
		})
		e[session.Backend].send(0, 1000)
		e[session.Client].wait(1000)
		e[session.Client].CloseWrite()
		e[session.Backend].mustSee(0, "end")
		e[session.Backend].CloseWrite()
		if n := <-cut; n != 0 {
			t.Errorf("cut %d sessions, want 0", n)
		}
		for rec := r.record(); rec.ToClient != 1000; rec = r.record() {
		}
	})
}

// B031: a defect in one session ends that session alone, and is reported.
func TestPanicInOneSession(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, where := range []string{"pick", "record"} {
			t.Run(where, func(t *testing.T) {
				var armed atomic.Bool
				var faults atomic.Int64
				trip := func(at string) {
					if at == where && armed.CompareAndSwap(true, false) {
						panic("planted")
					}
				}
				r := start(t, setup{
					wrap:   func(p pool.Picker) pool.Picker { return tripwire{p, func() { trip("pick") }} },
					record: func(session.Record) { trip("record") },
					fault: func(err error) {
						if !strings.Contains(err.Error(), "planted") {
							t.Errorf("fault: %v", err)
						}
						faults.Add(1)
					},
					specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr),
				})
				old := r.dial()
				line(t, old)
				armed.Store(true)
				if where == "record" {
					c := r.dial()
					line(t, c)
					c.Close()
				} else if how := r.refused(""); how != "reset" {
					t.Errorf("the client saw %v, want a reset", how)
				}
				eventually(t, "the defect is reported", func() bool { return faults.Load() == 1 })
				if where == "pick" {
					r.mustEnd(session.LocalFault, "RC", 0, 0)
				}
				if got := ask(t, old, "alive?"); got != "alive?" {
					t.Errorf("another session answered %q", got)
				}
				if got := line(t, r.dial()); got != "A" {
					t.Errorf("a new session got %q", got)
				}
			})
		}
	})
}

// tripwire is a picker that does something else first.
type tripwire struct {
	pool.Picker
	trip func()
}

func (w tripwire) Pick(q pool.Query) *pool.Member {
	w.trip()
	return w.Picker.Pick(q)
}

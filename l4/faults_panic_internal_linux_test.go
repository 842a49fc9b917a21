package l4

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"
)

// panicAt plants a panic at the nth call of a kind.
func panicAt(call string, nth int) func(string, int, *rand.Rand) fate {
	return func(at string, n int, _ *rand.Rand) fate {
		if at == call && n == nth {
			panic("planted")
		}
		return fate{}
	}
}

// A defect in the middle of a relay ends that session alone, wherever it is.
func TestPanicInARelay(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"recv", "send", "shutdown", "socket", "epoll_add"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			k := newFaulty(t, 0, nil)
			tr := startTrial(t, k, shape{loops: 1, buffer: 128, set: patient()})
			go tr.listener.Serve()
			leave := tr.crowd(2)
			k.arm(panicAt(call, 2))
			whole := 0
			for id := range uint32(3) {
				p := &play{id: id, roles: [2]role{{size: 500, piece: 100, how: "end"}, {size: 300, piece: 100, how: "end"}}}
				tr.run(p)
				if p.saw[session.Client] == (sight{300, "end"}) {
					whole++
				}
			}
			tr.until("only the crowd is left", func() bool { return tr.front.Status().Active <= 2 })
			if n := tr.front.Status().Active; n != 2 || whole != 2 {
				t.Errorf("%d sessions of the crowd are left, want 2; %d later ones were whole, want 2", n, whole)
			}
			tr.mu.Lock()
			if len(tr.faults) != 1 || !strings.Contains(tr.faults[0].Error(), "planted") || !strings.Contains(tr.faults[0].Error(), "_linux.go") {
				t.Errorf("reported: %v; want one panic and where it was", tr.faults)
			}
			tr.mu.Unlock()
			leave()
			tr.close()
		})
	}
}

// A defect in one of the sessions that an order is for keeps it from no other.
func TestOrderReachesThoseBehindAPanic(t *testing.T) {
	t.Parallel()
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 128, set: patient()})
	full := "unix:" + l4test.HoleUnix(t, t.TempDir()+"/full")
	tr.pool.Apply(pool.Config{Strategy: tr.strategy, Backends: []pool.Spec{{ID: "full", Address: full, Weight: 1}}})
	go tr.listener.Serve()
	for range 3 {
		c, err := net.Dial("tcp", tr.listener.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	tr.until("all dial", func() bool { return len(tr.sessions()) == 3 })
	k.arm(panicAt("linger", 1))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	tr.front.Shutdown(over)
	if took := time.Since(began); took > patient().ConnectTimeout/2 {
		t.Errorf("the shutdown took %v: somebody was not told", took)
	}
	tr.mu.Lock()
	for client, r := range tr.recordOf {
		if r.Cause != session.Shutdown {
			t.Errorf("%s: %s", client, r.Cause)
		}
	}
	tr.mu.Unlock()
	tr.close()
}

// A defect in one of the sessions that wait for a name keeps it from no other.
func TestNameReachesThoseBehindAPanic(t *testing.T) {
	t.Parallel()
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 128, set: patient()})
	answer := make(chan struct{})
	tr.config.Names = resolve.New(func(context.Context, string) ([]netip.Addr, error) {
		<-answer
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}, nil)
	defer tr.config.Names.Close()
	tr.front.Use(tr.config)
	_, port, _ := net.SplitHostPort(tr.backends[0].Addr)
	tr.pool.Apply(pool.Config{Strategy: tr.strategy, Backends: []pool.Spec{{ID: "A", Address: "name.test:" + port, Weight: 1}}})
	go tr.listener.Serve()
	done := make(chan *play)
	for id := range uint32(3) {
		go func() {
			p := &play{id: id, roles: [2]role{{size: 10, piece: 10, how: "end"}, {size: 10, piece: 10, how: "end"}}}
			tr.run(p)
			done <- p
		}()
	}
	tr.until("all wait", func() bool {
		waiting := 0
		tr.driver.onAll(func(_ int, l *loop) { waiting = len(l.waiting["name.test:"+port]) })
		return waiting == 3
	})
	k.arm(panicAt("socket", 1))
	close(answer)
	whole := 0
	for range 3 {
		if p := <-done; p.saw[session.Client] == (sight{10, "end"}) {
			whole++
		}
	}
	if whole != 2 {
		t.Errorf("%d of the sessions were whole, want 2", whole)
	}
	tr.close()
}

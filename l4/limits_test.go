package l4_test

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"
)

// B096: every strategy serves everybody, one after the other and all at once,
// with backends of any number, with one of them dead, and with limits and a queue
// for those who do not fit.
func TestEveryStrategyServesEverybody(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, strategy := range balance.Names() {
			for _, n := range []int{1, 3} {
				for _, dead := range []bool{false, true} {
					for _, limit := range []int{0, 2} {
						if dead && n == 1 {
							continue
						}
						s := setup{strategy: strategy, drop: true, set: patient(), policy: pool.Policy{
							MaxFailures: 3, RetryAfter: time.Hour, QueueMax: 100 * limit, QueueFor: time.Hour,
						}, record: func(rec session.Record) {
							if !rec.Cause.Normal() && rec.Cause != session.Shutdown {
								t.Errorf("%s after %+v", rec.Cause, rec.Attempts)
							}
						}}
						for i := range n {
							addr := l4test.Serve(t, l4test.Tag("A")).Addr
							if dead && i == 0 {
								addr = l4test.Refuse(t)
							}
							s.specs = append(s.specs, pool.Spec{ID: fmt.Sprint(i), Address: addr, Weight: 1, MaxSessions: limit})
						}
						serveEverybody(t, start(t, s))
					}
				}
			}
		}
	})
}

// patient are settings under which no dial fails for want of a processor.
func patient() session.Settings {
	s := defaults()
	s.ConnectTimeout, s.DialBudget = l4test.Patience, 3*l4test.Patience
	return s
}

func serveEverybody(t *testing.T, r *rig) {
	t.Helper()
	client := func() {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(2 * l4test.Patience))
		got := make([]byte, 2)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "A\n" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	for range 100 {
		client()
	}
	var all sync.WaitGroup
	for range 100 {
		all.Go(client)
	}
	all.Wait()
}

// B097: a backend that was removed and keeps its sessions gets no new one, and is
// shown until the last of them has ended.
func TestRemovedBackendGetsNobody(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
		r := start(t, setup{specs: specs(a.Addr, b.Addr), drop: true})
		kept := r.dial()
		if got := line(t, kept); got != "A" {
			t.Fatalf("got %q", got)
		}
		if err := r.pool.Remove("A"); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			c := r.dial()
			if got := line(t, c); got != "B" {
				t.Fatalf("a new client got %q", got)
			}
			c.Close()
		}
		if n := a.Total(); n != 1 {
			t.Errorf("the removed backend has had %d sessions, want 1", n)
		}
		if bs := r.pool.Status().Backends; len(bs) != 2 || bs[1].State != "removing" || bs[1].Active != 1 {
			t.Errorf("while it has a session: %+v", bs)
		}
		if got := ask(t, kept, "hello"); got != "hello" {
			t.Errorf("its session got %q", got)
		}
		kept.Close()
		eventually(t, "it is gone", func() bool { return len(r.pool.Status().Backends) == 1 })
	})
}

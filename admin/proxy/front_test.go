package proxy

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"

	"go.uber.org/goleak"
)

// What a request goes through, bytes and endings, is tested through the server
// of package admin. Here is what that cannot see.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a front in a server of its own, over one pool.
type rig struct {
	*Front
	t       *testing.T
	pool    *pool.Pool
	url     string
	dials   atomic.Int64
	records chan session.Record
}

func newRig(t *testing.T, f http.HandlerFunc) *rig {
	t.Helper()
	backend := httptest.NewServer(f)
	strategy, err := balance.ByName("round_robin", "")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, records: make(chan session.Record, 64)}
	r.pool = pool.New("web", pool.Config{
		Strategy: strategy,
		Backends: []pool.Spec{{ID: "a", Address: backend.Listener.Addr().String(), Weight: 1}},
	}, pool.Hooks{})
	r.Front = New(Options{
		Dial:     r.dial,
		Settings: session.Settings{Attempts: 3, ConnectTimeout: 2 * time.Second, DialBudget: 6 * time.Second},
		Record:   func(rec session.Record) { r.records <- rec },
		Left:     func(net.Conn) {},
		ErrorLog: log.New(io.Discard, "", 0),
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.Forward(w, q, Way{Pool: r.pool, Path: q.URL.EscapedPath(), ResponseTimeout: l4test.Patience})
	}))
	r.url = server.URL
	t.Cleanup(func() {
		r.Close()
		server.Close()
		backend.Close()
		r.pool.Close()
		if s := r.Status(nil, ""); s.Active != 0 {
			t.Errorf("got %d requests at the end; want 0", s.Active)
		}
	})
	return r
}

func (r *rig) dial(ctx context.Context, address string) (net.Conn, error) {
	r.dials.Add(1)
	if at, ok := ctx.Deadline(); !ok || time.Until(at) > 3*time.Second {
		r.t.Errorf("a dial has deadline %v, %t; want one within the connect timeout", at, ok)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// get returns the status and the body of a response; the status is 0 if it broke
// off.
func (r *rig) get() (status int, text string) {
	r.t.Helper()
	res, err := http.Get(r.url)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(body)
}

func TestDrainTurnsNewRequestsAwayAndWaits(t *testing.T) {
	here, goOn := make(chan bool), make(chan bool)
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		here <- true
		<-goOn
		io.WriteString(w, "whole")
	})
	var all sync.WaitGroup
	all.Go(func() {
		if status, text := r.get(); status != 200 || text != "whole" {
			t.Errorf("the request under way got %d %q; want the whole response", status, text)
		}
	})
	<-here
	r.gate.shut() // as Drain begins
	done := make(chan int)
	go func() { done <- r.Drain(t.Context()) }()
	res, err := http.Get(r.url)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || !res.Close {
		t.Errorf("a new request got %d, close %t; want 503 and the end of its connection", res.StatusCode, res.Close)
	}
	if s := r.Status(nil, "web"); s.Active != 1 || s.Rejected != 1 || s.Total != 1 {
		t.Errorf("got %+v; want 1 active, 1 rejected, 1 in total", s)
	}
	close(goOn)
	if n := <-done; n != 0 {
		t.Errorf("Drain cut %d; want 0", n)
	}
	all.Wait()
}

func TestDrainCutsWhenItsTimeIsOver(t *testing.T) {
	here := make(chan bool)
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) {
		here <- true
		<-q.Context().Done()
	})
	var all sync.WaitGroup
	all.Go(func() {
		if status, text := r.get(); status != http.StatusServiceUnavailable {
			t.Errorf("the request that was cut got %d %q; want 503", status, text)
		}
	})
	<-here
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n := r.Drain(ctx); n != 1 {
		t.Errorf("Drain cut %d; want 1", n)
	}
	all.Wait()
	if rec := <-r.records; rec.Cause != session.Shutdown {
		t.Errorf("got cause %s; want shutdown", rec.Cause)
	}
	if n := r.Drain(ctx); n != 0 {
		t.Errorf("a second Drain cut %d; want 0", n)
	}
}

func TestPruneForgetsWhatIsGone(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") })
	kept := func() int {
		r.lines.mu.Lock()
		defer r.lines.mu.Unlock()
		return len(r.lines.kept)
	}
	for range 3 {
		if status, text := r.get(); status != 200 {
			t.Fatalf("got %d %q; want 200", status, text)
		}
		r.Prune([]*pool.Pool{r.pool})
	}
	if n := r.dials.Load(); n != 1 || kept() != 1 {
		t.Errorf("got %d dials and connections of %d backends kept; want 1 and 1", n, kept())
	}
	if err := r.pool.Remove("a"); err != nil {
		t.Fatal(err)
	}
	r.Prune([]*pool.Pool{r.pool})
	if n := kept(); n != 0 {
		t.Errorf("connections of %d removed backends are kept; want none", n)
	}
}

func TestNobodyIsInsideAShutGate(t *testing.T) {
	g := newGate()
	var all sync.WaitGroup
	var inside atomic.Int64
	for range 8 {
		all.Go(func() {
			for g.enter() {
				inside.Add(1)
				inside.Add(-1)
				g.leave()
			}
		})
	}
	<-g.shut()
	if n := inside.Load(); n != 0 || g.count() != 0 {
		t.Errorf("got %d and %d inside; want 0", n, g.count())
	}
	if g.enter() {
		t.Error("a shut gate let somebody in")
	}
	all.Wait()
}

func TestPatience(t *testing.T) {
	over := make(chan bool, 1)
	p := newPatience(time.Millisecond, func() { over <- true })
	p.run()
	select {
	case <-over:
	case <-time.After(l4test.Patience):
		t.Fatal("patience did not end")
	}
	p.stop()
	p.run() // after the end it does nothing
	endless := newPatience(0, func() { t.Error("patience without a limit ended") })
	endless.run()
	endless.stop()
}

func TestTrailersThatForgeAreDropped(t *testing.T) {
	for key, want := range map[string]bool{
		"X-Sum": true, "Grpc-Status": true, "X-Forwarded-For": false, "Forwarded": false, "X-Real-Ip": false, "Authorization": false,
	} {
		if got := trailer(http.Header{key: nil}) != nil; got != want {
			t.Errorf("got %t for trailer %s; want %t", got, key, want)
		}
	}
}

func TestTextOf(t *testing.T) {
	for want, a := range map[string]net.Addr{
		"":               nil,
		"unix:/run/s":    &net.UnixAddr{Name: "/run/s", Net: "unix"},
		"127.0.0.1:8404": &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8404},
	} {
		if got := textOf(a); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
}

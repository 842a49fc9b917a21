package l4

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"
)

// script is a listener whose Accept yields one step after the other, and blocks
// then until Close.
type script struct {
	steps  []func() (net.Conn, error)
	closed chan struct{}
	once   sync.Once
}

func newScript(steps ...func() (net.Conn, error)) *script {
	return &script{steps: steps, closed: make(chan struct{})}
}

func (s *script) Accept() (net.Conn, error) {
	if len(s.steps) == 0 {
		<-s.closed
		return nil, net.ErrClosed
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	return step()
}

func (s *script) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *script) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9} }

func failing(err error) func() (net.Conn, error) {
	return func() (net.Conn, error) { return nil, &net.OpError{Op: "accept", Net: "tcp", Err: err} }
}

// nobody is a frontend with no backend, and the faults it reports.
func nobody(t *testing.T) (e *Engine, f *Frontend, faults *[]time.Time) {
	strategy, err := balance.ByName("round_robin", "")
	if err != nil {
		t.Fatal(err)
	}
	faults = new([]time.Time)
	engine, err := NewEngine("copy", 0)
	if err != nil {
		t.Fatal(err)
	}
	return engine, engine.NewFrontend(Config{
		Name: "f", Pool: pool.New("p", pool.Config{Strategy: strategy}, pool.Hooks{}), Names: resolve.New(nil, nil),
		Settings: session.Settings{Attempts: 1, ConnectTimeout: time.Second, DialBudget: time.Second},
		Fault:    func(error) { *faults = append(*faults, time.Now()) },
	}), faults
}

// B031, B032: no error ends the loop, each backs off longer, a client that gets
// through ends the backoff, and Close wakes a loop that waits.
func TestAcceptErrorsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, faults := nobody(t)
		var steps []func() (net.Conn, error)
		for range 10 {
			steps = append(steps, failing(syscall.EMFILE))
		}
		ln, _ := e.listener(newScript(append(steps, failing(syscall.ECONNABORTED), failing(net.ErrClosed), failing(errors.New("odd")))...), &Listener{})
		ln.Assign(f)
		began := time.Now()
		go ln.Serve()
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		var at []int64
		for _, when := range *faults {
			at = append(at, when.Sub(began).Milliseconds())
		}
		want := []int64{0, 5, 15, 35, 75, 155, 315, 635, 1275, 2275, 3275}
		if len(at) != len(want) {
			t.Fatalf("faults at %v ms, want %v", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Fatalf("faults at %v ms, want %v", at, want)
			}
		}
		if n := f.Status().AcceptErrors; n != int64(len(want)) {
			t.Errorf("%d accept errors are counted, want %d", n, len(want))
		}
		before := time.Now()
		ln.Close()
		if took := time.Since(before); took != 0 {
			t.Errorf("Close waited %v for the backoff", took)
		}
	})
}

// Exactly one client behind the errors is admitted, and none is made up.
func TestClientBehindAcceptErrorsIsServed(t *testing.T) {
	e, f, _ := nobody(t)
	real, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	client, err := net.Dial("tcp", real.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ln, _ := e.listener(newScript(failing(syscall.EMFILE), failing(syscall.ECONNABORTED), real.Accept), &Listener{})
	ln.Assign(f)
	go ln.Serve()
	client.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a client of a pool without backends saw %v, want a reset", err)
	}
	ln.Close()
	f.Shutdown(t.Context())
	if st := f.Status(); st.Total != 1 || st.AcceptErrors != 2 {
		t.Errorf("total %d, accept errors %d; want 1 and 2", st.Total, st.AcceptErrors)
	}
}

func TestCloseBeforeServe(t *testing.T) {
	e, f, _ := nobody(t)
	ln, err := e.Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	ln.Assign(f)
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if err := ln.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	ln.Serve() // returns at once
	if n := f.Status().AcceptErrors; n != 0 {
		t.Errorf("%d accept errors", n)
	}
}

// The limit of the process is exact however many come at once.
func TestLimitIsExact(t *testing.T) {
	const max, clients, turns = 7, 16, 2000
	l := &Limit{}
	l.Set(max)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range turns {
				entered := l.enter()
				if n := l.Active(); n > max || n < 0 {
					t.Errorf("%d are active, of %d", n, max)
				}
				if entered {
					l.leave()
				}
			}
		})
	}
	wg.Wait()
	if n := l.Active(); n != 0 {
		t.Errorf("%d are active in the end", n)
	}
	for range max {
		if !l.enter() {
			t.Fatal("a free place was refused")
		}
	}
	if l.enter() {
		t.Error("one too many was let in")
	}
}

package health_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/pool"
	"sluice/pool/balance"
	"sluice/pool/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errProbe = errors.New("connection refused")

var policy = health.Policy{
	Interval:     10 * time.Second,
	DownInterval: 2 * time.Second,
	Timeout:      time.Second,
	Rise:         2,
	Fall:         3,
}

// fixture is a monitor that runs in a bubble, with answers that the test sets.
type fixture struct {
	*health.Monitor
	t     *testing.T
	pool  *pool.Pool
	start time.Time
	stop  context.CancelFunc
	done  chan struct{}

	mu      sync.Mutex // guards the rest
	answers map[string]func(context.Context) error
	probes  map[string][]time.Duration // when, since the start, by address
	atOnce  map[string]int             // probes under way
	events  []event
}

type event struct {
	at                time.Duration
	id, state, reason string
}

// monitored runs a test with a monitor over backends with the given ids, whose
// addresses are the same.
func monitored(t *testing.T, init pool.Init, pol health.Policy, ids []string, run func(f *fixture)) {
	prepared(t, init, pol, ids, func(f *fixture) {
		f.begin()
		run(f)
	})
}

// prepared is monitored for a test that sets answers before it begins.
func prepared(t *testing.T, init pool.Init, pol health.Policy, ids []string, run func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{
			t:       t,
			start:   time.Now(),
			done:    make(chan struct{}),
			answers: map[string]func(context.Context) error{},
			probes:  map[string][]time.Duration{},
			atOnce:  map[string]int{},
		}
		f.pool = pool.New("p", config(t, init, ids), pool.Hooks{
			Changed:   f.changed,
			Suspected: func(b *pool.Backend) { f.Suspect(b) },
			Members:   func() { f.Sync() },
		})
		f.Monitor = health.NewMonitor(f.pool, f.probe, pol, nil)
		run(f)
		f.stop()
		<-f.done
		f.pool.Close()
	})
}

func (f *fixture) begin() {
	var ctx context.Context
	ctx, f.stop = context.WithCancel(f.t.Context())
	go func() {
		defer close(f.done)
		f.Run(ctx)
	}()
}

func config(t *testing.T, init pool.Init, ids []string) pool.Config {
	t.Helper()
	s, err := balance.ByName("round_robin", "")
	if err != nil {
		t.Fatal(err)
	}
	c := pool.Config{Strategy: s, Policy: pool.Policy{Probed: true, Init: init, MaxFailures: 3}}
	for _, id := range ids {
		c.Backends = append(c.Backends, pool.Spec{ID: id, Address: id, Weight: 1})
	}
	return c
}

func (f *fixture) changed(c pool.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, event{time.Since(f.start), c.Backend, c.To, c.Reason})
}

func (f *fixture) probe(ctx context.Context, target health.Target) error {
	address := target.Address
	f.mu.Lock()
	f.probes[address] = append(f.probes[address], time.Since(f.start))
	answer := f.answers[address]
	if f.atOnce[address]++; f.atOnce[address] > 1 {
		f.t.Errorf("%s is probed twice at the same time", address)
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.atOnce[address]--
		f.mu.Unlock()
	}()
	if answer == nil {
		return nil
	}
	return answer(ctx)
}

// answer sets what the probes of a backend return from now on.
func (f *fixture) answer(id string, err error) {
	f.script(id, func(context.Context) error { return err })
}

func (f *fixture) script(id string, answer func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[id] = answer
}

// when returns the times of the probes so far.
func (f *fixture) when(id string) []time.Duration {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.probes[id])
}

// story returns and forgets the events so far.
func (f *fixture) story() (lines []string) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		lines = append(lines, fmt.Sprintf("%s %s: %s", e.id, e.state, e.reason))
	}
	f.events = nil
	return lines
}

// last returns the newest event of a backend.
func (f *fixture) last(id string) (e event) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e = range slices.Backward(f.events) {
		if e.id == id {
			return e
		}
	}
	return event{}
}

func (f *fixture) backend(id string) *pool.Backend {
	for _, b := range f.pool.Probed() {
		if b.ID() == id {
			return b
		}
	}
	f.t.Fatalf("no backend %s", id)
	return nil
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

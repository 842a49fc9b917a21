package outlier_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/pool"
	"sluice/pool/balance"
	"sluice/pool/outlier"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	interval = 10 * time.Second
	ejectFor = 35 * time.Second // ends within an interval
	ejectMax = 5 * time.Minute
)

func policy() outlier.Policy {
	return outlier.Policy{
		Interval: interval, MinSessions: 20, FailureShare: 50, DialFactor: 5,
		MaxEjected: 30, EjectFor: ejectFor, EjectMax: ejectMax,
	}
}

// rig is a pool with a detector, in a bubble.
type rig struct {
	*pool.Pool
	*outlier.Detector
	t     *testing.T
	began time.Time

	mu     sync.Mutex // guards events
	events []string
}

// detecting runs f with a pool of the backends in ids.
func detecting(t *testing.T, ids string, f func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, began: time.Now()}
		var specs []pool.Spec
		for _, id := range strings.Fields(ids) {
			specs = append(specs, pool.Spec{ID: id, Address: id + ":1", Weight: 1})
		}
		strategy, err := balance.ByName("round_robin", "")
		if err != nil {
			t.Fatal(err)
		}
		r.Pool = pool.New("p", pool.Config{Strategy: strategy, Backends: specs}, pool.Hooks{Changed: r.note})
		r.CountEarly(time.Second)
		r.Detector = outlier.New(r.Pool, policy())
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { r.Run(ctx) })
		synctest.Wait()
		f(r)
		cancel()
		run.Wait()
		r.Close()
	})
}

func (r *rig) note(c pool.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, c.At.Sub(r.began).String()+" "+c.Backend+" "+c.To+": "+c.Reason)
}

// sessions gives every backend n, each with a dial that took so long. Those of the
// backends in bad are reset by it at once, or empty.
func (r *rig) sessions(n int, bad string, reset bool, took map[string]time.Duration) {
	r.t.Helper()
	for range n * r.Eligible() {
		l := new(pool.Lease)
		if err := r.Acquire(l, pool.Query{}); err != nil {
			r.t.Fatal(err)
		}
		id := l.Backend().ID()
		l.Backend().Dialed(took[id])
		l.Connected()
		if strings.Contains(bad, id) {
			l.EndedFirst(reset, true, time.Millisecond)
		}
		l.Release()
	}
}

// pass lets time pass, and what is due at its end happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wants compares all events so far.
func (r *rig) wants(events ...string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if got, want := strings.Join(r.events, "\n"), strings.Join(events, "\n"); got != want {
		r.t.Errorf("got events\n%s\nwant\n%s", got, want)
	}
}

// A backend that resets its sessions is out at the end of the interval, comes
// back, and each time in a row is out for longer, to a bound.
func TestEjectionGrows(t *testing.T) {
	detecting(t, "a b c", func(r *rig) {
		const failed = "20 sessions failed in 10s (20 reset early, 0 empty) where 20 began, usual among the others is 0%"
		r.sessions(20, "b", true, nil)
		pass(interval - 1)
		r.wants()
		pass(1)
		r.wants("10s b down: " + failed + "; ejected for 35s")
		r.sessions(20, "", true, nil)
		pass(ejectFor)
		r.wants("10s b down: "+failed+"; ejected for 35s", "45s b up: its ejection is over")

		// It came back within an interval, which is none to judge it by.
		r.sessions(20, "b", true, nil)
		pass(interval / 2)
		r.wants("10s b down: "+failed+"; ejected for 35s", "45s b up: its ejection is over")
		r.sessions(20, "b", true, nil)
		pass(interval)
		r.wants("10s b down: "+failed+"; ejected for 35s", "45s b up: its ejection is over",
			"1m0s b down: "+failed+"; ejected for 1m10s, since it is the 2nd time in a row")
	})
}

func TestEachSign(t *testing.T) {
	quick := map[string]time.Duration{"a": time.Millisecond, "b": time.Millisecond, "c": time.Millisecond}
	slow := map[string]time.Duration{"a": time.Millisecond, "b": time.Millisecond, "c": time.Second}
	for what, c := range map[string]struct {
		bad    string
		reset  bool
		took   map[string]time.Duration
		reason string
	}{
		"resets": {"c", true, quick, "(20 reset early, 0 empty)"},
		"empty":  {"c", false, quick, "(0 reset early, 20 empty)"},
		"slow":   {"", false, slow, "its 20 dials in 10s took 1s on average, usual among the others is 1ms"},
		"all":    {"abc", true, quick, ""},
		"none":   {"", true, quick, ""},
	} {
		t.Run(what, func(t *testing.T) {
			detecting(t, "a b c", func(r *rig) {
				r.sessions(20, c.bad, c.reset, c.took)
				pass(interval)
				synctest.Wait()
				got := strings.Join(r.events, "\n")
				if c.reason == "" && got != "" || !strings.Contains(got, c.reason) || strings.Count(got, "\n") > 0 {
					t.Errorf("got events %q, want %q for c alone", got, c.reason)
				}
			})
		})
	}
}

// Each interval is judged by itself: what was before it does not count.
func TestIntervalsAreJudgedAlone(t *testing.T) {
	slow := map[string]time.Duration{"a": time.Second, "b": time.Millisecond}
	for _, reset := range []bool{true, false} {
		detecting(t, "a b", func(r *rig) {
			for range 10 {
				r.sessions(19, "a", reset, slow)
				pass(interval)
			}
			r.sessions(20, "", reset, nil)
			pass(interval)
			r.wants()
			r.sessions(20, "a", reset, nil)
			pass(interval)
			if len(r.events) != 1 {
				t.Errorf("got %q, want that a is ejected although it was good before", r.events)
			}
		})
	}
}

// What is new, or was out, is judged once it was in use for a whole interval.
func TestNewcomersHaveAnInterval(t *testing.T) {
	detecting(t, "a b", func(r *rig) {
		pass(interval / 2)
		if err := r.Add(pool.Spec{ID: "c", Address: "c:1", Weight: 1}); err != nil {
			t.Fatal(err)
		}
		r.sessions(20, "c", true, nil)
		pass(interval / 2)
		r.wants("5s c up: added by the API")
		r.sessions(20, "c", true, nil)
		pass(interval)
		synctest.Wait()
		if len(r.events) != 2 || !strings.HasPrefix(r.events[1], "20s c down: ") {
			t.Errorf("got %q", r.events)
		}
	})
}

// A new policy holds for the interval under way, and its length counts from the
// beginning of that.
func TestNewPolicy(t *testing.T) {
	detecting(t, "a b", func(r *rig) {
		r.sessions(5, "a", true, nil)
		pass(2 * time.Second)
		pol := policy()
		pol.Interval, pol.MinSessions = 3*time.Second, 5
		r.Use(pol)
		synctest.Wait()
		pass(time.Second)
		r.wants("3s a down: 5 sessions failed in 3s (5 reset early, 0 empty) where 5 began, usual among the others is 0%; ejected for 35s")
	})
}

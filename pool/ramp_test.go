package pool_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// steps is in how many a slow start goes; window makes one a second.
const (
	steps  = 16
	window = steps * time.Second
)

// slow runs f with a pool that starts slowly.
func slow(t *testing.T, text string, run func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		run(setup(t, text, pool.Policy{Probed: true, SlowStart: window}))
	})
}

// shares counts n picks by backend.
func shares(t *testing.T, p *pool.Pool, n int) map[string]int {
	t.Helper()
	of := map[string]int{}
	for _, id := range strings.Fields(picks(t, p, n)) {
		of[id]++
	}
	return of
}

// bounce takes a backend out and brings it back.
func (f *fixture) bounce(id string) {
	f.t.Helper()
	b := backend(f.t, f.Pool, id)
	f.fall(b)
	f.rise(b)
}

// B089: what comes up gets something at once, and its full share after the
// window; nobody gets more than while it was away.
func TestSlowStartShares(t *testing.T) {
	slow(t, "a b c", func(f *fixture) {
		f.bounce("c")
		for step := range steps {
			k := max(step, 1)
			of := shares(t, f.Pool, 2*steps+k)
			if of["a"] != steps || of["b"] != steps || of["c"] != k {
				t.Errorf("after %d s: got %v, want %d of c and %d of the others", step, of, k, steps)
			}
			r := row(t, f.Pool, "c")
			want(t, "starting", r.Starting, true)
			want(t, "effective weight", r.Effective, float64(k)/steps)
			pass(time.Second)
		}
		r := row(t, f.Pool, "c")
		want(t, "starting after the window", r.Starting, false)
		want(t, "effective weight after the window", r.Effective, 1)
		of := shares(t, f.Pool, 30)
		if of["a"] != 10 || of["b"] != 10 || of["c"] != 10 {
			t.Errorf("after the window: got %v", of)
		}
	})
}

// B089: the window begins when the backend is found up, not when it is added.
func TestSlowStartBeginsWithTheFirstPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pol := pool.Policy{Probed: true, SlowStart: window, Init: pool.InitProbe}
		f := setup(t, "a b", pol)
		for _, b := range f.Probed() {
			f.rise(b)
		}
		f.apply("a b c", pol)
		pass(8 * time.Second)
		f.rise(f.Probed()[2])
		want(t, "effective weight", row(t, f.Pool, "c").Effective, 1./steps)
		pass(8 * time.Second)
		want(t, "effective weight", row(t, f.Pool, "c").Effective, .5)
		pass(8 * time.Second)
		want(t, "effective weight", row(t, f.Pool, "c").Effective, 1)
	})
}

// Shares are as large as the weights say, whatever these are: over one cycle
// each backend has its own, give or take one pick.
func TestSlowStartKeepsProportions(t *testing.T) {
	for round := range 20 {
		rnd := rand.New(rand.NewPCG(4, uint64(round)))
		var text []string
		for i := range 2 + rnd.IntN(6) {
			text = append(text, fmt.Sprintf("%c=%d", 'a'+i, 1+rnd.IntN([]int{3, 30, pool.MaxWeight}[i%3])))
		}
		slow(t, strings.Join(text, " "), func(f *fixture) {
			for i := range text {
				if i%2 == 0 {
					f.bounce(string(rune('a' + i)))
					pass(time.Duration(rnd.IntN(3000)) * time.Millisecond)
				}
			}
			var sum float64
			for _, b := range f.Status().Backends {
				sum += b.Effective
			}
			const n = 5000
			of := shares(t, f.Pool, n)
			for _, b := range f.Status().Backends {
				got, share := float64(of[b.ID]), b.Effective/sum
				if got == 0 && share*n > 2 || got < share*n*.8-3 || got > share*n*1.25+3 {
					t.Errorf("%s, %s at %v: got %v of %d picks, want %.1f", text, b.ID, b.Effective, got, n, share*n)
				}
			}
		})
	}
}

// A newcomer without sessions is not flooded: beside the others it holds no more
// than its part.
func TestSlowStartBoundsSessions(t *testing.T) {
	for _, ties := range []string{"first", "rotate"} {
		slow(t, "new a b", func(f *fixture) {
			f.SetStrategy(strategy(t, "least_connections", ties))
			f.fall(backend(t, f.Pool, "new"))
			hold(t, f.Pool, 200)
			f.rise(f.Probed()[0])
			for step := range steps {
				hold(t, f.Pool, 20)
				k := max(step, 1)
				n, most := row(t, f.Pool, "new").Active, row(t, f.Pool, "a").Active*int64(k)/steps+1
				if n > most || n < most/2 {
					t.Errorf("ties %s, after %d s: got %d sessions, want at most %d and not many less", ties, step, n, most)
				}
				pass(time.Second)
			}
			hold(t, f.Pool, 300)
			a, b, n := row(t, f.Pool, "a").Active, row(t, f.Pool, "b").Active, row(t, f.Pool, "new").Active
			if max(a, b, n)-min(a, b, n) > 1 {
				t.Errorf("ties %s, after the window: got %d, %d, %d sessions", ties, a, b, n)
			}
		})
	}
}

// Where nobody holds a session least_connections knows ties alone, and they would
// give everything to a newcomer that is registered first.
func TestSlowStartOfAnIdlePool(t *testing.T) {
	slow(t, "new a", func(f *fixture) {
		f.SetStrategy(strategy(t, "least_connections", "first"))
		f.bounce("new")
		for step := range steps {
			want(t, fmt.Sprintf("picks of 160 after %d s", step), shares(t, f.Pool, 160)["new"], 10*max(step, 1))
			pass(time.Second)
		}
		want(t, "picks after the window", shares(t, f.Pool, 10)["new"], 10)
	})
}

// What joins a pool that runs starts slowly, and so does what comes back from
// maintenance; what was drained has worked all the time. With the pool nobody
// does: then somebody has to take the load.
func TestSlowStartOfWhom(t *testing.T) {
	slow(t, "a b", func(f *fixture) {
		starting := func(id string, is bool) {
			t.Helper()
			want(t, id+" starts slowly", row(t, f.Pool, id).Starting, is)
		}
		for _, b := range f.Probed() {
			f.rise(b)
		}
		starting("a", false)
		f.operate("add c")
		starting("c", true)
		f.operate("drain a; ready a")
		starting("a", false)
		f.operate("maint a; ready a")
		starting("a", true)
		f.rise(f.Probed()[2])
		pass(8 * time.Second)
		f.operate("remove b; add b")
		starting("b", true)
		pass(8 * time.Second)
		starting("a", false)
		starting("c", false)
		starting("b", true)
	})
}

func TestSlowStartAfterInitDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a b", pool.Policy{Probed: true, SlowStart: window, Init: pool.InitDown})
		for _, b := range f.Probed() {
			f.rise(b)
			want(t, "starts slowly", row(t, f.Pool, b.ID()).Starting, false)
		}
	})
}

func TestSlowStartAfterATrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a b", pool.Policy{MaxFailures: 1, RetryAfter: time.Second, SlowStart: window})
		f.fail("a", 1)
		pass(time.Second)
		want(t, "starts slowly on trial", row(t, f.Pool, "a").Starting, false)
		leaseOf(t, f.Pool, "a").Connected()
		want(t, "starts slowly", row(t, f.Pool, "a").Starting, true)
	})
}

// A slow start refuses nobody.
func TestSlowStartAlone(t *testing.T) {
	slow(t, "a b", func(f *fixture) {
		for _, s := range everyStrategy(t) {
			f.SetStrategy(s)
			f.bounce("a")
			f.operate("drain b")
			f.wants("a a a a a")
			f.operate("ready b; maint b")
			f.wants("a a a a a")
			f.operate("ready b")
			pass(window)
		}
	})
}

// A reload changes the window of slow starts that are under way.
func TestSlowStartIsLive(t *testing.T) {
	slow(t, "a b", func(f *fixture) {
		use := func(w time.Duration, line string) {
			t.Helper()
			want(t, "lines", words(f.Apply(config(t, "a b", pool.Policy{Probed: true, SlowStart: w}))), line)
		}
		weight := func(w float64) {
			t.Helper()
			want(t, "effective weight", row(t, f.Pool, "a").Effective, w)
		}
		f.bounce("a")
		pass(4 * time.Second)
		weight(4. / 16)
		use(2*window, "pool p: slow_start 16s -> 32s")
		weight(2. / 16)
		pass(4 * time.Second)
		weight(4. / 16)
		use(window, "pool p: slow_start 32s -> 16s")
		weight(8. / 16)
		pass(time.Second)
		weight(9. / 16)
		use(0, "pool p: slow_start 16s -> 0s")
		weight(1)
		f.wants("b a b a")
		f.bounce("a")
		weight(1)
	})
}

// However many start, and whenever, a step costs one new snapshot, and after the
// last there is none.
func TestSlowStartStepsTogether(t *testing.T) {
	slow(t, "a b c d", func(f *fixture) {
		var built atomic.Int64
		s := strategy(t, "round_robin", "")
		build := s.Build
		s.Name = "counted"
		s.Build = func(ms []*pool.Member, previous pool.Picker) pool.Picker {
			built.Add(1)
			return build(ms, previous)
		}
		f.SetStrategy(s)
		for _, id := range []string{"a", "b", "c"} {
			f.bounce(id)
			pass(300 * time.Millisecond)
		}
		built.Store(0)
		pass(window + time.Second)
		if built := built.Load(); built > steps+1 {
			t.Errorf("got %d snapshots for one window, want at most %d", built, steps+1)
		}
		built.Store(0)
		pass(time.Hour)
		want(t, "snapshots later", built.Load(), 0)
	})
}

package health_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
	"sluice/pool/health"
)

func TestFirstProbeIsAtOnceAndDecides(t *testing.T) {
	for _, init := range []pool.Init{pool.InitUp, pool.InitProbe} {
		prepared(t, init, policy, []string{"a", "b"}, func(f *fixture) {
			f.answer("b", errProbe)
			f.begin()
			want(t, "probes of a", f.when("a"), []time.Duration{0})
			want(t, "probes of b", f.when("b"), []time.Duration{0})
			want(t, "eligible", f.pool.Eligible(), 1)
			want(t, "settled", f.pool.Settled(), true)
			got := f.story()
			slices.Sort(got)
			want(t, "events", got, []string{"a up: first probe passed", "b down: first probe failed: connection refused"})
		})
	}
}

func TestInitDownNeedsRise(t *testing.T) {
	monitored(t, pool.InitDown, policy, []string{"a"}, func(f *fixture) {
		want(t, "events", f.story(), []string(nil))
		time.Sleep(policy.DownInterval)
		want(t, "events", f.story(), []string{"a up: 2 probes in a row passed"})
	})
}

// The first gap is anything up to an interval, each later one an interval give
// or take a tenth; of many backends some come early and some late.
func TestScheduleIsJittered(t *testing.T) {
	var ids []string
	for i := range 50 {
		ids = append(ids, fmt.Sprint("b", i))
	}
	monitored(t, pool.InitUp, policy, ids, func(f *fixture) {
		time.Sleep(20 * policy.Interval)
		var early, late int
		var gaps []time.Duration
		for _, id := range ids {
			at := f.when(id)
			first := at[1] - at[0]
			if first < 0 || first > policy.Interval {
				t.Errorf("first gap: got %v, want up to %v", first, policy.Interval)
			}
			if first < policy.Interval/2 {
				early++
			} else {
				late++
			}
			for i := 2; i < len(at); i++ {
				gaps = append(gaps, at[i]-at[i-1])
			}
		}
		if early < 10 || late < 10 {
			t.Errorf("first gaps: got %d in the first half of the interval and %d in the second", early, late)
		}
		low, high := slices.Min(gaps), slices.Max(gaps)
		if low < 9*time.Second || high > 11*time.Second || low > 9500*time.Millisecond || high < 10500*time.Millisecond {
			t.Errorf("gaps: got %v to %v, want about 9s to 11s", low, high)
		}
	})
}

func TestDownBackendIsProbedAtItsOwnInterval(t *testing.T) {
	prepared(t, pool.InitUp, policy, []string{"a"}, func(f *fixture) {
		f.answer("a", errProbe)
		f.begin()
		time.Sleep(time.Minute)
		at := f.when("a")
		for i := 2; i < len(at); i++ {
			if gap := at[i] - at[i-1]; gap < 1800*time.Millisecond || gap > 2200*time.Millisecond {
				t.Errorf("gap: got %v, want 2s +- 10%%", gap)
			}
		}
		f.answer("a", nil)
		time.Sleep(2 * 2200 * time.Millisecond)
		want(t, "events", f.story(), []string{"a down: first probe failed: connection refused", "a up: 2 probes in a row passed"})
	})
}

// B062: rise and fall keep a backend that alternates where it is; three failures
// are one transition, and so are two passes, a failure and three passes.
func TestFlappingBackend(t *testing.T) {
	pol := policy
	pol.Interval, pol.DownInterval, pol.Rise, pol.Fall = time.Second, time.Second, 3, 3
	monitored(t, pool.InitUp, pol, []string{"a"}, func(f *fixture) {
		f.story()
		n := 0
		next := func(results ...error) { // then as the last one
			n = 0
			f.script("a", func(context.Context) error {
				n++
				return results[min(n, len(results))-1]
			})
		}
		f.script("a", func(context.Context) error {
			n++
			return []error{nil, errProbe}[n%2]
		})
		time.Sleep(time.Minute)
		want(t, "events of a minute", f.story(), []string(nil))
		next(nil, errProbe, errProbe, errProbe, nil, nil, errProbe, nil, nil, nil)
		time.Sleep(time.Minute)
		want(t, "events", f.story(), []string{
			"a down: 3 probes in a row failed, the last: connection refused", "a up: 3 probes in a row passed"})
	})
}

// B072: a server that passes for a moment after its restart, and then tells what
// it is, gets nobody: not while it is away, not in that moment, and not behind it.
func TestRestartedServerThatPassesForAMomentGetsNobody(t *testing.T) {
	pol := policy
	pol.Interval, pol.DownInterval, pol.Rise, pol.Fall = 500*time.Millisecond, 500*time.Millisecond, 5, 1
	prepared(t, pool.InitDown, pol, []string{"a", "b"}, func(f *fixture) {
		f.answer("a", errProbe)
		f.begin()
		time.Sleep(10 * time.Second)
		want(t, "eligible", f.pool.Eligible(), 1)
		picked := func(d time.Duration) (got []string) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				var lease pool.Lease
				if err := f.pool.Acquire(&lease, pool.Query{}); err != nil {
					t.Fatal(err)
				}
				if id := lease.Backend().ID(); !slices.Contains(got, id) {
					got = append(got, id)
				}
				lease.Release()
			}
			return got
		}
		for range 20 {
			f.answer("a", nil)
			want(t, "who was picked in the moment", picked(1500*time.Millisecond), []string{"b"})
			f.answer("a", errProbe)
			want(t, "who was picked behind it", picked(2*time.Second), []string{"b"})
		}
		f.answer("a", nil)
		picked(6 * pol.DownInterval)
		want(t, "who is picked when it has passed often enough", len(picked(time.Second)), 2)
	})
}

// B062: a backend that goes down soon after it came back is held out, however
// its probes pass, and comes back at the very end of the hold.
func TestHeldOutBackendIsProbed(t *testing.T) {
	pol := policy
	pol.Interval, pol.DownInterval, pol.Rise, pol.Fall = 100*time.Millisecond, 100*time.Millisecond, 1, 1
	monitored(t, pool.InitUp, pol, []string{"a", "b"}, func(f *fixture) {
		for repeat := range 10 {
			f.answer("a", errProbe)
			time.Sleep(200 * time.Millisecond)
			f.answer("a", nil)
			synctest.Wait()
			until := f.pool.Status().Backends[0].HeldUntil
			want(t, fmt.Sprint("held the ", repeat), until.IsZero(), repeat == 0)
			n := len(f.when("a"))
			time.Sleep(2 * time.Minute)
			if len(f.when("a")) == n {
				t.Error("no probe during the hold")
			}
			e := f.last("a")
			if e.state != "up" || repeat > 0 && !f.start.Add(e.at).Equal(until) {
				t.Errorf("repeat %d: got %s at %v, want up at %v", repeat, e.state, e.at, until.Sub(f.start))
			}
		}
	})
}

// Descriptors that ran out on our side say nothing about the backend: the
// streak goes on where it was.
func TestProbeWithoutEvidenceMakesNoVerdict(t *testing.T) {
	prepared(t, pool.InitUp, policy, []string{"a"}, func(f *fixture) {
		ours := fmt.Errorf("%w: too many open files", health.ErrNoEvidence)
		results, n := []error{nil, errProbe, errProbe, ours, ours, ours, ours, errProbe, nil}, 0
		f.script("a", func(context.Context) error {
			n++
			return results[min(n, len(results))-1]
		})
		f.begin()
		time.Sleep(50 * time.Second) // the third is the eighth probe
		want(t, "events before the third failure", f.story(), []string{"a up: first probe passed"})
		time.Sleep(time.Minute)
		want(t, "events", f.story(), []string{
			"a down: 3 probes in a row failed, the last: connection refused", "a up: 2 probes in a row passed"})
	})
}

// patient has no regular probe in the time of a test.
var patient = func() health.Policy {
	pol := policy
	pol.Interval = 100_000 * time.Hour
	return pol
}()

// dialFails makes one session of the pool fail to dial.
func (f *fixture) dialFails() {
	f.t.Helper()
	var l pool.Lease
	if err := f.pool.Acquire(&l, pool.Query{}); err != nil {
		f.t.Fatal(err)
	}
	l.Failed("refused", errProbe)
}

func TestSuspectIsProbedAtOnce(t *testing.T) {
	monitored(t, pool.InitUp, patient, []string{"a"}, func(f *fixture) {
		time.Sleep(11 * time.Second)
		f.answer("a", errProbe)
		f.dialFails()
		want(t, "probes", f.when("a"), []time.Duration{0, 11 * time.Second})
	})
}

// A burst of failed dials is one probe now and then one each 100 ms.
func TestSuspicionsCoalesce(t *testing.T) {
	monitored(t, pool.InitUp, patient, []string{"a"}, func(f *fixture) {
		time.Sleep(11 * time.Second)
		f.answer("a", errProbe)
		for range 50 {
			f.Suspect(f.backend("a"))
			time.Sleep(5 * time.Millisecond)
		}
		at := f.when("a")[1:]
		want(t, "probes", at, []time.Duration{11 * time.Second, 11100 * time.Millisecond, 11200 * time.Millisecond})
		story := f.story()
		want(t, "the last event", story[len(story)-1], "a down: 3 probes in a row failed, the last: connection refused")
	})
}

// A failed dial during a probe is newer than what the probe will say.
func TestSuspicionDuringAProbe(t *testing.T) {
	prepared(t, pool.InitUp, patient, []string{"a"}, func(f *fixture) {
		f.script("a", func(context.Context) error { time.Sleep(300 * time.Millisecond); return nil })
		f.begin()
		time.Sleep(10 * time.Second)
		f.Suspect(f.backend("a"))
		time.Sleep(200 * time.Millisecond)
		f.Suspect(f.backend("a"))
		f.Suspect(f.backend("a"))
		time.Sleep(time.Second)
		want(t, "probes", f.when("a"), []time.Duration{0, 10 * time.Second, 10300 * time.Millisecond})
	})
}

func TestDialsTakeOutAndProbesBringBack(t *testing.T) {
	monitored(t, pool.InitUp, patient, []string{"a", "b"}, func(f *fixture) {
		time.Sleep(policy.Interval)
		f.story()
		a := f.backend("a")
		for range 6 { // three each, and b is the last one then
			f.dialFails()
		}
		want(t, "health of a", a.Health(), pool.Down)
		time.Sleep(3 * policy.DownInterval)
		want(t, "events", f.story(), []string{
			"a down: 3 failures in a row, the last: refused: connection refused", "a up: 2 probes in a row passed"})
	})
}

func TestTimeoutEndsAProbe(t *testing.T) {
	prepared(t, pool.InitUp, policy, []string{"a"}, func(f *fixture) {
		f.script("a", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		f.begin()
		time.Sleep(policy.Timeout)
		want(t, "events", f.story(), []string{"a down: first probe failed: context deadline exceeded"})
	})
}

func TestNoTwoProbesAtOnceWhenProbesAreSlow(t *testing.T) {
	pol := policy
	pol.Interval, pol.DownInterval, pol.Timeout = 100*time.Millisecond, 100*time.Millisecond, 0
	prepared(t, pool.InitUp, pol, []string{"a"}, func(f *fixture) {
		f.script("a", func(context.Context) error { time.Sleep(time.Second); return nil })
		f.begin()
		for range 20 {
			f.Suspect(f.backend("a"))
			f.pool.Remove("a")
			f.pool.Add(pool.Spec{ID: "a", Address: "a", Weight: 1})
			time.Sleep(270 * time.Millisecond)
		}
		if n := len(f.when("a")); n < 5 {
			t.Errorf("got %d probes in 5 s", n)
		}
	})
}

// B079: whatever joins is probed at once, whatever leaves no more.
func TestMembershipIsFollowed(t *testing.T) {
	monitored(t, pool.InitUp, policy, []string{"a", "b"}, func(f *fixture) {
		time.Sleep(time.Hour)
		f.pool.Add(pool.Spec{ID: "c", Address: "c", Weight: 1})
		want(t, "probes of c", f.when("c"), []time.Duration{time.Hour})
		f.pool.Remove("a")
		state := pool.Maint
		f.pool.Patch("b", pool.Patch{Admin: &state})
		a, b := len(f.when("a")), len(f.when("b"))
		time.Sleep(time.Hour)
		want(t, "probes of a after its removal", len(f.when("a")), a)
		want(t, "probes of b in maint", len(f.when("b")), b)
		state = pool.Ready
		f.pool.Patch("b", pool.Patch{Admin: &state})
		want(t, "the last probe of b", f.when("b")[b:], []time.Duration{2 * time.Hour})
	})
}

func TestResultAfterRemovalIsHarmless(t *testing.T) {
	monitored(t, pool.InitUp, patient, []string{"a"}, func(f *fixture) {
		f.story()
		f.script("a", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		f.Suspect(f.backend("a"))
		time.Sleep(suspectGap)
		synctest.Wait()
		a := f.backend("a")
		f.pool.Remove("a")
		want(t, "events", f.story(), []string{"a removed: removed by the API"})
		want(t, "health", a.Health(), pool.Up)
	})
}

const suspectGap = 100 * time.Millisecond

func TestStopReallyStops(t *testing.T) {
	prepared(t, pool.InitUp, patient, []string{"a", "b", "c"}, func(f *fixture) {
		f.script("b", func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(50 * time.Millisecond) // it must return soon, and does
			return ctx.Err()
		})
		f.begin()
		time.Sleep(500 * time.Millisecond)
		f.story()
		f.stop()
		asked := time.Now()
		<-f.done
		want(t, "time to stop", time.Since(asked), 50*time.Millisecond)
		n := len(f.when("a")) + len(f.when("b")) + len(f.when("c"))
		f.Suspect(f.backend("a"))
		f.Sync()
		time.Sleep(time.Hour)
		want(t, "probes after the stop", len(f.when("a"))+len(f.when("b"))+len(f.when("c"))-n, 0)
		want(t, "events", f.story(), []string(nil))
	})
}

func TestUseChangesProbeAndPolicy(t *testing.T) {
	slow := policy
	slow.Interval = 24 * time.Hour
	monitored(t, pool.InitUp, slow, []string{"a"}, func(f *fixture) {
		time.Sleep(72 * time.Hour)
		f.story()
		fast := policy
		fast.Interval = time.Second
		f.Use(func(context.Context, health.Target) error { return errProbe }, fast)
		time.Sleep(4 * time.Second)
		want(t, "events", f.story(), []string{"a down: 3 probes in a row failed, the last: connection refused"})
	})
}

// A new policy that moves no deadline moves nothing.
func TestUseKeepsTheSchedule(t *testing.T) {
	monitored(t, pool.InitUp, policy, []string{"a"}, func(f *fixture) {
		time.Sleep(time.Minute)
		for range 100 {
			f.Use(f.probe, policy)
			time.Sleep(time.Second)
		}
		at := f.when("a")
		for i := 2; i < len(at); i++ {
			if gap := at[i] - at[i-1]; gap < 9*time.Second || gap > 11*time.Second {
				t.Errorf("gap: got %v, want 10s +- 10%%", gap)
			}
		}
	})
}

func TestObserveHearsEveryResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool.New("p", config(t, pool.InitUp, []string{"a"}), pool.Hooks{})
		defer p.Close()
		var heard []string
		m := health.NewMonitor(p, func(context.Context, health.Target) error { return errProbe }, policy,
			func(b *pool.Backend, err error) { heard = append(heard, fmt.Sprint(b.ID(), " ", err)) })
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		one := policy
		one.DownInterval = time.Hour
		m.Use(func(context.Context, health.Target) error { return errProbe }, one)
		m.Run(ctx)
		want(t, "heard", heard, []string{"a connection refused"})
	})
}

// A probe that failed for a reason of ours is not counted against the backend.
func TestFailedProbesAreCounted(t *testing.T) {
	monitored(t, pool.InitUp, policy, []string{"a", "b"}, func(f *fixture) {
		failures := func() (n []int64) {
			for _, b := range f.pool.Status().Backends {
				n = append(n, b.ProbeFailures)
			}
			return n
		}
		first := len(f.when("b"))
		f.answer("b", errProbe)
		for len(f.when("b")) < 8 {
			time.Sleep(time.Second)
		}
		f.answer("b", fmt.Errorf("too many open files: %w", health.ErrNoEvidence))
		got := failures()
		want(t, "failures of a", got[0], int64(0))
		want(t, "failures of b", got[1], int64(len(f.when("b"))-first))
		time.Sleep(time.Hour)
		want(t, "failures later", failures(), got)
	})
}

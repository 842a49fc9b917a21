package rebalance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/l4/session"
	"sluice/pool"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// With clients that come back to the least loaded backend every pool gets even, no
// more are closed than were too many, and no faster than they may be.
func TestAnyPoolGetsEven(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 150 {
		synctest.Test(t, func(t *testing.T) {
			var words []string
			var active []int
			for range 1 + r.IntN(5) {
				words = append(words, fmt.Sprint(r.IntN(4)))
				active = append(active, r.IntN(80))
			}
			text := strings.Join(words, " ")
			p := newPool(t, byName(t, "least_connections"), strings.Repeat("1 ", len(words)))
			c := newCrowd(t, p)
			c.fill(active...)
			for i, w := range words {
				n := int(w[0] - '0')
				p.Patch(string(rune('A'+i)), pool.Patch{Weight: &n})
			}
			c.linger = time.Duration(r.IntN(int(session.LingerTime)))
			c.back = time.Duration(r.IntN(int(400 * time.Millisecond)))
			o := Order{Rate: 1 + r.IntN(60), Target: r.IntN(40)}
			first := Foresee("p", p.Loads(), o)
			got := c.run(o)
			if got.State != Even || got.Closed != first.Surplus || got.Remaining != 0 || surplus(Shares(p.Loads(), o.Target)) != 0 {
				t.Errorf("seed %d, %s with %v, %+v: got %+v, want %d closed", seed, text, active, o, got, first.Surplus)
			}
			c.wantPace(o.Rate)
			c.disperse()
		})
	}
}

// The same with a strategy that puts some back where they were, by turns.
func TestRoundRobinGetsEven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newPool(t, byName(t, "round_robin"), "1 1 1"))
		c.fill(90, 0, 0)
		got := c.run(Order{Rate: 10, Target: 10})
		// Of three that are closed one comes back.
		if got.State != Even || got.Surplus != 57 || got.Closed < 57 || got.Closed > 90 {
			t.Errorf("got %+v", got)
		}
		c.disperse()
	})
}

// stubborn is a strategy that takes every client to the backend that its address
// names.
type stubborn []*pool.Member

func (s stubborn) Pick(q pool.Query) *pool.Member {
	if m := s[int(q.Client.As4()[1])%len(s)]; m.Reserve() {
		return m
	}
	return nil
}

func (s stubborn) Preview(pool.Query) (*pool.Member, bool) { return s[0], true }

func stubbornly() pool.Strategy {
	return pool.Strategy{Name: "stubborn", Build: func(eligible []*pool.Member, _ pool.Picker) pool.Picker { return stubborn(eligible) }}
}

// Where clients come back to the same backend, closing them does not help: it says
// so, after some.
func TestStallsWhereClientsComeBack(t *testing.T) {
	for _, c := range []struct{ active, most int }{{4, 30}, {40, 60}, {400, 150}, {4000, 250}} {
		for _, linger := range []time.Duration{0, session.LingerTime} {
			synctest.Test(t, func(t *testing.T) {
				w := newCrowd(t, newPool(t, stubbornly(), "1 1"))
				w.linger, w.back = linger, 10*time.Millisecond
				w.fill(c.active, 0)
				got := w.run(Order{Rate: 10, Target: 0})
				if got.State != Stalled || !strings.Contains(got.Reason, "come back") || got.Closed < 4 || int(got.Closed) > c.most {
					t.Errorf("%d sessions, linger %v: got %+v, want at most %d closed", c.active, linger, got, c.most)
				}
				if got.Remaining < int64(c.active/3) {
					t.Errorf("%d sessions: %d remain", c.active, got.Remaining)
				}
				w.disperse()
			})
		}
	}
}

// Those that are gone for good make room too, and nobody is closed in their place.
func TestClientsThatDoNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newPool(t, byName(t, "least_connections"), "1 1"))
		c.back = -1
		c.fill(40, 10)
		got := c.run(Order{Rate: 5, Target: 0})
		// Each that leaves takes half a place from the share of both.
		if got.State != Spent || got.Surplus != 15 || got.Closed != 15 || got.Remaining == 0 {
			t.Errorf("got %+v", got)
		}
		c.disperse()
	})
}

// Who is young or busy is spared, and the idlest go first.
func TestYoungAndBusySessionsAreSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newPool(t, byName(t, "least_connections"), "1 1"))
		c.fill(20, 0)
		time.Sleep(time.Minute)
		for i, v := range c.present { // the idlest first
			v.since = v.since.Add(time.Duration(i) * time.Second)
		}
		idlest := slices.Clone(c.present[:6])
		got := c.run(Order{Rate: 100, Target: 0, MinIdle: 54*time.Second + 500*time.Millisecond})
		// Some get as idle within the time that it waits for that.
		if got.State != Even && got.State != Busy {
			t.Errorf("got %+v", got)
		}
		for _, v := range idlest {
			if !v.ending {
				t.Error("one of the idlest was spared")
			}
		}
		c.disperse()
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newPool(t, byName(t, "least_connections"), "1 1"))
		c.fill(20, 0)
		for _, o := range []Order{{Rate: 10, MinIdle: time.Hour}, {Rate: 10, MinAge: time.Hour}} {
			got := c.run(o)
			if got.State != Busy || got.Closed != 0 || got.Remaining != 10 || got.Ended.Sub(got.Started).Round(time.Second) != patience {
				t.Errorf("%+v: got %+v", o, got)
			}
		}
		c.disperse()
	})
}

// A backend whose sessions are all busy does not keep the others from being
// relieved.
func TestBusyBackendHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newPool(t, byName(t, "least_connections"), "1 1 1"))
		c.fill(600, 400, 2)
		for _, v := range c.present {
			if v.lease.Backend().ID() == "A" {
				v.since = v.since.Add(math.MaxInt64 / 4)
			}
		}
		got := c.run(Order{Rate: 10})
		if got.State != Busy || got.Backends[0].Closed != 0 || got.Backends[1].Closed != 66 || got.Ended.Sub(got.Started) > patience+8*time.Second {
			t.Errorf("got %+v after %v", got, got.Ended.Sub(got.Started))
		}
		c.disperse()
	})
}

// One at a time for a pool; it is seen, stopped, and ends with the desk.
func TestDesk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newPool(t, byName(t, "least_connections"), "1 1"))
		c.fill(100, 0)
		var d Desk
		if _, ok := d.Progress("p"); ok {
			t.Error("there is progress of nothing")
		}
		if _, ok := d.Stop("p"); ok {
			t.Error("nothing was stopped")
		}
		told := make(chan Progress, 2)
		o := Order{Rate: 1, Target: 10}
		p, err := d.Start("p", "me", o, c.work(), func(p Progress) { told <- p })
		if err != nil || p.State != Running || p.Surplus != 45 || p.By != "me" || !p.Started.Equal(time.Now()) || len(p.Backends) != 2 {
			t.Errorf("started: got %+v, %v", p, err)
		}
		if _, err := d.Start("p", "me", o, c.work(), nil); err != ErrRunning {
			t.Errorf("again: got %v", err)
		}
		if _, err := d.Start("q", "me", o, c.work(), nil); err != nil {
			t.Errorf("of another pool: got %v", err)
		}
		time.Sleep(5*time.Second + 500*time.Millisecond)
		p, ok := d.Progress("p")
		if !ok || p.State != Running || p.Closed < 5 || p.Closed > 7 || p.Backends[0].Closed != p.Closed || !p.Ended.IsZero() {
			t.Errorf("on the way: got %+v", p)
		}
		p, ok = d.Stop("p")
		if !ok || p.State != Stopped || p.Ended.IsZero() || p.Reason == "" {
			t.Errorf("stopped: got %+v", p)
		}
		if last := <-told; last.State != Stopped || last.Closed != p.Closed {
			t.Errorf("told %+v", last)
		}
		if _, ok := d.Stop("p"); ok {
			t.Error("it was stopped twice")
		}
		if p, err := d.Start("p", "me", o, c.work(), func(p Progress) { told <- p }); err != nil || p.State != Running {
			t.Errorf("started again: got %+v, %v", p, err)
		}
		c.endWith(Shutdown)
		d.Close()
		if last := <-told; last.State != Shutdown {
			t.Errorf("told %+v", last)
		}
		if _, err := d.Start("p", "me", o, c.work(), nil); err != ErrClosed {
			t.Errorf("closed: got %v", err)
		}
		c.disperse()
	})
}

// The rate is reached, whether those that are closed are gone at once or linger.
func TestRateIsReached(t *testing.T) {
	for _, linger := range []time.Duration{0, session.LingerTime} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, newPool(t, byName(t, "least_connections"), "1 1"))
			c.linger = linger
			c.fill(600, 0)
			got := c.run(Order{Rate: 50})
			if took := got.Ended.Sub(got.Started); got.State != Even || got.Closed != 300 || took > 6*time.Second+settleTime+2*shortestStep {
				t.Errorf("linger %v: %+v after %v", linger, got, took)
			}
			c.disperse()
		})
	}
}

// Where it takes long to find sessions it looks for them less often, at the same
// rate.
func TestSlowLooksAreFewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newPool(t, byName(t, "least_connections"), "1 1"))
		c.fill(600, 0)
		w, looks := c.work(), 0
		w.End = func(m session.Match, n int) int {
			looks++
			time.Sleep(100 * time.Millisecond)
			return c.end(m, n)
		}
		var d Desk
		ended := make(chan Progress)
		if _, err := d.Start("p", "", Order{Rate: 10}, w, func(p Progress) { ended <- p }); err != nil {
			t.Fatal(err)
		}
		got := <-ended
		took := got.Ended.Sub(got.Started)
		if got.State != Even || got.Closed != 300 || looks > int(took/(lookShare*100*time.Millisecond))+2 || took < 28*time.Second || took > 40*time.Second {
			t.Errorf("%d looks in %v: %+v", looks, took, got)
		}
		c.disperse()
	})
}

// A look during which the machine stood still holds up the next no longer than a
// few sessions are worth, and they do not all end at once then.
func TestOneSlowLookHoldsUpLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newPool(t, byName(t, "least_connections"), "1 1"))
		c.fill(600, 0)
		w, looks := c.work(), 0
		w.End = func(m session.Match, n int) int {
			if looks++; looks == 2 {
				time.Sleep(30 * time.Second)
			}
			if n > 10*int(2*longestStep/time.Second) {
				t.Errorf("look %d is to end %d sessions", looks, n)
			}
			return c.end(m, n)
		}
		var d Desk
		ended := make(chan Progress)
		if _, err := d.Start("p", "", Order{Rate: 10}, w, func(p Progress) { ended <- p }); err != nil {
			t.Fatal(err)
		}
		got := <-ended
		if took := got.Ended.Sub(got.Started); got.State != Even || got.Closed != 300 || took > time.Minute+settleTime+longestStep {
			t.Errorf("%+v after %v", got, took)
		}
		c.disperse()
	})
}

// It ends by itself with its pool.
func TestEndsWithThePool(t *testing.T) {
	for _, over := range []State{Removed, Shutdown} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, newPool(t, byName(t, "least_connections"), "1 1"))
			c.fill(100, 0)
			time.AfterFunc(3*time.Second, func() { c.endWith(over) })
			if got := c.run(Order{Rate: 1}); got.State != over || got.Closed < 2 || got.Closed > 5 {
				t.Errorf("got %+v", got)
			}
			c.disperse()
		})
	}
}

// It does not last for ever where now and then somebody is idle enough.
func TestEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newPool(t, byName(t, "least_connections"), "1 1"))
		c.fill(4000, 0)
		w := c.work()
		w.End = func(m session.Match, n int) int {
			if time.Since(c.began) < time.Duration(len(c.ended))*(patience-time.Second) {
				return 0
			}
			return c.end(m, 1)
		}
		var d Desk
		ended := make(chan Progress)
		if _, err := d.Start("p", "", Order{Rate: 1000}, w, func(p Progress) { ended <- p }); err != nil {
			t.Fatal(err)
		}
		if got := <-ended; got.State != Late || got.Ended.Sub(got.Started).Round(time.Minute) != longest {
			t.Errorf("got %+v", got)
		}
		c.disperse()
	})
}

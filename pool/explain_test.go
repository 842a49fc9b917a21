package pool_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// eligible are the words for backends that are chosen from.
var eligible = []pool.Word{pool.Picked, pool.NextTurns, pool.ByChance, pool.Starting, pool.Full, pool.OnTrial, pool.Paused, pool.Backup, pool.OtherZone}

// Whatever happens to a pool: Explain tells of every backend once, says of none
// that is chosen from why it is left out or the other way round, changes nothing,
// and what it says is picked the next session gets.
func TestExplainIsTrue(t *testing.T) {
	for _, s := range everyStrategy(t) {
		t.Run(title(s), func(t *testing.T) {
			words := map[pool.Word]int{}
			seeds := seedsOf(s, 100)
			if seeds < 100 {
				seeds /= 4 // each level has a table
			}
			for seed := range seeds {
				synctest.Test(t, func(t *testing.T) { explains(t, s, rand.New(rand.NewPCG(seed, 7)), words) })
			}
			for _, w := range []pool.Word{
				pool.Picked, pool.NextTurns, pool.Full, pool.OnTrial, pool.WeightZero, pool.Draining, pool.Maintained,
				pool.Downed, pool.Ejected, pool.Unprobed, pool.Removing, pool.DeletedByAPI, pool.Backup, pool.OtherZone,
			} {
				if words[w] == 0 && seeds == 100 {
					t.Errorf("no backend was ever %s: %v", w, words)
				}
			}
		})
	}
}

// explains has a pool go through much, and looks after each step.
func explains(t *testing.T, s pool.Strategy, rng *rand.Rand, words map[pool.Word]int) {
	ss := specs(6)
	for i := range ss {
		ss[i].Weight, ss[i].MaxSessions = rng.IntN(4), rng.IntN(3)
		ss[i].Backup, ss[i].Zone = max(0, rng.IntN(4)-2), []string{"", "x", "y"}[rng.IntN(3)]
	}
	pol := pool.Policy{
		MaxFailures: 2, RetryAfter: time.Second, TryAll: rng.IntN(3) == 0, PanicBelow: rng.IntN(80), Probed: rng.IntN(2) == 0,
		Init: pool.Init(rng.IntN(3)), BackupMin: rng.IntN(3), ZoneMin: rng.IntN(3), Zone: []string{"", "x"}[rng.IntN(2)], QueueMax: rng.IntN(4), HoldFor: time.Duration(rng.IntN(2)) * 2 * time.Second, ReleaseRate: rng.IntN(3), QueueFor: time.Second, SlowStart: time.Duration(rng.IntN(2)) * 5 * time.Second,
	}
	c := pool.Config{Strategy: s, Policy: pol, Backends: ss}
	p := newPool(t, c)
	held := make([]pool.Lease, 10)
	var line waiters
	for range 150 {
		switch l := &held[rng.IntN(len(held))]; rng.IntN(6) {
		case 0:
			upset(p, c, rng)
		case 1:
			if b := l.Backend(); b != nil {
				p.Eject(b, pool.Ejection{For: time.Second, Most: time.Minute, Budget: 50, Reason: "resets"})
			}
			time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
			synctest.Wait()
		case 2:
			l.Failed("refused", errDial)
		case 3:
			line.join(p)
		default:
			l.Release()
		}
		line.take()
		i := free(held)
		if i >= 0 {
			explained(t, p, &held[i], words)
		}
	}
	for i := range held {
		held[i].Release()
	}
	for _, at := range line {
		at.Leave()
	}
}

// waiters are sessions in the queue of a pool, or with what came of that.
type waiters []*pool.Place

func (w *waiters) join(p *pool.Pool) {
	var l pool.Lease
	at, _ := p.Join(&l, pool.Query{}, pool.Waiter{Wake: func() {}, Holds: true})
	if at != nil {
		*w = append(*w, at)
	}
	l.Release()
}

// take has those that wait no more go.
func (w *waiters) take() {
	*w = slices.DeleteFunc(*w, func(at *pool.Place) bool {
		var l pool.Lease
		defer l.Release()
		return at.Take(&l, 0) != pool.ErrWaiting
	})
}

// explained compares what Explain says with what there is, and what comes of it.
func explained(t *testing.T, p *pool.Pool, l *pool.Lease, words map[pool.Word]int) {
	t.Helper()
	x := p.Explain(pool.Query{}, 0)
	drawn := x.Pick != nil && !x.Pick.Sure
	if again := p.Explain(pool.Query{}, 0); !drawn && !reflect.DeepEqual(x, again) {
		t.Fatalf("it changed something:\n%+v\n%+v", x, again)
	}
	told(t, p, x, words)
	err := p.Acquire(l, pool.Query{})
	switch {
	case err != nil && (x.Pick != nil || x.Outcome == "served"):
		t.Fatalf("got %v, explained as %+v", err, x)
	case err != nil:
		_, waits := patience(p, err)
		want(t, "the outcome waits", x.Outcome == "waits", waits)
		return
	case x.Pick == nil || x.Pick.Sure && (l.Backend().ID() != x.Pick.ID || l.Backend().Address() != x.Pick.Address):
		t.Fatalf("got %s, explained as %+v", l.Backend().ID(), x)
	}
	want(t, "outcome", x.Outcome, "served")
}

// patience reports whether a session joins the queue after err.
func patience(p *pool.Pool, err error) (time.Duration, bool) {
	var l pool.Lease
	at, _ := p.Join(&l, pool.Query{}, pool.Waiter{Wake: func() {}, Holds: true})
	if at == nil {
		return 0, false
	}
	d := at.Patience()
	at.Leave()
	return d, true
}

// told checks the reasons against each other and against the status.
func told(t *testing.T, p *pool.Pool, x pool.Explanation, words map[pool.Word]int) {
	t.Helper()
	var got, all []string
	n, picks := 0, 0
	for _, r := range x.Backends {
		words[r.Word]++
		if r.Word != pool.DeletedByAPI {
			got = append(got, r.ID+" "+r.Address)
		} else if !slices.Contains(p.Status().DeletedByAPI, r.ID) {
			t.Fatalf("%s was not deleted: %+v", r.ID, r)
		}
		if r.Text == "" || r.Eligible != slices.Contains(eligible, r.Word) {
			t.Fatalf("got %+v", r)
		}
		if r.Eligible {
			n++
		}
		if r.Word == pool.Picked {
			picks++
			if x.Pick == nil || x.Pick.ID != r.ID {
				t.Fatalf("%s is told to be the pick: %+v", r.ID, x.Pick)
			}
		}
	}
	for _, b := range p.Status().Backends {
		all = append(all, b.ID+" "+b.Address)
	}
	want(t, "backends", strings.Join(got, ", "), strings.Join(all, ", "))
	want(t, "eligible ones", n, p.Eligible())
	want(t, "there is a pick", picks == 1, x.Pick != nil)
}

func why(t *testing.T, p *pool.Pool, id string) pool.Reason {
	t.Helper()
	x := p.Explain(pool.Query{}, 0)
	i := slices.IndexFunc(x.Backends, func(r pool.Reason) bool { return r.ID == id })
	if i < 0 {
		t.Fatalf("no %s in %+v", id, x)
	}
	return x.Backends[i]
}

func TestExplainSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(t, "a b c=0 d=1/1 e f", pool.Policy{Probed: true, DrainFor: time.Minute}))
		drain, maint, zero := pool.Drain, pool.Maint, 0
		p.SetHealth(backend(t, p, "e"), pool.Down, "3 probes in a row failed, the last: connection refused")
		down := time.Now()
		time.Sleep(time.Minute)
		p.Patch("a", pool.Patch{Admin: &drain, By: "10.0.0.1:5 operate"})
		p.Patch("e", pool.Patch{Admin: &maint})
		p.Patch("f", pool.Patch{Weight: &zero, By: "unix"})
		acquire(t, p)
		l := leaseOf(t, p, "d")
		for _, c := range []struct {
			id   string
			word pool.Word
			text string
		}{
			{"a", pool.Draining, "set to drain by the API (10.0.0.1:5 operate); its sessions end when drain_timeout is over"},
			{"b", pool.Picked, "gets the next session"},
			{"c", pool.WeightZero, "its weight is 0 in the file"},
			{"d", pool.Full, "has 1 session, of max_sessions = 1"},
			{"e", pool.Maintained, "set to maint by the API; its sessions end when drain_timeout is over; it is not fit either: 3 probes in a row failed, the last: connection refused"},
			{"f", pool.WeightZero, "its weight is 0 by the API"},
		} {
			r := why(t, p, c.id)
			if r.Word != c.word || r.Text != c.text {
				t.Errorf("%s: got %s: %s\nwant %s: %s", c.id, r.Word, r.Text, c.word, c.text)
			}
		}
		want(t, "since a drains", why(t, p, "a").Since.Equal(time.Now().Truncate(time.Millisecond)), true)
		ready := pool.Ready
		p.Patch("e", pool.Patch{Admin: &ready})
		e := why(t, p, "e")
		want(t, "why e is down, whatever was ordered since", e.Text, "3 probes in a row failed, the last: connection refused")
		want(t, "since when", e.Since, down)
		l.Release()
		want(t, "d when its session has ended", why(t, p, "d").Word, pool.NextTurns)
	})
}

func TestExplainSaysWhatBecomesOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(t, "a=1/1", pool.Policy{QueueMax: 1, QueueFor: 3 * time.Second}))
		l := acquire(t, p)
		x := p.Explain(pool.Query{}, 0)
		want(t, "outcome", x.Outcome, "waits")
		want(t, "text", x.Text, "a new session waits for 3s at most, behind 0 others: every usable backend is at its session limit")
		want(t, "queue", x.Queue, pool.Line{Max: 1, AtMost: "3s"})
		w := join(p)
		x = p.Explain(pool.Query{}, 0)
		want(t, "outcome", x.Outcome, "refused")
		want(t, "text", x.Text, "a new session is refused: every usable backend is at its session limit")
		want(t, "queue", x.Queue, pool.Line{Max: 1, Waiting: 1})
		l.Release()
		want(t, "who waits", w.has(), "a")
	})
}

func TestExplainTellsOfAllDown(t *testing.T) {
	p := newPool(t, config(t, "a b", pool.Policy{Probed: true, TryAll: true}))
	for _, id := range []string{"a", "b"} {
		p.SetHealth(backend(t, p, id), pool.Down, "refused")
	}
	x := p.Explain(pool.Query{}, 0)
	want(t, "notes", fmt.Sprint(x.Notes), `[0 of 2 backends up, so all_down = "try" has all used (panic_threshold = 0)]`)
	want(t, "a", why(t, p, "a").Text, "gets the next session, although it is not fit: refused")
}

func TestExplainComparesLoads(t *testing.T) {
	p := newPool(t, pool.Config{Strategy: strategy(t, "least_connections", "first"), Backends: parse(t, "a b=2 c")})
	ls := hold(t, p, 4) // a, b, c, b
	want(t, "b", why(t, p, "b").Text, "has as many sessions for its weight as the pick (2 for weight 2), which comes first")
	ls[2].Release()
	want(t, "c", why(t, p, "c").Word, pool.Picked)
	want(t, "a", why(t, p, "a").Text, "has 1 sessions for weight 1, the pick has 0 for weight 1")
}

func TestExplainTellsOfATrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(t, "a b", pool.Policy{MaxFailures: 1, RetryAfter: time.Second}))
		leaseOf(t, p, "a").Failed("refused", errDial)
		const evidence = "1 failure in a row, the last: refused: dial tcp a:1: connection refused"
		a, down := why(t, p, "a"), time.Now()
		want(t, "a at first", fmt.Sprint(a), fmt.Sprint(pool.Reason{ID: "a", Address: "a:1", Word: pool.Downed, Text: evidence, Weight: 1, Since: down}))
		time.Sleep(time.Second)
		synctest.Wait()
		a = why(t, p, "a")
		want(t, "a may be tried", a.Word == pool.Picked || a.Word == pool.NextTurns, true)
		want(t, "since", a.Since, down)
		l := leaseOf(t, p, "a")
		want(t, "a is tried", why(t, p, "a").Text, "one session tries whether it is back; "+evidence)
		l.Failed("refused", errDial)
		leaseOf(t, p, "b").Failed("refused", errDial)
		want(t, "b", why(t, p, "b").Text, "gets the next session; suspect: 1 failed dial in a row, but it is the last that could be used")
	})
}

// A backend that is down is down, and when it is up again it is held out.
func TestExplainTellsOfAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(t, "a b", pool.Policy{Probed: true}))
		a, drain, ready := backend(t, p, "a"), pool.Drain, pool.Ready
		for _, h := range []pool.Health{pool.Down, pool.Up, pool.Down} {
			p.SetHealth(a, h, h.String()+" it is")
		}
		r := why(t, p, "a")
		want(t, "while down", r.Word, pool.Downed)
		want(t, "until", r.Until, time.Now().Add(time.Second))
		p.SetHealth(a, pool.Up, "up it is")
		r = why(t, p, "a")
		want(t, "when up again", r.Word, pool.HeldOut)
		want(t, "text", r.Text, "up it is; held out for another 1s; it went down once soon after it had come back")
		want(t, "until", r.Until, time.Now().Add(time.Second))
		p.Patch("a", pool.Patch{Admin: &drain})
		want(t, "if it drains", why(t, p, "a").Word, pool.Draining)
		p.Patch("a", pool.Patch{Admin: &ready})

		p.SetHealth(a, pool.Down, "gone")
		p.Remove("a")
		p.Add(pool.Spec{ID: "a", Address: "a:1", Weight: 1})
		want(t, "when it is added again", strings.HasPrefix(why(t, p, "a").Text, "gone; "), true)
	})
}

func TestExplainTellsOfWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(t, "a b", pool.Policy{}))
		l := leaseOf(t, p, "b")
		p.Remove("a")
		p.Remove("b")
		p.Add(pool.Spec{ID: "a", Address: "elsewhere:1"})
		x := p.Explain(pool.Query{}, 0)
		want(t, "backends", fmt.Sprint(len(x.Backends)), "3")
		want(t, "added", x.Backends[0].Text, "its weight is 0 by the API")
		want(t, "removed", fmt.Sprint(x.Backends[1]), fmt.Sprint(pool.Reason{ID: "b", Address: "b:1", Word: pool.Removing, Weight: 1, Active: 1,
			Text: "removed by the API; 1 session left", Since: time.Now()}))
		want(t, "deleted", fmt.Sprint(x.Backends[2]), fmt.Sprint(pool.Reason{ID: "a", Address: "a:1", Word: pool.DeletedByAPI,
			Text: "the file has it, and the API removed it", Since: time.Now()}))
		l.Release()
		x = p.Explain(pool.Query{}, 0)
		want(t, "b without sessions", x.Backends[2].Word, pool.DeletedByAPI)
	})
}

func TestExplainOfAnEmptyPool(t *testing.T) {
	p := newPool(t, config(t, "", pool.Policy{TryAll: true}))
	x := p.Explain(pool.Query{}, 0)
	want(t, "text", x.Text, "a new session is refused: no backend is available")
	want(t, "notes and backends", len(x.Notes)+len(x.Backends), 0)
}

func TestExplainTellsOfBackupsAndZones(t *testing.T) {
	c := config(t, "a b c", pool.Policy{Zone: "x"})
	c.Backends[0].Zone, c.Backends[1].Zone, c.Backends[2].Backup = "x", "y", 2
	p := newPool(t, c)
	for id, text := range map[string]string{
		"a": "pick: gets the next session",
		"b": "other_zone: is not in zone x, where enough are usable",
		"c": "backup: is a backup (tier 2), and enough others are usable",
	} {
		r := why(t, p, id)
		want(t, id, string(r.Word)+": "+r.Text, text)
		want(t, id+" is eligible", r.Eligible, true)
	}
}

// With the zone full another is in use, and with all of a tier in vain the next:
// those beside the pick have their turns, and those behind it stand by.
func TestExplainOfAPickThatIsNotOfTheFirst(t *testing.T) {
	ss := tiered("a@x b@y c@z d/1@x e/1@y f/2")
	ss[0].MaxSessions = 1
	p := newPool(t, pool.Config{Strategy: strategy(t, "round_robin", ""), Policy: pool.Policy{Zone: "x"}, Backends: ss})
	l := acquire(t, p)
	words := func(avoid ...*pool.Backend) (list string) {
		for _, r := range p.Explain(pool.Query{Avoid: avoid}, 0).Backends {
			list += fmt.Sprint(r.ID, " ", r.Word, ": ", r.Text, "\n")
		}
		return list
	}
	want(t, "with the zone full", words(), `a full: has 1 session, of max_sessions = 1
b pick: gets the next session
c next_turns: its turn comes later
d backup: is a backup (tier 1), and enough others are usable
e backup: is a backup (tier 1), and enough others are usable
f backup: is a backup (tier 2), and enough others are usable
`)
	tier := []*pool.Backend{l.Backend()}
	for range 2 {
		b, _ := p.Preview(pool.Query{Avoid: tier})
		tier = append(tier, b)
	}
	l.Release()
	full := 1
	for _, id := range []string{"b", "c"} {
		p.Patch(id, pool.Patch{MaxSessions: &full})
	}
	hold(t, p, 3)
	want(t, "with the tier full", words(), `a full: has 1 session, of max_sessions = 1
b full: has 1 session, of max_sessions = 1
c full: has 1 session, of max_sessions = 1
d backup: is a backup (tier 1), and enough others are up, though full
e backup: is a backup (tier 1), and enough others are up, though full
f backup: is a backup (tier 2), and enough others are up, though full
`)
	want(t, "with the tier in vain", words(tier...), `a full: has 1 session, of max_sessions = 1
b full: has 1 session, of max_sessions = 1
c full: has 1 session, of max_sessions = 1
d pick: gets the next session
e other_zone: is not in zone x, where enough are usable
f backup: is a backup (tier 2), and enough others are usable
`)
}

// Under least_connections a newcomer without sessions sits turns out.
func TestExplainTellsOfASlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pool.Config{Strategy: strategy(t, "least_connections", "first"), Backends: parse(t, "a b"), Policy: pool.Policy{SlowStart: 16 * time.Second}}
		p := newPool(t, c)
		p.Add(pool.Spec{ID: "c", Address: "c:1", Weight: 1})
		hold(t, p, 2)
		for range 16 {
			acquire(t, p).Release()
			c := why(t, p, "c")
			if c.Word == pool.Starting && c.Text == "starts slowly, and sits this turn out" {
				return
			}
		}
		t.Error("it never sits a turn out")
	})
}

// It may be asked at any time, and every answer is whole.
func TestExplainWhileAllChanges(t *testing.T) {
	for _, s := range everyStrategy(t) {
		ss := specs(8)
		c := pool.Config{Strategy: s, Policy: pool.Policy{MaxFailures: 1, RetryAfter: time.Millisecond}, Backends: ss}
		p := newPool(t, c)
		var work sync.WaitGroup
		for seed := range uint64(2) {
			work.Go(func() {
				rng := rand.New(rand.NewPCG(seed, 3))
				var l pool.Lease
				for range 300 {
					upset(p, c, rng)
					if p.Acquire(&l, pool.Query{}) == nil {
						l.Backend().NoteProbe(errDial)
						l.Failed("refused", errDial)
					}
				}
			})
		}
		work.Go(func() {
			for range 300 {
				x := p.Explain(pool.Query{}, 50)
				seen := map[string]bool{}
				for _, r := range x.Backends {
					if seen[r.ID+r.Address] || r.Text == "" || r.Word == pool.PassedOver {
						t.Errorf("got %+v in %+v", r, x)
					}
					seen[r.ID+r.Address] = true
				}
			}
		})
		work.Wait()
	}
}

// free returns the index of a lease that holds nothing, -1 if each does.
func free(ls []pool.Lease) int {
	for i := range ls {
		if ls[i].Backend() == nil {
			return i
		}
	}
	return -1
}

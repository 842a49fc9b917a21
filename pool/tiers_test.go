package pool_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// tiered turns "a b/1 c@x d/1@x" into backends: id, tier, zone.
func tiered(text string) (ss []pool.Spec) {
	for _, word := range strings.Fields(text) {
		name, zone, _ := strings.Cut(word, "@")
		id, tier, _ := strings.Cut(name, "/")
		s := pool.Spec{ID: id, Address: id + ":1", Weight: 1, Zone: zone}
		fmt.Sscan(tier, &s.Backup)
		ss = append(ss, s)
	}
	return ss
}

// inUse returns the ids of the backends that the status shows as in use.
func inUse(p *pool.Pool) (ids string) {
	for _, b := range p.Status().Backends {
		if b.InUse {
			ids += b.ID
		}
	}
	return ids
}

// reached returns the ids of those that get sessions, sorted.
func reached(p *pool.Pool) string {
	seen := map[string]bool{}
	for range 3 * len(p.Status().Backends) {
		var l pool.Lease
		if p.Acquire(&l, pool.Query{}) == nil {
			seen[l.Backend().ID()] = true
		}
		l.Release()
	}
	var ids []string
	for id := range seen {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return strings.Join(ids, "")
}

// down makes the backends with these letters down, and all others up.
func down(p *pool.Pool, letters string) {
	for _, b := range p.Probed() {
		h := pool.Up
		if strings.Contains(letters, b.ID()) {
			h = pool.Down
		}
		p.SetHealth(b, h, "probe")
	}
}

func TestTiersAndZones(t *testing.T) {
	for _, c := range []struct {
		backends string
		policy   pool.Policy
		down     string
		want     string
	}{
		{"a b c/1", pool.Policy{}, "", "ab"},
		{"a b c/1", pool.Policy{}, "a", "b"},
		{"a b c/1", pool.Policy{}, "ab", "c"},
		{"c/1 a b", pool.Policy{}, "a", "b"}, // the order in the file means nothing
		{"a b c/1 d/2", pool.Policy{}, "abc", "d"},
		{"a b/3 c/7", pool.Policy{}, "a", "b"},
		{"a/1 b/1", pool.Policy{}, "", "ab"}, // nothing but backups
		{"a b c d/1", pool.Policy{BackupMin: 3}, "", "abc"},
		{"a b c d/1", pool.Policy{BackupMin: 3}, "b", "acd"}, // N+1
		{"a b c d/1 e/2", pool.Policy{BackupMin: 3}, "bd", "ace"},
		{"a b", pool.Policy{BackupMin: 5}, "", "ab"},
		{"a@x b@y", pool.Policy{}, "", "ab"}, // this process has no zone
		{"a@x b@y c", pool.Policy{Zone: "x"}, "", "a"},
		{"a@x b@y c", pool.Policy{Zone: "x"}, "a", "bc"},
		{"a@x b@y", pool.Policy{Zone: "z"}, "", "ab"},
		{"a@x b@x c@y", pool.Policy{Zone: "x", ZoneMin: 2}, "", "ab"},
		{"a@x b@x c@y", pool.Policy{Zone: "x", ZoneMin: 2}, "b", "ac"},
		{"a@x b@y c/1@x d/1@y", pool.Policy{Zone: "x"}, "a", "b"}, // tiers come first
		{"a@x b@y c/1@x d/1@y", pool.Policy{Zone: "x"}, "ab", "c"},
		{"a b c/1", pool.Policy{TryAll: true}, "abc", "abc"},
		{"a b c/1", pool.Policy{TryAll: true, PanicBelow: 50}, "ab", "abc"}, // the backup too, which is up
	} {
		c.policy.Probed = true
		p := newPool(t, pool.Config{Strategy: strategy(t, "round_robin", ""), Policy: c.policy, Backends: tiered(c.backends)})
		down(p, c.down)
		name := fmt.Sprintf("%s %+v without %q", c.backends, c.policy, c.down)
		want(t, name+": in use", inUse(p), c.want)
		want(t, name+": reached", reached(p), c.want)
	}
}

// One session goes on from what failed: to the other zones, and then to the
// backups, tier by tier.
func TestSessionGoesOnThroughLevels(t *testing.T) {
	p := newPool(t, pool.Config{
		Strategy: strategy(t, "round_robin", ""), Policy: pool.Policy{Zone: "x"}, Backends: tiered("e/2 d/1 b@y a@x c/1@x"),
	})
	var q pool.Query
	var got string
	for range 5 {
		b, _ := p.Preview(q)
		var l pool.Lease
		if err := p.Acquire(&l, q); err != nil || l.Backend() != b {
			t.Fatalf("after %s: got %v and %v, want %v", got, l.Backend(), err, b)
		}
		got += b.ID()
		q.Avoid = append(q.Avoid, b)
		l.Release()
	}
	want(t, "the order", got, "abcde")
	want(t, "after all", p.Acquire(new(pool.Lease), q), pool.ErrNoBackend)
	want(t, "Eligible", p.Eligible(), 5)
}

// A full zone spills over into the others; a full tier into no backup, whether
// there is a queue or not.
func TestFullTierDoesNotSpill(t *testing.T) {
	ss := tiered("a@x b@y c/1")
	ss[0].MaxSessions, ss[1].MaxSessions = 1, 1
	p := newPool(t, pool.Config{Strategy: strategy(t, "round_robin", ""), Policy: queuedIn("x"), Backends: ss})
	a, b := acquire(t, p), acquire(t, p)
	want(t, "first", a.Backend().ID(), "a")
	want(t, "with its zone full", b.Backend().ID(), "b")
	want(t, "with the tier full", p.Acquire(new(pool.Lease), pool.Query{}), pool.ErrFull)
	var l pool.Lease
	if err := p.Acquire(&l, pool.Query{Avoid: []*pool.Backend{a.Backend()}}); err != pool.ErrFull {
		t.Errorf("with one avoided and one full: got %v", err)
	}
	// Who has tried the whole tier waits for nobody, and nobody who waits gets what
	// is for it.
	w := join(p)
	if err := p.Acquire(&l, pool.Query{Avoid: []*pool.Backend{a.Backend(), b.Backend()}}); err != nil || l.Backend().ID() != "c" {
		t.Errorf("with all avoided: got %v, %v", l.Backend(), err)
	}
	want(t, "who waits", w.has(), pool.ErrWaiting.Error())
	a.Release()
	want(t, "who waits", w.has(), "a")
	l.Release()
	b.Release()
	w.lease.Release()
}

func queuedIn(zone string) pool.Policy {
	pol := queued(5)
	pol.Zone = zone
	return pol
}

// Failed dials take out the last of a tier, since there is a backup; but not the
// last of all.
func TestLastOfATierIsTakenOut(t *testing.T) {
	p := newPool(t, pool.Config{
		Strategy: strategy(t, "round_robin", ""), Policy: pool.Policy{MaxFailures: 1, Probed: true}, Backends: tiered("a b/1"),
	})
	acquire(t, p).Failed("refused", errors.New("refused"))
	want(t, "in use", inUse(p), "b")
	acquire(t, p).Failed("refused", errors.New("refused"))
	want(t, "in use", inUse(p), "b")
}

// A tier of which only one that another session tries is left keeps nobody from the
// backups: it is not full.
func TestTrialOfAnotherIsNotAFullTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, pool.Config{
			Strategy: strategy(t, "round_robin", ""), Policy: pool.Policy{MaxFailures: 1, RetryAfter: time.Second}, Backends: tiered("a b c/1"),
		})
		a, b := backend(t, p, "a"), backend(t, p, "b")
		leaseOf(t, p, "a").Failed("refused", errDial)
		time.Sleep(time.Second)
		synctest.Wait()
		tries := new(pool.Lease)
		if err := p.Acquire(tries, pool.Query{Avoid: []*pool.Backend{b}}); err != nil || tries.Backend() != a {
			t.Fatalf("got %v and %v, want the trial", tries.Backend(), err)
		}
		defer tries.Release()
		var l pool.Lease
		if err := p.Acquire(&l, pool.Query{Avoid: []*pool.Backend{b}}); err != nil || l.Backend().ID() != "c" {
			t.Errorf("with a tried and b in vain: got %v and %v", l.Backend(), err)
		}
		l.Release()
	})
}

// Turns go on where they were when a backup comes and goes.
func TestTurnsSurviveTiers(t *testing.T) {
	p := newPool(t, pool.Config{
		Strategy: strategy(t, "round_robin", ""), Policy: pool.Policy{BackupMin: 3, Probed: true}, Backends: tiered("a b c d/1"),
	})
	turn := func(n int) (ids string) {
		for range n {
			l := acquire(t, p)
			ids += l.Backend().ID()
			l.Release()
		}
		return ids
	}
	got := turn(1)
	down(p, "c")
	got += " " + turn(4)
	down(p, "")
	got += " " + turn(3)
	want(t, "turns", got, "a bdab cab")
}

// Whatever is up: what is in use follows from the rule, every backend that is fit
// is reached by a session that avoids all others, and least of all does a backup
// get a session while enough others are there.
func TestTiersMatchTheModel(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		var ss []pool.Spec
		for i := range 1 + rng.IntN(7) {
			id := string(rune('a' + i))
			ss = append(ss, pool.Spec{ID: id, Address: id + ":1", Weight: 1, Backup: rng.IntN(3), Zone: []string{"", "x", "y"}[rng.IntN(3)]})
		}
		pol := pool.Policy{Probed: true, Init: pool.InitProbe, BackupMin: rng.IntN(4), ZoneMin: rng.IntN(3), Zone: []string{"", "x"}[rng.IntN(2)]}
		p := newPool(t, pool.Config{Strategy: strategy(t, "round_robin", ""), Policy: pol, Backends: ss})
		for range 10 {
			up := map[string]bool{}
			all := p.Probed()
			for i, b := range all {
				h := []pool.Health{pool.Up, pool.Down}[rng.IntN(2)]
				p.SetHealth(b, h, "probe")
				up[ss[i].ID] = b.Health() == pool.Up
			}
			for i := range p.Status().Backends {
				up[ss[i].ID] = p.Status().Backends[i].State == "up"
			}
			if got, expected := inUse(p), model(ss, pol, up); got != expected {
				t.Fatalf("%+v %+v, up %v: got %q, want %q", ss, pol, up, got, expected)
			}
			for i, b := range all {
				if !up[ss[i].ID] {
					continue
				}
				var l pool.Lease
				others := slices.DeleteFunc(slices.Clone(all), func(o *pool.Backend) bool { return o == b })
				if err := p.Acquire(&l, pool.Query{Avoid: others}); err != nil || l.Backend() != b {
					t.Fatalf("%+v: nobody can reach %s: %v, %v", ss, b.ID(), l.Backend(), err)
				}
				l.Release()
			}
		}
	}
}

// model is the rule, word for word.
func model(ss []pool.Spec, pol pool.Policy, up map[string]bool) (ids string) {
	highest, usable := -1, 0
	for tier := 0; tier < 3 && usable < max(1, pol.BackupMin); tier++ {
		for _, s := range ss {
			if s.Backup == tier && up[s.ID] {
				usable, highest = usable+1, tier
			}
		}
	}
	near := 0
	for _, s := range ss {
		if s.Backup <= highest && s.Zone == pol.Zone && up[s.ID] {
			near++
		}
	}
	for _, s := range ss {
		if up[s.ID] && s.Backup <= highest && (pol.Zone == "" || near < max(1, pol.ZoneMin) || s.Zone == pol.Zone) {
			ids += s.ID
		}
	}
	return ids
}

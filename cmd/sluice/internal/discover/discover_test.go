package discover_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/cmd/sluice/internal/discover"
)

const every = 10 * time.Second

// grace is longer than an interval with its jitter, and the answers that it takes
// to be sure that something is gone.
const grace = every + every/5 + 5*time.Second

func TestComesAndGoes(t *testing.T) {
	bubble(t, "a.test=10.0.0.2 10.0.0.1 2001:db8::1", func(t *testing.T, r *rig) {
		a := r.use("a.test", every)
		r.mustFind(a, "10.0.0.1 10.0.0.2 2001:db8::1")
		r.answer("a.test=10.0.0.3 10.0.0.1")
		for strings.Count(r.asked("a.test"), "s") < 2 {
			time.Sleep(100 * time.Millisecond)
		}
		r.mustFind(a, "10.0.0.1 10.0.0.2 10.0.0.3 2001:db8::1") // two may only be missing
		if s := r.Status(a); s.Missing != 2 || s.Rotates {
			t.Errorf("got %+v, want two missing", s)
		}
		time.Sleep(3 * time.Second)
		r.mustFind(a, "10.0.0.1 10.0.0.3")
	})
}

// One or two answers that lack an address do not count.
func TestMissedOnce(t *testing.T) {
	for _, missed := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
		bubble(t, "a.test=10.0.0.1 10.0.0.2", func(t *testing.T, r *rig) {
			a := r.use("a.test", every)
			for strings.Count(r.asked("a.test"), "s") < 2 {
				time.Sleep(100 * time.Millisecond)
				r.answer("a.test=10.0.0.1")
			}
			time.Sleep(missed)
			r.answer("a.test=10.0.0.1 10.0.0.2")
			for range 100 {
				time.Sleep(time.Second)
				r.mustFind(a, "10.0.0.1 10.0.0.2")
			}
		})
	}
}

// The last good answer stays, whatever happens, and is there again after it.
func TestKeepsWhatItKnows(t *testing.T) {
	for _, trouble := range []string{"fail", "odd", "none", "hang", ""} {
		bubble(t, "a.test=10.0.0.1 10.0.0.2", func(t *testing.T, r *rig) {
			a := r.use("a.test", every)
			r.answer("a.test=" + trouble)
			time.Sleep(time.Hour)
			r.mustFind(a, "10.0.0.1 10.0.0.2")
			s := r.Status(a)
			if since := time.Since(s.Since); s.Error == "" || since < 58*time.Minute || s.Answered.After(s.Since) {
				t.Errorf("%s: got %+v, want an error since an hour", trouble, s)
			}
			if n := r.count("failed"); n < 200 || n > 400 {
				t.Errorf("%s: %d failures were told, want about one every ten seconds", trouble, n)
			}
			r.answer("a.test=10.0.0.2 10.0.0.3")
			time.Sleep(grace + 5*time.Second)
			r.mustFind(a, "10.0.0.2 10.0.0.3")
			if s := r.Status(a); s.Error != "" {
				t.Errorf("%s: got error %s after a good answer", trouble, s.Error)
			}
		})
	}
}

// A family that cannot be looked up keeps its addresses while the other changes,
// and one of which the server says that there is none loses them.
func TestFamilies(t *testing.T) {
	bubble(t, "a.test=10.0.0.1 2001:db8::1", func(t *testing.T, r *rig) {
		a := r.use("a.test", every)
		for _, c := range []struct{ answer, want string }{
			{"10.0.0.2 6:fail", "10.0.0.2 2001:db8::1"},
			{"4:fail 2001:db8::2", "10.0.0.2 2001:db8::2"},
			{"4:hang 2001:db8::3", "10.0.0.2 2001:db8::3"},
			{"4:none 6:fail", "10.0.0.2 2001:db8::3"},
			{"4:none 2001:db8::3", "2001:db8::3"},
			{"::ffff:10.0.0.7 0.0.0.0 2001:db8::3", "10.0.0.7 2001:db8::3"},
		} {
			r.answer("a.test=" + c.answer)
			time.Sleep(2 * time.Minute)
			r.mustFind(a, c.want)
		}
	})
}

func TestOrderIsNoChange(t *testing.T) {
	bubble(t, "a.test=10.0.0.1 10.0.0.2 10.0.0.2 10.0.0.3", func(t *testing.T, r *rig) {
		a := r.use("a.test", every)
		for i := range 50 {
			r.answer("a.test=" + []string{"10.0.0.2 10.0.0.3 10.0.0.1", "10.0.0.3 10.0.0.1 10.0.0.2"}[i%2])
			time.Sleep(every)
			r.mustFind(a, "10.0.0.1 10.0.0.2 10.0.0.3")
			if s := r.Status(a); s.Missing != 0 || s.Rotates {
				t.Fatalf("got %+v", s)
			}
		}
	})
}

// partial answers with some of n addresses at random, another choice every so
// often, as servers with a cache before them do.
func partial(r *rig, some, n int, each time.Duration, seed uint64) (stop func()) {
	random := rand.New(rand.NewPCG(seed, 1))
	ctx, cancel := context.WithCancel(context.Background())
	next := func() {
		text := "a.test="
		for _, i := range random.Perm(n)[:some] {
			text += fmt.Sprintf(" 10.0.0.%d", i+1)
		}
		r.answer(text)
	}
	next()
	go func() {
		for time.Sleep(each); ctx.Err() == nil; time.Sleep(each) {
			next()
		}
	}()
	return func() { cancel(); time.Sleep(each) }
}

// The known trap: answers with a part of the addresses do not add and remove
// backends all the time.
func TestPartialAnswers(t *testing.T) {
	for _, c := range []struct {
		some, n int
		each    time.Duration
	}{{8, 20, time.Second}, {8, 20, 30 * time.Second}, {1, 3, every}, {3, 5, time.Minute}} {
		for seed := range uint64(3) {
			bubble(t, "", func(t *testing.T, r *rig) {
				stop := partial(r, c.some, c.n, c.each, seed)
				defer stop()
				a := r.use("a.test", every)
				time.Sleep(15 * time.Minute)
				if s := r.Status(a); !s.Rotates || len(s.Found) < c.n-1 {
					t.Fatalf("%+v: got %+v, want a rotation that was found out, of all addresses", c, s)
				}
				lost := 0
				for last := r.found(a); time.Since(r.began) < 3*time.Hour; {
					time.Sleep(every)
					if now := r.found(a); now != last {
						lost, last = lost+1, now
					}
				}
				if lost > 2 {
					t.Errorf("%+v: %d changes in three hours", c, lost)
				}
			})
		}
	}
}

// A member that fails and returns, or one that is replaced, does not make answers
// count as parts.
func TestMembersThatComeAndGoAreNoRotation(t *testing.T) {
	bubble(t, "a.test=10.0.0.1 10.0.0.2 10.0.0.3", func(t *testing.T, r *rig) {
		a := r.use("a.test", every)
		for i := range 30 {
			replaced := fmt.Sprintf("10.0.0.1 10.0.0.2 10.0.1.%d", i)
			for _, answer := range []string{"10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.2 10.0.0.3", replaced} {
				r.answer("a.test=" + answer)
				time.Sleep(grace)
				r.mustFind(a, answer)
			}
		}
		if r.Status(a).Rotates {
			t.Error("the answers count as parts")
		}
	})
}

// A name that goes over to a standby, and back soon after, stands for the standby no
// longer.
func TestFailbackIsNoRotation(t *testing.T) {
	bubble(t, "a.test=10.0.0.1", func(t *testing.T, r *rig) {
		a := r.use("a.test", every)
		for _, answer := range []string{"10.0.0.2", "10.0.0.1"} {
			r.answer("a.test=" + answer)
			time.Sleep(grace)
			r.mustFind(a, answer)
		}
	})
}

// What left long ago and comes back as another leaves is no rotation either.
func TestLongAbsenceIsForgotten(t *testing.T) {
	bubble(t, "a.test=10.0.0.1 10.0.0.2", func(t *testing.T, r *rig) {
		a := r.use("a.test", every)
		r.answer("a.test=10.0.0.2")
		time.Sleep(15 * time.Minute)
		r.answer("a.test=10.0.0.1")
		time.Sleep(grace)
		if r.mustFind(a, "10.0.0.1"); r.Status(a).Rotates {
			t.Error("the answers count as parts")
		}
	})
}

// After answers in parts a server that is mended is believed again.
func TestRotationEnds(t *testing.T) {
	bubble(t, "", func(t *testing.T, r *rig) {
		stop := partial(r, 1, 3, every, 7)
		a := r.use("a.test", every)
		time.Sleep(5 * time.Minute)
		stop()
		r.answer("a.test=10.0.0.1")
		time.Sleep(8 * time.Minute)
		r.mustFind(a, "10.0.0.1 10.0.0.2 10.0.0.3")
		time.Sleep(4 * time.Minute)
		r.mustFind(a, "10.0.0.1")
		time.Sleep(time.Hour)
		r.answer("a.test=10.0.0.1 10.0.0.2")
		time.Sleep(grace)
		r.answer("a.test=10.0.0.1")
		time.Sleep(grace)
		r.mustFind(a, "10.0.0.1")
	})
}

func TestDialFailureLooksAtOnce(t *testing.T) {
	bubble(t, "a.test=10.0.0.1", func(t *testing.T, r *rig) {
		a := r.use("a.test", time.Hour)
		time.Sleep(5 * time.Second)
		r.answer("a.test=10.0.0.2")
		for range 100 { // a storm
			r.Suspect("p", netip.MustParseAddr("10.0.0.1"))
			r.Suspect("p", netip.MustParseAddr("10.0.0.9"))     // not of this name
			r.Suspect("other", netip.MustParseAddr("10.0.0.1")) // nor of this pool
		}
		r.mustFind(a, "10.0.0.1 10.0.0.2")
		time.Sleep(2 * time.Second)
		r.mustFind(a, "10.0.0.2")
		time.Sleep(time.Minute)
		if got := r.asked("a.test"); got != "0s 5s 6s 7s" && got != "0s 5s 6s 7s 8s" {
			t.Errorf("looked up at %s, want one a second until it was sure", got)
		}
		r.Suspect("p", netip.MustParseAddr("10.0.0.9"))
		r.Suspect("other", netip.MustParseAddr("10.0.0.2"))
		if got := r.asked("a.test"); strings.Contains(got, "1m") {
			t.Errorf("looked up at %s", got)
		}
	})
}

// A storm of failures has a name looked up once a second.
func TestStorm(t *testing.T) {
	bubble(t, "a.test=10.0.0.1", func(t *testing.T, r *rig) {
		r.use("a.test", time.Hour)
		for time.Since(r.began) < 20*time.Second {
			r.Suspect("p", netip.MustParseAddr("10.0.0.1"))
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(strings.Fields(r.asked("a.test"))); n < 18 || n > 21 {
			t.Errorf("%d look-ups in 20 s", n)
		}
	})
}

// A name that does not exist yet is looked up soon again, and less often in time.
func TestNameThatExistsLater(t *testing.T) {
	bubble(t, "a.test=none", func(t *testing.T, r *rig) {
		a := r.use("a.test", every)
		if _, known := r.Found(a); known {
			t.Error("something is known")
		}
		time.Sleep(16 * time.Second)
		if got := r.asked("a.test"); !strings.HasPrefix(got, "0s 1s 3s 7s 1") {
			t.Errorf("looked up at %s", got)
		}
		r.answer("a.test=10.0.0.1")
		time.Sleep(every + every/9)
		r.mustFind(a, "10.0.0.1")
	})
}

func TestFirst(t *testing.T) {
	bubble(t, "a.test=10.0.0.1; b.test=fail; c.test=hang", func(t *testing.T, r *rig) {
		keys := []discover.Key{{Pool: "p", Host: "a.test"}, {Pool: "p", Host: "b.test"}, {Pool: "p", Host: "unused.test"}}
		hang := discover.Key{Pool: "p", Host: "c.test"}
		p := discover.Policy{Every: every, Source: r.source}
		r.Use(map[discover.Key]discover.Policy{keys[0]: p, keys[1]: p, hang: p})
		r.First(context.Background(), keys)
		r.mustFind(keys[0], "10.0.0.1")
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		r.First(ctx, append(keys, hang))
		if got := time.Since(r.began); got != 2*time.Second {
			t.Errorf("waited for %v, want 2s", got)
		}
	})
}

// What is known outlives a change of the interval and of the source; the new
// source is asked at once.
func TestUse(t *testing.T) {
	bubble(t, "a.test=10.0.0.1; b.test=10.0.0.9", func(t *testing.T, r *rig) {
		a := r.use("a.test", time.Hour)
		time.Sleep(10 * time.Second)
		r.use("a.test", 20*time.Second)
		time.Sleep(13 * time.Second)
		if got := r.asked("a.test"); !strings.HasPrefix(got, "0s 1") && !strings.HasPrefix(got, "0s 2") {
			t.Errorf("looked up at %s, want about 20 s after the first", got)
		}
		r.use("a.test", time.Hour)
		r.answer("a.test=fail")
		r.source = &discover.Source{IP: r.ip, SRV: r.srv}
		r.use("a.test", time.Hour)
		time.Sleep(time.Second)
		if n := r.count("failed"); n != 1 {
			t.Errorf("%d failures, want that of the new source", n)
		}
		r.mustFind(a, "10.0.0.1")
		told := r.count("failed") + r.count("answered a")
		b := r.use("b.test", time.Hour) // and no longer a
		r.mustFind(a, "")
		r.mustFind(b, "10.0.0.9")
		r.answer("a.test=10.0.0.1")
		time.Sleep(3 * time.Hour)
		if n := r.count("failed") + r.count("answered a"); n != told {
			t.Errorf("%d were told of a name that is not in use", n)
		}
		r.Close()
		r.use("a.test", every) // too late
		time.Sleep(time.Hour)
		r.mustFind(a, "")
	})
}

// No end finds a look-up under way that tells of itself.
func TestCloseGivesUp(t *testing.T) {
	bubble(t, "a.test=hang", func(t *testing.T, r *rig) {
		r.use("a.test", every)
		time.Sleep(time.Second)
		r.Close()
		synctest.Wait()
		if n := r.count(""); n != 0 {
			t.Errorf("%d hooks were called", n)
		}
	})
}

func TestManyAddresses(t *testing.T) {
	bubble(t, "", func(t *testing.T, r *rig) {
		text := "a.test="
		for i := range 300 {
			text += fmt.Sprintf(" 10.0.%d.%d", (299-i)/250, (299-i)%250)
		}
		r.answer(text)
		a := r.use("a.test", every)
		list, _ := r.Found(a)
		if s := r.Status(a); len(list) != discover.MaxFound || s.LeftOut != 300-discover.MaxFound {
			t.Fatalf("got %d, %d left out", len(list), s.LeftOut)
		}
		if last := list[len(list)-1].Addr.String(); last != "10.0.1.5" {
			t.Errorf("the last is %s, want that of the first %d, sorted", last, discover.MaxFound)
		}
	})
}

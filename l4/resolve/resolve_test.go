package resolve_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/l4/resolve"
)

// The pattern of look-ups over time. A script's word is a time that passes,
// "ask" (which waits only if it is the first), "fail" for a dial that failed, or
// "=text" for a new answer of the resolver, with commas for spaces.
func TestWhenNamesAreLookedUp(t *testing.T) {
	for _, c := range []struct{ name, script, looks string }{
		{"asked once", "=10.1.0.1 ask 5m", "0s 10s 20s 30s 40s 50s"},
		{"asked late again", "=10.1.0.1 ask 55s ask 5m", "0s 10s 20s 30s 40s 50s 1m0s 1m10s 1m20s 1m30s 1m40s 1m50s"},
		{"asked after it was forgotten", "=10.1.0.1 ask 2m ask 15s", "0s 10s 20s 30s 40s 50s 2m0s 2m10s"},
		{"many questions", "=10.1.0.1 ask ask 1s ask 5s ask ask 6s ask", "0s 10s"},
		{"a slow answer does not put off the next", "=3s,10.1.0.1 ask 30s", "0s 10s 20s 30s"},
		{"a resolver that hangs", "=hang ask 24s", "0s 10s 20s"},
		{"an error does not hasten the next", "=10.1.0.1 ask 5s =error 25s", "0s 10s 20s 30s"},
		{"a name that fails is looked up for each question, once a second", "=error ask 300ms ask 300ms ask 399ms ask 1ms ask 500ms ask 500ms ask 9s", "0s 1s 2s"},
		{"and else every ten", "=error ask 25s", "0s 10s 20s"},
		{"a dial failed", "=10.1.0.1 ask 5s fail 14s", "0s 5s 15s"},
		{"dials failed", "=10.1.0.1 ask 5s fail fail 400ms fail 600ms fail 1s fail 3s", "0s 5s 6s 7s 8s"},
		{"a dial failed within the second", "=10.1.0.1 ask 200ms fail 100ms fail 9s", "0s 1s"},
		{"a dial failed during a look-up", "=10.1.0.1 ask 5s =2s,10.1.0.1 fail 1500ms fail 4s", "0s 5s"},
		{"a dial failed as the timer fires", "=10.1.0.1 ask 10s fail 500ms", "0s 10s"},
		{"a dial of an unknown name failed", "fail 1m", ""},
		{"a dial of a forgotten name failed", "=10.1.0.1 ask 61s fail 1m", "0s 10s 20s 30s 40s 50s"},
		{"dials that fail do not keep a name", "=10.1.0.1 ask 59900ms fail 1s fail 1m", "0s 10s 20s 30s 40s 50s 59.9s 1m0.9s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, "", func(t *testing.T, r *rig) {
				for _, word := range strings.Fields(c.script) {
					if text, ok := strings.CutPrefix(word, "="); ok {
						r.answer("a.test=" + strings.ReplaceAll(text, ",", " "))
						continue
					}
					switch word {
					case "ask":
						ctx, cancel := context.WithCancel(context.Background())
						if r.looks["a.test"] != "" {
							cancel() // must not have to wait
						}
						r.Lookup(ctx, "a.test")
						cancel()
					case "fail":
						r.Failed("a.test")
					default:
						d, err := time.ParseDuration(word)
						if err != nil {
							t.Fatal(err)
						}
						time.Sleep(d)
					}
					synctest.Wait()
				}
				r.mustLook("a.test", c.looks)
			})
		})
	}
}

func TestOnlyTheFirstWaits(t *testing.T) {
	bubble(t, "a.test=700ms 10.1.0.1 10.1.0.2; b.test=10.2.0.1", func(t *testing.T, r *rig) {
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if got := r.ask("a.test", 700*time.Millisecond); got != "10.1.0.1 10.1.0.2" {
					t.Errorf("got %s", got)
				}
			})
		}
		synctest.Wait()
		r.ask("b.test", 0) // another name does not wait for this one
		all.Wait()
		r.answer("a.test=700ms 10.1.0.9")
		for r.since() < 10*time.Second {
			r.mustAnswer("a.test", "10.1.0.1 10.1.0.2")
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(750 * time.Millisecond)
		r.mustAnswer("a.test", "10.1.0.9")
		r.mustLook("a.test", "0s 10s")
	})
}

// The last good answer stays, whatever the resolver does.
func TestLastAnswerStaysWhileTheResolverFails(t *testing.T) {
	for _, trouble := range []string{"error", "odd", "hang", "", "3s error"} {
		bubble(t, "a.test=10.1.0.1 10.1.0.2", func(t *testing.T, r *rig) {
			r.ask("a.test", 0)
			r.answer("a.test=" + trouble)
			for r.since() < 5*time.Minute {
				r.mustAnswer("a.test", "10.1.0.1 10.1.0.2")
				time.Sleep(7 * time.Second)
			}
			if n := len(r.told()); n < 28 || n > 30 {
				t.Errorf("%s: the hook was told of %d failures, want one every ten seconds", trouble, n)
			}
			r.answer("a.test=10.1.0.2 10.1.0.3")
			time.Sleep(15 * time.Second)
			r.mustAnswer("a.test", "10.1.0.2 10.1.0.3")
		})
	}
}

func TestFailingNameAnswersAtOnce(t *testing.T) {
	for _, c := range []struct {
		trouble string
		first   time.Duration // how long the first waits
	}{{"error", 0}, {"odd", 0}, {"", 0}, {"300ms error", 300 * time.Millisecond}} {
		bubble(t, "a.test="+c.trouble, func(t *testing.T, r *rig) {
			if got := r.ask("a.test", c.first); got != "error" {
				t.Errorf("got %s", got)
			}
			for range 50 {
				r.mustAnswer("a.test", "error")
				time.Sleep(100 * time.Millisecond)
			}
			r.answer("a.test=10.1.0.1")
			time.Sleep(time.Second)
			r.ask("a.test", 0) // this question asks the resolver
			synctest.Wait()
			r.mustAnswer("a.test", "10.1.0.1")
			if told := r.told(); len(told) == 0 || told[0] != "a.test" {
				t.Errorf("the hook was told of %v", told)
			}
		})
	}
}

// A resolver that hangs delays those who ask first, for as long as they have;
// once it is known to hang nobody waits for it.
func TestHangingResolverDelaysOnlyTheFirst(t *testing.T) {
	bubble(t, "a.test=hang; b.test=10.2.0.1", func(t *testing.T, r *rig) {
		if got := r.ask("a.test", 2*time.Second); got != "error" {
			t.Errorf("got %s", got)
		}
		r.ask("b.test", 0)
		if got := r.askFor("a.test", time.Minute, 3*time.Second); got != "error" {
			t.Errorf("got %s", got)
		}
		for range 300 {
			r.mustAnswer("a.test", "error")
			r.mustAnswer("b.test", "10.2.0.1")
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// A look-up that never ends is the only one of its name, and holds up no other.
func TestDeafResolver(t *testing.T) {
	bubble(t, "a.test=deaf; b.test=10.2.0.1", func(t *testing.T, r *rig) {
		for range 10 {
			r.ask("a.test", 2*time.Second)
			r.mustAnswer("b.test", "10.2.0.1")
		}
		r.Failed("a.test")
		r.mustLook("a.test", "0s")
	})
}

// An answer that is there counts, even for one whose time is over.
func TestAnswerAndEndOfTimeTogether(t *testing.T) {
	bubble(t, "a.test=1s 10.1.0.1", func(t *testing.T, r *rig) {
		r.ask("a.test", time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for range 50 {
			if addrs, err := r.Lookup(ctx, "a.test"); err != nil || len(addrs) != 1 {
				t.Fatalf("got %v, %v", addrs, err)
			}
		}
	})
}

// The dead address of a name is left for the new one within two failures and a
// second, however long the resolver's answers may be kept.
func TestDialFailureFindsTheNewAddress(t *testing.T) {
	for _, after := range []time.Duration{0, 300 * time.Millisecond, 4 * time.Second} {
		bubble(t, "a.test=10.1.0.1", func(t *testing.T, r *rig) {
			r.ask("a.test", 0)
			r.Worked("a.test", addr("10.1.0.1"))
			time.Sleep(after)
			r.answer("a.test=10.1.0.2")
			r.Failed("a.test")
			r.Failed("a.test")
			time.Sleep(time.Second)
			synctest.Wait()
			r.mustAnswer("a.test", "10.1.0.2")
		})
	}
}

// A question comes at the very moment in which a name is looked up again or
// forgotten: whoever is first, the answer is there.
func TestQuestionAtTheMomentOfTheTimer(t *testing.T) {
	for _, at := range []time.Duration{10 * time.Second, time.Minute} {
		for range 100 {
			bubble(t, "a.test=10.1.0.1", func(t *testing.T, r *rig) {
				r.ask("a.test", 0)
				time.Sleep(at)
				r.mustAnswer("a.test", "10.1.0.1")
				r.Failed("a.test")
				r.mustAnswer("a.test", "10.1.0.1")
				time.Sleep(9 * time.Second)
				r.mustAnswer("a.test", "10.1.0.1")
			})
		}
	}
}

func TestClose(t *testing.T) {
	bubble(t, "a.test=10.1.0.1; b.test=hang; c.test=10.3.0.1", func(t *testing.T, r *rig) {
		r.ask("a.test", 0)
		var waits sync.WaitGroup
		waits.Go(func() {
			if got := r.askFor("b.test", time.Minute, time.Second); got != "error" {
				t.Errorf("got %s", got)
			}
		})
		time.Sleep(time.Second)
		r.Close() // ends the look-up that hangs, and so the wait
		waits.Wait()
		for range 20 {
			r.mustAnswer("a.test", "10.1.0.1")
			r.mustAnswer("b.test", "error")
			r.mustAnswer("c.test", "error")
			r.Worked("a.test", addr("10.1.0.1"))
			r.Failed("a.test")
			r.Failed("c.test")
			time.Sleep(10 * time.Second)
		}
		r.mustLook("a.test", "0s")
		r.mustLook("b.test", "0s")
		r.mustLook("c.test", "")
		if told := r.told(); len(told) != 0 {
			t.Errorf("the hook was told of %v: those look-ups were given up", told)
		}
	})
}

// Everything at once, under the race detector.
func TestConcurrentUse(t *testing.T) {
	bubble(t, "a.test=10.1.0.1 10.1.0.2; b.test=error; c.test=1s 10.3.0.1 10.3.0.2; d.test=hang", func(t *testing.T, r *rig) {
		hosts := []string{"a.test", "b.test", "c.test", "d.test"}
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				pause := time.Duration(i+1) * 37 * time.Millisecond
				for k := 0; r.since() < 3*time.Minute; k++ {
					host := hosts[(i+k)%len(hosts)]
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					addrs, err := r.Lookup(ctx, host)
					cancel()
					switch {
					case (err == nil) != (len(addrs) > 0):
						t.Errorf("%s: got %v, %v", host, addrs, err)
					case err == nil && k%3 == 0:
						r.Worked(host, addrs[len(addrs)-1])
					case k%5 == 0:
						r.Failed(host)
					}
					if i == 7 && k%50 == 49 {
						time.Sleep(70 * time.Second)
					}
					time.Sleep(pause)
				}
			})
		}
		time.Sleep(2 * time.Minute)
		r.Close()
		all.Wait()
	})
}

// The system's resolver is the default.
func TestSystemResolver(t *testing.T) {
	c := resolve.New(nil, nil)
	defer c.Close()
	addrs, err := c.Lookup(t.Context(), "localhost")
	if err != nil {
		t.Skipf("localhost has no address here: %v", err)
	}
	for _, a := range addrs {
		if !a.IsLoopback() {
			t.Errorf("localhost is at %v", a)
		}
	}
}

//go:build linux

package l4_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// contest plays scripts direct and balanced, and compares.
type contest struct {
	t                testing.TB
	direct, balanced *arena
}

// newContest returns a contest that checks, at the end of the test, that
// nothing is left of its sessions.
func newContest(t testing.TB, start starter, set session.Settings) *contest {
	c := &contest{t: t, direct: direct(t), balanced: balanced(t, start, set)}
	t.Cleanup(func() { c.balanced.leftovers(t) })
	return c
}

// all plays the scripts at once, and the first that fails again, shrunk.
func (c *contest) all(scripts []script, name func(i int) string) {
	var wg sync.WaitGroup
	failed := make(chan script, len(scripts))
	for i, s := range scripts {
		wg.Go(func() {
			if !c.one(s, name(i)) {
				failed <- s
			}
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		c.shrink(<-failed)
	}
}

// one plays one script, and reports what is wrong.
func (c *contest) one(s script, name string) (ok bool) {
	wrong := c.try(s)
	if wrong != "" {
		c.t.Errorf("%s: %q\n%s", name, s, wrong)
	}
	return wrong == ""
}

// shrink looks for a shorter script that fails by itself.
func (c *contest) shrink(s script) {
	const attempts, atOnce = 40, 8
	began, last := time.Now(), ""
	s = shrink(s, attempts, func(s script) bool {
		failed := make(chan string, atOnce)
		var wg sync.WaitGroup
		for range atOnce {
			wg.Go(func() {
				if wrong := c.try(s); strings.Contains(wrong, "balanced:") {
					failed <- wrong
				}
			})
		}
		wg.Wait()
		if len(failed) == 0 || time.Since(began) > 3*l4test.Patience {
			return false
		}
		last = <-failed
		return true
	})
	if last != "" {
		c.t.Errorf("shrunk: %q\n%s", s, last)
	}
}

// try returns what is wrong with a script, or nothing.
func (c *contest) try(s script) string {
	direct := c.direct.play(s)
	if wrong := s.judge(direct); wrong != nil {
		return fmt.Sprintf("direct:   %v\n          %s", direct, strings.Join(wrong, "\n          "))
	}
	balanced := c.balanced.play(s)
	wrong := append(s.judge(balanced), s.audit(balanced)...)
	wrong = append(wrong, s.compare(direct, balanced)...)
	if wrong == nil {
		return ""
	}
	return fmt.Sprintf("direct:   %v\nbalanced: %v\n          %s", direct, balanced, strings.Join(wrong, "\n          "))
}

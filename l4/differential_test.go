//go:build linux

package l4_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// The differential test: what a client and a backend do is written down as a
// script, and the same script is played by two ends that are connected directly
// and by two ends with a balancer between them. Both must come to the same; see
// the rules for what may differ. Linux alone, since there the rules were
// measured.
//
// A failure prints the script. To keep it as a case, add it to fixedScripts.

var differentialSeeds = flag.Int("differential.seeds", 200, "how many random scripts the differential test plays: seeds from 1 on")

// seedsPerArena is how many scripts share a frontend, so that sessions end
// beside others that go on.
const seedsPerArena = 25

func TestDifferential(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for first := 1; first <= *differentialSeeds; first += seedsPerArena {
			last := min(first+seedsPerArena-1, *differentialSeeds)
			t.Run(fmt.Sprintf("%d-%d", first, last), func(t *testing.T) {
				t.Parallel()
				var scripts []script
				for seed := first; seed <= last; seed++ {
					scripts = append(scripts, randomScript(uint64(seed)))
				}
				newContest(t, start, defaults()).all(scripts, func(i int) string { return fmt.Sprintf("seed %d", first+i) })
			})
		}
	})
}

// fixedScripts are always played, each many times at once.
var fixedScripts = map[string]struct {
	script string
	times  int
	limits func(*session.Settings)
}{
	"data and end in one segment":            {script: "client last 1000; backend ended; backend last 2500", times: 100},
	"data and end in one segment, backwards": {script: "backend last 1000; client ended; client last 2500", times: 100},
	"the end before the answer":              {script: "client write 1000; client end; backend ended; backend write 3000000; backend end", times: 6},
	"the end behind the answer":              {script: "client write 1000; backend read; backend last 3000; client ended; client write 2000", times: 50},
	"both end at once":                       {script: "client last 1000; backend last 2500", times: 50},
	"large, both ways":                       {script: "client write 3000000; backend write 5000000; client end; backend end", times: 3},
	"end, then reset":                        {script: "client write 1000; client end; client reset", times: 50},
	"end, then reset, backwards":             {script: "client write 10; backend write 1000; backend end; backend reset", times: 50},
	"end and its data, then reset":           {script: "client last 1000; client reset", times: 50},
	"end, seen, then reset":                  {script: "backend write 3000000; backend end; client ended; backend sync; backend reset", times: 10},
	"reset":                                  {script: "client write 1000; backend read; client sync; client reset", times: 50},
	"reset behind data":                      {script: "client write 1000; client reset", times: 50},
	"reset behind more data":                 {script: "client write 250000; client reset", times: 30},
	"reset under traffic":                    {script: "backend write 3000000; client take 1000; client reset", times: 10},
	"reset between small writes":             {script: "client write 1000; backend read; backend drip 2000000; client take 5000; client reset", times: 30},
	"close between small writes":             {script: "client write 1000; backend read; backend drip 2000000; client take 5000; client close", times: 30},
	"end and close between small writes":     {script: "client last 1000; client close; backend drip 2000000", times: 60},
	"reset behind back-pressure":             {script: "backend hold; client push 33554432; client reset; backend sync", times: 3},
	"reset behind back-pressure, backwards":  {script: "client hold; backend push 33554432; backend reset; client sync", times: 3},
	"close behind back-pressure":             {script: "backend hold; client push 33554432; client close; backend sync", times: 3},
	"close with unread input":                {script: "client hold; backend write 1000; client sync; client close", times: 20},
	"close after the answer":                 {script: "client write 10; backend write 3000000; client read; client close", times: 10},
	"close, then the answer":                 {script: "client write 10; client close; backend sync; backend write 3000000", times: 10},
	"both reset":                             {script: "client write 10; backend write 20; client reset; backend reset", times: 50},
	"urgent":                                 {script: "client write 1000; backend read; client urgent; client write 500; client end; backend ended", times: 20},
	"urgent at the end":                      {script: "backend write 1000; client read; backend urgent; backend end; client ended", times: 20},
	"urgent under back-pressure":             {script: "backend hold; client write 1000; client urgent; client write 2000000; client end; backend sync; backend ended", times: 3},
	"urgent, data, then reset":               {script: "client urgent; client write 14; client reset", times: 50},
	"urgent, data, then reset, backwards":    {script: "backend write 7000; backend urgent; backend write 14; backend reset", times: 50},
	"urgent in the middle of much":           {script: "client write 3000000; client urgent; client write 3000000; backend read; client last 1", times: 5},
	"urgent behind much, backwards":          {script: "backend write 3000000; backend urgent; backend write 100; client read; backend last 1", times: 5},
	"one pauses":                             {script: "client hold; backend write 5000000; client sync; client take 100000; client sync; client read; client last 10", times: 3},
	"both pause in turn":                     {script: "client hold; backend write 4000000; client sync; client read; backend hold; client write 3000000; backend sync; backend read", times: 3},
	// A send queue of megabytes reports room only after a third of it has gone,
	// which takes a second here.
	"slow is not idle":            {script: "client slow; client end; backend last 4000000", times: 3, limits: shortLimits},
	"slow is not idle, backwards": {script: "backend slow; client write 4000000; backend read; client end", times: 3, limits: shortLimits},
}

func shortLimits(set *session.Settings) {
	set.IdleTimeout, set.HalfCloseTimeout = 900*time.Millisecond, 800*time.Millisecond
}

func TestDifferentialFixed(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for name, fixed := range fixedScripts {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				set := defaults()
				if fixed.limits != nil {
					fixed.limits(&set)
				}
				s := parse(fixed.script)
				scripts := make([]script, fixed.times)
				for i := range scripts {
					scripts[i] = s
				}
				newContest(t, start, set).all(scripts, func(int) string { return name })
			})
		}
	})
}

// An order that ends the session while an end writes has no direct counterpart.
// The writes are small: with megabytes to read in the second that an order
// leaves, an end that gets little time of the machine sees a reset.
func TestDifferentialOrder(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, text := range []string{
			"client drip 33554432; backend take 100000; backend order; client sync",
			"backend drip 33554432; client take 100000; client order; backend sync",
			"client write 1000; backend read; backend write 2000; client read; client order; backend sync",
			"client last 1000; backend ended; backend write 2000; client read; client order; backend sync",
			"backend last 1000; client ended; client write 2000; backend read; backend order; client sync",
		} {
			t.Run(strings.ReplaceAll(text, " ", "_"), func(t *testing.T) {
				t.Parallel()
				s := parse(text)
				r := balanced(t, start, defaults()).play(s)
				if wrong := append(s.judge(r), s.audit(r)...); wrong != nil {
					t.Errorf("%s\n%v\n%s", s, r, strings.Join(wrong, "\n"))
				}
			})
		}
	})
}

// gate lets sessions through n at a time.
type gate struct {
	n      int
	mu     sync.Mutex // guards what follows
	waits  int
	opened chan struct{} // closed when those who wait now may pass
}

func (g *gate) pass() {
	g.mu.Lock()
	opened := g.opened
	if g.waits++; g.waits == g.n {
		close(opened)
		g.waits, g.opened = 0, make(chan struct{})
	}
	g.mu.Unlock()
	select {
	case <-opened:
	case <-time.After(l4test.Patience):
	}
}

// Descriptors come back within a batch of events: some sessions end at once,
// wave after wave, beside some that go on. Each has a pattern of its own, so
// that a byte of another shows.
func TestDifferentialReuse(t *testing.T) {
	const waves, short, long = 5, 24, 6
	onEngines(t, func(t *testing.T, start starter) {
		c := newContest(t, start, defaults())
		c.direct.gate = func() {} // the kernel's descriptors are not what is tested
		c.balanced.gate = (&gate{n: short, opened: make(chan struct{})}).pass
		lasting := parse(strings.Repeat("client write 70000; backend write 3000; client read; backend read; ", 60) + "client end")
		var wg sync.WaitGroup
		for range long {
			wg.Go(func() { c.one(lasting, "lasting") })
		}
		kinds := []script{
			parse("client write 100; backend read; client gate; client reset"),
			parse("backend write 100; client read; backend gate; backend close"),
			parse("client write 200; backend read; client gate; client last 3000; backend last 10"),
		}
		for range waves {
			var wave sync.WaitGroup
			for i := range short {
				wave.Go(func() { c.one(kinds[i%len(kinds)], "wave") })
			}
			wave.Wait()
		}
		wg.Wait()
	})
}

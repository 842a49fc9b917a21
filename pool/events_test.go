package pool_test

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"sluice/pool"
)

// events lists what a pool keeps of a backend, each as "kind text xcount".
func events(t testing.TB, p *pool.Pool, id string) string {
	t.Helper()
	list, ok := p.Events(id, 1000)
	if !ok {
		t.Fatalf("no backend %s", id)
	}
	var lines []string
	for _, e := range list {
		line := string(e.Kind) + " " + e.Text
		if e.Count > 1 {
			line += fmt.Sprint(" x", e.Count)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func refused(from int) error {
	addr := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port} }
	return &net.OpError{Op: "read", Net: "tcp", Source: addr(from), Addr: addr(80), Err: syscall.ECONNRESET}
}

// Equal results are one event, whatever else happens meanwhile and whichever port
// of ours a connection had.
func TestEventsCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(t, "a b", pool.Policy{Probed: true, MaxFailures: 100}))
		a, began := backend(t, p, "a"), time.Now()
		a.NoteProbe(nil)
		for i := range 3 {
			time.Sleep(time.Second)
			a.NoteProbe(refused(5000 + i))
			leaseOf(t, p, "a").Failed("reset", refused(6000+i))
		}
		p.SetHealth(a, pool.Down, "3 probes in a row failed")
		a.NoteProbe(refused(7000))
		a.NoteProbe(nil)
		a.NoteDial("resolve", errors.New("no such host"))
		want(t, "events", events(t, p, "a"), `state up: configured in the file
probe passed
probe failed: read tcp 10.0.0.1:80: connection reset by peer x4
dial reset: read tcp 10.0.0.1:80: connection reset by peer x3
state up -> down: 3 probes in a row failed
probe passed
dial resolve, not counted: no such host`)
		list, _ := p.Events("a", 1000)
		want(t, "the first failure", list[2].First, began.Add(time.Second))
		want(t, "the last", list[2].Last, began.Add(3*time.Second))
		last, _ := p.Events("a", 2)
		want(t, "the last two", fmt.Sprint(last), fmt.Sprint(list[5:]))
	})
}

// What was told of a backend stays with its identity.
func TestEventsSurviveWhateverLiveStateDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, "a b", pool.Policy{MaxFailures: 1, RetryAfter: time.Second, CloseDown: true})
		f := pool.New("p", c, pool.Hooks{Evict: func(pool.Eviction) {}})
		t.Cleanup(f.Close)
		two, drain := 2, pool.Drain
		f.Patch("a", pool.Patch{Weight: &two, By: "unix"})
		c.Backends[0].Weight, c.Backends[0].MaxSessions = 3, 9
		f.Apply(c)
		leaseOf(t, f, "a").Failed("refused", errDial)
		time.Sleep(time.Second)
		synctest.Wait()
		leaseOf(t, f, "a").Failed("refused", errDial)
		f.Patch("a", pool.Patch{Admin: &drain})
		f.Forget("a")
		c.Backends = c.Backends[1:]
		f.Apply(c)
		f.Add(pool.Spec{ID: "a", Address: "a:1", Weight: 1})
		want(t, "events", events(t, f, "a"), strings.TrimSpace(`
state up: configured in the file
change weight 1 -> 2 by the API (unix)
change weight 2 -> 3 by the file
change max_sessions 0 -> 9 by the file
dial refused: `+errDial.Error()+`
state up -> down: 1 failure in a row, the last: refused: `+errDial.Error()+`
evict its sessions end: it went down
trial one session may try whether it is back
dial of its trial session: refused: `+errDial.Error()+`
state down -> drain: set to drain by the API
state drain -> down: set to ready by the API
state down -> removed: removed from the file
state down: added by the API`))
		f.Remove("a")
		if got := events(t, f, "a"); !strings.HasSuffix(got, "state down -> removed: removed by the API") {
			t.Errorf("of what was removed: got\n%s", got)
		}
		if _, ok := f.Events("x", 1); ok {
			t.Error("got events of a backend that there never was")
		}
	})
}

func TestEventsAreBounded(t *testing.T) {
	p := newPool(t, config(t, "a b", pool.Policy{}))
	a := backend(t, p, "a")
	for i := range 1000 {
		a.NoteProbe(fmt.Errorf("%04d \x1b[31m\xff\n %s", i, strings.Repeat("x", i%2)+strings.Repeat("ä", 10_000)))
	}
	list, _ := p.Events("a", 1000)
	want(t, "events", len(list), 50)
	for i, e := range list {
		if len(e.Text) > 300 || !utf8.ValidString(e.Text) || strings.ContainsAny(e.Text, "\x1b\n") {
			t.Fatalf("got %d bytes: %q", len(e.Text), e.Text)
		}
		if !strings.HasPrefix(e.Text, fmt.Sprintf("failed: %04d ", 950+i)) || !strings.HasSuffix(e.Text, "ä...") {
			t.Errorf("event %d: got %s", i, e.Text)
		}
	}
}

// A full ring holds no more memory than its bound says, whatever was noted.
func TestEventsHoldLittle(t *testing.T) {
	const backends, most = 20, 64 * (300 + 120) // of a slice for 50 that grew by doubling
	p := newPool(t, pool.Config{Strategy: strategy(t, "round_robin", ""), Backends: specs(backends), Policy: pool.Policy{Probed: true}})
	long := strings.Repeat("x", 1<<20)
	before := heap()
	for _, b := range p.Probed() {
		for i := range 200 {
			b.NoteProbe(fmt.Errorf("%d %s", i, long[:1000]))
		}
	}
	if got := heap() - before; got > backends*most {
		t.Errorf("%d backends hold %d bytes more; want %d at most", backends, got, backends*most)
	}
	runtime.KeepAlive(p)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Nothing is allocated for a result like the last one, and nothing at all happens
// for a session that goes well.
func TestEventsOfAHealthyBackendCostNothing(t *testing.T) {
	p := newPool(t, config(t, "a b", pool.Policy{}))
	a := backend(t, p, "a")
	a.NoteProbe(nil)
	if n := testing.AllocsPerRun(100, func() { a.NoteProbe(nil) }); n != 0 {
		t.Errorf("a probe that passes again: got %v allocations", n)
	}
	was := events(t, p, "a")
	for range 10 {
		l := acquire(t, p)
		l.Connected()
		l.Release()
	}
	want(t, "events after sessions", events(t, p, "a"), was)
}

func TestEventsAtOnce(t *testing.T) {
	p := newPool(t, config(t, "a b", pool.Policy{}))
	a := backend(t, p, "a")
	const each = 2000
	var work sync.WaitGroup
	for range 3 {
		work.Go(func() {
			for range each {
				a.NoteProbe(nil)
				p.Events("a", 50)
			}
		})
	}
	work.Wait()
	list, _ := p.Events("a", 1)
	want(t, "probes", list[0].Count, 3*each)
}

func BenchmarkNote(b *testing.B) {
	p := newPool(b, config(b, "a b", pool.Policy{}))
	a := backend(b, p, "a")
	other := []error{errors.New("one"), errors.New("two")}
	b.Run("same", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.NoteProbe(nil)
		}
	})
	b.Run("other", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			a.NoteProbe(other[i%2])
		}
	})
}

func BenchmarkExplain(b *testing.B) {
	for _, n := range []int{10, 1000} {
		p := newPool(b, pool.Config{Strategy: strategy(b, "round_robin", ""), Backends: specs(n)})
		b.Run(fmt.Sprint("n=", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Explain(pool.Query{}, 5)
			}
		})
	}
}

// A replica says of each second how far it lags. That is one event, with what it
// said last, and not fifty that push out when it went down.
func TestEventsOfAGrowingLagAreOne(t *testing.T) {
	p := newPool(t, config(t, "a", pool.Policy{Probed: true}))
	a := backend(t, p, "a")
	for lag := range 200 {
		a.NoteProbe(fmt.Errorf("lags %ds, more than 5s", lag))
	}
	want(t, "events", events(t, p, "a"), `state up: configured in the file
probe failed: lags 199s, more than 5s x200`)
}

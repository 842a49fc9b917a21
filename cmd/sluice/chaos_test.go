//go:build linux

package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/l4/header"
	"sluice/l4/l4test"
)

// How long the chaos lasts, and from which seed its faults are drawn. The time
// is short, so that the test runs with all others; some minutes find more:
//
//	go test ./cmd/sluice -run TestChaos -chaos 5m
var (
	chaosTime = flag.Duration("chaos", 8*time.Second, "how long TestChaos lasts on each engine")
	chaosSeed = flag.Uint64("chaos.seed", rand.Uint64(), "what its faults are drawn from")
)

const (
	chaosClients = 12
	chaosPause   = 120 * time.Millisecond // between two faults of one kind, on average
	limitedSize  = 3                      // max_sessions of one backend
	believing    = 1                      // index of the frontend that takes PROXY headers
)

// Backends die and come back, the file changes and breaks, the API adds, drains
// and removes, sessions are killed, clients reset, stall and leave, the process is
// stopped for moments, and some sessions begin with a PROXY header, on either side. In the end everything is as at the start:
// nothing is held, and the bytes of the records are those that clients and
// backends saw.
func TestChaos(t *testing.T) {
	for _, engine := range []string{"copy", "epoll"} {
		t.Run(engine, func(t *testing.T) {
			t.Logf("-chaos.seed %d", *chaosSeed)
			c := newChaos(t, engine)
			c.rage(*chaosTime)
			c.settle()
			c.checkRecords()
		})
	}
}

// chaos is one daemon and all that happens to it.
type chaos struct {
	*daemon
	engine   string
	listen   [2]string // of the frontends
	backends []*mortal
	visitors []*visitor
	before   held
	totals   [2]int64      // bytes of all backends in the end: to them, to clients
	over     chan struct{} // closed when no more faults are wanted

	mu   sync.Mutex // guards what follows
	rand *rand.Rand
	done map[string]int // faults, by kind
}

// held is what the process holds.
type held struct{ descriptors, goroutines int }

func newChaos(t *testing.T, engine string) *chaos {
	c := &chaos{
		engine: engine,
		rand:   rand.New(rand.NewPCG(*chaosSeed, 0)),
		done:   map[string]int{},
		over:   make(chan struct{}),
	}
	for i := range 4 {
		c.backends = append(c.backends, newMortal(t, string(rune('A'+i))))
	}
	c.listen = [2]string{fixedAddress(t), fixedAddress(t)}
	c.daemon = startDaemon(t, c.text(0))
	c.visitAll()
	c.before = c.held()
	return c
}

// fixedAddress returns an address that is free for frontends that come and go.
func fixedAddress(t *testing.T) string {
	t.Helper()
	return onFreePort(t, func(port string) bool {
		ln, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			ln.Close()
		}
		return err == nil
	})
}

// rage runs clients and faults for a while, and returns when all have ended.
func (c *chaos) rage(d time.Duration) {
	var faults, clients sync.WaitGroup
	stop := make(chan struct{})
	for i := range chaosClients {
		v := newVisitor(c, uint64(i))
		c.visitors = append(c.visitors, v)
		clients.Go(func() { v.run(stop) })
	}
	for kind, fault := range c.faults() {
		faults.Go(func() { c.repeat(kind, fault) })
	}
	time.Sleep(d) // the length of the test, not a wait for something
	close(c.over)
	faults.Wait()
	close(stop)
	clients.Wait()
}

// repeat causes a fault again and again.
func (c *chaos) repeat(kind string, fault func()) {
	for {
		pause := time.Duration(c.draw(int(2 * chaosPause)))
		select {
		case <-c.over:
			return
		case <-time.After(pause):
		}
		fault()
		c.mu.Lock()
		c.done[kind]++
		c.mu.Unlock()
	}
}

// draw returns a random number below n.
func (c *chaos) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(n)
}

// settle brings back what belongs there, and waits until nothing is held that
// was not held before.
func (c *chaos) settle() {
	t := c.t
	t.Helper()
	for _, b := range c.backends {
		b.rise()
	}
	c.forget()
	c.ask("DELETE", "/pools/p/rebalance", "")
	c.reload(c.text(0))
	eventually(t, "all gauges are zero", func() bool { return c.busy() == "" })
	c.visitAll()
	eventually(t, "all gauges are zero again", func() bool { return c.busy() == "" })
	eventually(t, fmt.Sprintf("descriptors and goroutines are back from %+v to %+v", c.held(), c.before), func() bool {
		now := c.held()
		return now.descriptors <= c.before.descriptors+slack && now.goroutines <= c.before.goroutines+slack
	})
	var ejections int64
	for _, b := range c.view().Pools[0].Backends {
		ejections += b.Ejections
		c.totals[0] += b.BytesToBack
		c.totals[1] += b.BytesToClient
	}
	if text := c.out.String(); strings.Contains(text, "panicked") {
		t.Error("something panicked; see the log")
	}
	c.done["ejection"] = int(ejections)
	t.Logf("figures: %v of chaos on %s: %v; %s", *chaosTime, c.engine, c.done, c.tally())
}

// slack is what may come and go by itself: connections and goroutines of the
// admin side and of the runtime.
const slack = 6

// busy names a gauge that is not zero; empty if there is none.
func (c *chaos) busy() string {
	v := c.view()
	for _, f := range v.Frontends {
		if f.Active != 0 || f.HalfClosed != 0 || f.Clients != 0 {
			return fmt.Sprintf("frontend %s: %d active, %d half-closed, %d clients", f.Name, f.Active, f.HalfClosed, f.Clients)
		}
	}
	for _, p := range v.Pools {
		if p.Queued != 0 {
			return fmt.Sprintf("pool %s: %d wait", p.Name, p.Queued)
		}
		for _, b := range p.Backends {
			if !b.EjectedUntil.IsZero() {
				return fmt.Sprintf("backend %s: ejected, though nobody looks for outliers", b.ID)
			}
			if b.Active != 0 {
				return fmt.Sprintf("backend %s: %d active", b.ID, b.Active)
			}
		}
	}
	return ""
}

// visitAll makes sure that every frontend serves.
func (c *chaos) visitAll() {
	for _, f := range c.view().Frontends {
		if f.Name == "/proxy" {
			continue
		}
		eventually(c.t, "frontend "+f.Name+" serves", func() bool {
			_, err := visit(f.Listen)
			return err == nil
		})
	}
}

func (c *chaos) held() held {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
	if err != nil {
		c.t.Fatal(err)
	}
	return held{len(files), c.goroutines()}
}

// mortal is a backend that dies with a reset of all its connections, and comes
// back at its address.
type mortal struct {
	t    *testing.T
	name string
	addr string

	mu   sync.Mutex // guards live
	live *l4test.Backend
}

func newMortal(t *testing.T, name string) *mortal {
	m := &mortal{t: t, name: name}
	m.live = l4test.Serve(t, m.habit)
	m.addr = m.live.Addr
	return m
}

// habit is a tagged echo. Where it is cut off, the peer gets RST.
func (m *mortal) habit(c *net.TCPConn) {
	c.SetLinger(0)
	io.WriteString(c, m.name+"\n")
	io.Copy(c, behindHeader(c))
	c.CloseWrite()
	c.SetLinger(-1)
}

// behindHeader returns what c sends, without the PROXY header that it may begin
// with.
func behindHeader(c *net.TCPConn) io.Reader {
	in := bufio.NewReader(c)
	for n := 1; ; n++ {
		p, err := in.Peek(n)
		told, verdict := header.Read(p)
		if verdict == header.Whole {
			in.Discard(told.Size)
		}
		if err != nil || verdict != header.More {
			return in
		}
	}
}

func (m *mortal) fall() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live != nil {
		m.live.Stop()
		m.live = nil
	}
}

func (m *mortal) rise() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live == nil {
		m.live = l4test.ServeAt(m.t, m.addr, m.habit)
	}
}

// stall stops the whole process for a moment.
func (c *chaos) stall() {
	c.signal(syscall.SIGSTOP)
	time.Sleep(time.Duration(c.draw(int(40 * time.Millisecond)))) // how long it hangs
	c.signal(syscall.SIGCONT)
}

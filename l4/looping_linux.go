package l4

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"sluice/l4/epoll"
	"sluice/l4/session"
)

// fastest is the engine that "auto" stands for.
const fastest = "epoll"

// looping is the engine "epoll": event loops that share every listening socket.
type looping struct {
	loops     []*loop
	firstPort string // see ephemeral

	closing sync.RWMutex // guards closed, and is held while something is posted
	closed  bool         // nothing may be posted from outside any more
}

func newLooping(loops int) (driver, error) {
	if loops == 0 {
		loops = runtime.GOMAXPROCS(0)
	}
	return startLooping(loops, loopConfig{calls: epoll.System(), buffer: loopBuffer, splice: true})
}

// startLooping starts loops that work as c says.
func startLooping(loops int, c loopConfig) (*looping, error) {
	e := &looping{firstPort: firstEphemeral()}
	c.pipes = epoll.NewPipeBudget()
	for range loops {
		l, err := newLoop(e, c)
		if err != nil {
			e.close()
			return nil, err
		}
		e.loops = append(e.loops, l)
		go l.run()
	}
	return e, nil
}

func (e *looping) size() int { return len(e.loops) }

// descriptors: two sockets; what a loop waits and is woken with; the pipes.
func (e *looping) descriptors() (session, held, shared int) {
	return 2, 2 * len(e.loops), 2 * epoll.MaxPipes
}

// lightest returns the loop that has so many sessions fewer than l that it pays
// to hand one over; else l.
func (e *looping) lightest(l *loop) *loop {
	least := l
	for _, other := range e.loops {
		if other.load.Load() < least.load.Load() {
			least = other
		}
	}
	if n := least.load.Load(); l.load.Load() > n+handOverSlack+n/handOverShare {
		return least
	}
	return l
}

func (e *looping) look(see func(shown)) {
	for _, l := range e.loops {
		at := &visited{loop: l}
		w := e.visit(l, func(l *loop, d *duplex) {
			at.duplex = d
			see(shown{l.now, &d.brain, at})
		})
		l.await(w.done)
	}
}

// visited is the session that a loop shows.
type visited struct {
	loop   *loop
	duplex *duplex
}

func (v *visited) link(side session.Side) session.Link { return v.loop.link(v.duplex, side) }

func (v *visited) owed(side session.Side) int {
	if !v.duplex.socks[side].open {
		return 0
	}
	return v.loop.unsent(v.duplex, side)
}

// order is one message for each loop, from any goroutine: one of the loops as
// well.
func (e *looping) order(m session.Match, cause session.Cause) (wait func() int) {
	took := make([]int, len(e.loops))
	walks := make([]*walk, len(e.loops))
	for i, l := range e.loops {
		walks[i] = e.visit(l, func(l *loop, d *duplex) {
			if d.brain.Matches(l.now, &m) && l.asked(d, cause) {
				took[i]++
			}
		})
	}
	return func() (n int) {
		for i, l := range e.loops {
			if l.await(walks[i].done) {
				n += took[i]
			}
		}
		return n
	}
}

// visit begins a walk over the sessions of a loop. After close it is over at once.
func (e *looping) visit(l *loop, do func(*loop, *duplex)) *walk {
	w := &walk{do: do, done: make(chan struct{})}
	e.closing.RLock()
	defer e.closing.RUnlock()
	if e.closed {
		close(w.done)
	} else {
		l.post(func() { l.walk(w) })
	}
	return w
}

// onAll runs do on every loop that has not ended, and returns when all have done
// so.
func (e *looping) onAll(do func(i int, l *loop)) {
	answers := make([]<-chan struct{}, len(e.loops))
	for i, l := range e.loops {
		answers[i] = l.ask(func() { do(i, l) })
	}
	for i, l := range e.loops {
		l.await(answers[i])
	}
}

func (e *looping) answers(ctx context.Context) bool {
	all := make(chan struct{})
	go func() {
		defer close(all)
		e.onAll(func(int, *loop) {})
	}()
	select {
	case <-all:
		return true
	case <-ctx.Done():
		return false
	}
}

// dropped returns how many records found no room.
func (e *looping) dropped() (n int64) {
	for _, l := range e.loops {
		n += l.records.dropped.Load()
	}
	return n
}

// close ends the loops that run.
func (e *looping) close() {
	e.closing.Lock()
	e.closed = true
	e.closing.Unlock()
	for _, l := range e.loops {
		l.post(l.stop)
		<-l.done
	}
}

// control sets what accepted sockets inherit. Without it a small answer waits for
// the acknowledgement of the one before, which the peer delays by 40 ms.
func (e *looping) control(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	return raw.Control(func(fd uintptr) { epoll.NewKernel(epoll.System()).SetNoDelay(int(fd)) })
}

func (e *looping) feed(ln net.Listener, l *Listener) (acceptor, error) {
	fd, path, err := detach(ln)
	if err != nil {
		return nil, err
	}
	if l.adopted {
		path = ""
	}
	return &gate{engine: e, listener: l, fd: fd, path: path, over: make(chan struct{})}, nil
}

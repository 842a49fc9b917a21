package l4

import (
	"net"
	"runtime"
	"strings"
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

func (e *looping) rows(f *Frontend, add func(session.Row)) {
	e.visit(func(l *loop, d *duplex) {
		if d.entry.frontend == f {
			add(d.brain.Row(l.now))
		}
	})
}

func (e *looping) order(f *Frontend, number uint64, cause session.Cause) (n int) {
	e.visit(func(l *loop, d *duplex) {
		if d.entry.frontend == f && (number == 0 || number == d.brain.Number()) {
			l.obey(d, d.brain.Asked(l.now, cause), session.Client)
			n++
		}
	})
	return n
}

// visit runs do on every session, in its loop: some at a time, so that it holds
// up nobody for long. It returns when that is done.
func (e *looping) visit(do func(l *loop, d *duplex)) {
	for _, l := range e.loops {
		for at, more := 0, true; more && at >= 0; {
			more = l.await(l.ask(func() { at = l.visit(at, do) }))
		}
	}
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

// dropped returns how many records found no room.
func (e *looping) dropped() (n int64) {
	for _, l := range e.loops {
		n += l.records.dropped.Load()
	}
	return n
}

// close ends the loops that run.
func (e *looping) close() {
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
	return &gate{engine: e, listener: l, fd: fd, path: path, over: make(chan struct{})}, nil
}

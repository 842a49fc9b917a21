package l4

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/l4/epoll"
	"sluice/l4/session"
)

// loopBuffer is the buffer that all reads of a loop share: as large as what a
// splice begins to pay for (measured: from some 64 KiB in flight).
const loopBuffer = 64 << 10

// yieldEvery is how often a loop lets go of its processor of Go by itself. The
// runtime would take it by a signal after 10 ms, and look around every 20 us for
// a while after that. A thread locked to the loop made each time cost more.
const yieldEvery = 5 * time.Millisecond

// A record waits for others, that long and for so many at most: to wake who takes
// them costs more than to count a session out. Chosen.
const (
	recordDelay   = 5 * time.Millisecond
	recordsAtOnce = 256
)

// loopConfig is what a loop works with; tests make it small and faulty.
type loopConfig struct {
	calls  epoll.Calls
	pipes  *epoll.PipeBudget
	buffer int // bytes
	splice bool
}

// loop is one event loop: a goroutine that accepts, dials, relays and times its
// own sessions. Everything but the mailbox and load is that goroutine's alone.
type loop struct {
	engine  *looping
	kernel  *epoll.Kernel
	poller  *epoll.Poller
	timers  epoll.Timers
	pipes   *epoll.Pipes
	records *records
	splice  bool
	shard   uint8 // of the backends' totals
	buffer  []byte
	spills  spills
	slots   slots
	doors   []*door                  // by index; nil where one is gone
	opened  uint32                   // doors so far
	waiting map[string][]epoll.Token // sessions by the name that is looked up for them

	epoch    time.Time // zero of the timers
	now      time.Time // read once a turn
	events   batch[epoll.Event]
	orders   batch[func()]
	turns    batch[epoll.Token] // sessions whose turn it is to move more
	ready    []epoll.Token      // those of the next round
	current  *duplex            // the session at hand
	yielded  time.Time
	left     []finished // sessions that were closed and not put to records yet
	leftAt   time.Time  // when the first of them was
	stopping bool

	load atomic.Int64  // sessions
	done chan struct{} // closed when the loop has ended

	mail    sync.Mutex // guards mailbox
	mailbox []func()
}

func newLoop(e *looping, c loopConfig) (*loop, error) {
	k := epoll.NewKernel(c.calls)
	p, err := epoll.NewPoller(k)
	if err != nil {
		return nil, err
	}
	return &loop{
		engine:  e,
		kernel:  k,
		poller:  p,
		pipes:   epoll.NewPipes(k, c.pipes),
		records: newRecords(),
		splice:  c.splice,
		shard:   uint8(len(e.loops)),
		buffer:  make([]byte, c.buffer),
		waiting: make(map[string][]epoll.Token),
		epoch:   time.Now(),
		now:     time.Now(),
		done:    make(chan struct{}),
	}, nil
}

// run is the life of the loop. A panic outside of a session is not survived: a
// process with a loop less would be a silent outage of some of its sessions.
func (l *loop) run() {
	defer close(l.done)
	steps := []func() bool{l.nextEvent, l.nextOrder, l.nextTimer, l.nextReady}
	for !l.stopping {
		l.events = batch[epoll.Event]{items: l.poller.Wait(l.patience())}
		l.now = time.Now()
		l.collect()
		l.ready = l.turns.use(l.ready)
		for _, step := range steps {
			for !l.untilPanic(step) {
			}
		}
		l.flushRecords()
		if l.now.Sub(l.yielded) > yieldEvery {
			l.yielded = l.now
			runtime.Gosched()
		}
	}
	l.records.put(l.left)
	l.records.close()
	l.pipes.Close()
	l.poller.Close()
}

// stop ends the loop, which has no sessions and no gates any more.
func (l *loop) stop() { l.stopping = true }

// patience is how long the loop may wait for events.
func (l *loop) patience() time.Duration {
	if len(l.ready) > 0 {
		return 0
	}
	when, ok := l.timers.Next()
	if len(l.left) > 0 {
		flush := l.clock(l.leftAt.Add(recordDelay))
		if !ok || flush < when {
			when, ok = flush, true
		}
	}
	if !ok {
		return -1
	}
	return max(0, time.Duration(when)-time.Since(l.epoch))
}

// flushRecords hands the records of some milliseconds over at once.
func (l *loop) flushRecords() {
	if len(l.left) > 0 && (len(l.left) >= recordsAtOnce || l.now.Sub(l.leftAt) >= recordDelay) {
		l.records.put(l.left)
		clear(l.left)
		l.left = l.left[:0]
	}
}

// clock returns t as the timers count.
func (l *loop) clock(t time.Time) int64 { return int64(t.Sub(l.epoch)) }

// untilPanic calls step until it has nothing left; then it returns true. A panic
// costs the session at hand.
func (l *loop) untilPanic(step func() bool) bool {
	defer l.survive()
	for step() {
		l.current = nil // what comes next is none of its business
	}
	return true
}

// guard does something to d; a panic costs d, and not what comes after it.
func (l *loop) guard(d *duplex, do func()) {
	defer l.survive()
	l.current = d
	do()
	l.current = nil
}

// survive keeps a defect in one session from ending all the others: it is
// reported with its stack, and this session ends.
func (l *loop) survive() {
	d := l.current
	if d == nil || d.phase == free {
		return // nobody to blame: the process ends
	}
	if p := recover(); p != nil {
		l.current = nil
		f := d.entry.frontend
		f.fault(fmt.Errorf("a session of %s panicked: %v\n%s", f.name, p, debug.Stack()))
		l.close(d, session.Cut)
	}
}

func (l *loop) nextEvent() bool {
	e, ok := l.events.take()
	switch {
	case !ok:
		return false
	case e.Token.Slot < 0:
		l.accept(e.Token)
		return true
	}
	if d, side := l.slots.find(e.Token); d != nil {
		l.current = d
		l.event(d, side, e.Bits)
	}
	return true
}

// post leaves an order in the mailbox; any goroutine may.
func (l *loop) post(order func()) {
	l.mail.Lock()
	l.mailbox = append(l.mailbox, order)
	first := len(l.mailbox) == 1
	l.mail.Unlock()
	if first {
		l.poller.Wake()
	}
}

// ask posts an order, and returns what is closed once it was carried out.
func (l *loop) ask(order func()) <-chan struct{} {
	done := make(chan struct{})
	l.post(func() {
		defer close(done)
		order()
	})
	return done
}

// await waits for an order that was asked for; false means that the loop ended
// before.
func (l *loop) await(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-l.done:
		return false
	}
}

// collect empties the mailbox.
func (l *loop) collect() {
	l.mail.Lock()
	defer l.mail.Unlock()
	l.mailbox = l.orders.use(l.mailbox)
}

func (l *loop) nextOrder() bool {
	order, ok := l.orders.take()
	if ok {
		order()
	}
	return ok
}

func (l *loop) nextTimer() bool {
	t := l.timers.Pop(l.clock(l.now))
	switch {
	case t == nil:
		return false
	case t.Key < 0:
		l.listen(l.doorAt(t.Key))
	default:
		l.current = l.slots.at(t.Key)
		l.expired(l.current)
	}
	return true
}

// nextReady gives a turn to a session that had more to move.
func (l *loop) nextReady() bool {
	t, ok := l.turns.take()
	if !ok {
		return false
	}
	if d, _ := l.slots.find(t); d != nil {
		l.current = d
		d.turn = false
		l.pump(d)
	}
	return true
}

// walk is something to be done to every session of a loop.
type walk struct {
	do   func(*loop, *duplex)
	at   int           // where it goes on
	done chan struct{} // closed at the end
}

// walk goes on with w: some sessions now, and the next at the next turn, so that
// it holds up nobody for long. A panic costs one session, and not the rest.
func (l *loop) walk(w *walk) {
	defer func() {
		if w.at < 0 {
			close(w.done)
		} else {
			l.post(func() { l.walk(w) })
		}
	}()
	w.at = l.visit(w.at, w.do)
}

// visitedAtOnce is how many slots a loop looks at in one turn. Chosen: to end as
// many sessions takes about a millisecond.
const visitedAtOnce = 256

// visit runs do on the sessions in some slots, and returns where to go on; less
// than 0 is the end.
func (l *loop) visit(from int, do func(*loop, *duplex)) (next int) {
	for at := range visitedAtOnce {
		d := l.slots.nth(from + at)
		switch {
		case d == nil:
			return -1
		case d.phase != free:
			l.current = d
			do(l, d)
		}
	}
	return from + visitedAtOnce
}

// errOf returns errno as an error; nil for 0.
func errOf(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

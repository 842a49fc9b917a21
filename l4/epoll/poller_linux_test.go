package epoll_test

import (
	"errors"
	"math"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/l4/epoll"
)

// wantEvents waits and wants these tokens, each with all of bits, in any order.
func (r rig) wantEvents(p *epoll.Poller, bits uint32, tokens ...epoll.Token) {
	r.Helper()
	timeout := time.Duration(0)
	if len(tokens) > 0 {
		timeout = patience
	}
	got := map[epoll.Token]bool{}
	events := p.Wait(timeout)
	for _, e := range events {
		got[e.Token] = true
		if e.Bits&bits != bits {
			r.Errorf("%v has bits %#x, want %#x", e.Token, e.Bits, bits)
		}
	}
	if len(events) != len(tokens) || len(got) != len(tokens) {
		r.Fatalf("events %v, want %v", events, tokens)
	}
	for _, token := range tokens {
		if !got[token] {
			r.Errorf("events %v, want %v", events, tokens)
		}
	}
}

// added adds fd and takes its first event.
func (r rig) added(p *epoll.Poller, fd int, t epoll.Token) int {
	r.Helper()
	r.ok("add", p.Add(fd, t))
	r.wantEvents(p, unix.EPOLLOUT, t)
	return fd
}

// A loop that takes a short receive for the last loses the end of the stream:
// there is no second event for it.
func TestDataAndEndAreOneEvent(t *testing.T) {
	r := newRig(t)
	p := r.poller()
	a, b := r.pair()
	r.later(a)
	r.later(b)
	token := epoll.Token{Slot: 3, Gen: 9}
	r.added(p, a, token)
	r.send(b, "bye")
	r.ok("shutdown", r.ShutdownWrite(b))
	r.arrived(a, 4)
	r.wantEvents(p, unix.EPOLLIN|unix.EPOLLRDHUP, token)
	r.wantRecv(a, "bye", 0)
	r.wantEvents(p, 0)
	r.wantRecv(a, "", 0)
}

// A receive stops short at an urgent byte, which it leaves out, and EPOLLPRI is
// what says that there is more.
func TestReceiveStopsAtAnUrgentByte(t *testing.T) {
	r := newRig(t)
	p := r.poller()
	a, b := r.pair()
	r.later(a)
	r.later(b)
	token := epoll.Token{Slot: 1}
	r.added(p, a, token)
	r.send(b, "before")
	if err := unix.Sendto(b, []byte("!"), unix.MSG_OOB, nil); err != nil {
		t.Fatal(err)
	}
	r.send(b, "after")
	r.arrived(a, 12)
	r.wantEvents(p, unix.EPOLLIN|unix.EPOLLPRI, token)
	r.wantRecv(a, "before", 0)
	r.wantEvents(p, 0)
	r.wantRecv(a, "after", 0)
	r.wantRecv(a, "", syscall.EAGAIN)
}

func TestTokensComeBackWhole(t *testing.T) {
	r := newRig(t)
	p := r.poller()
	for _, token := range []epoll.Token{{}, {Slot: math.MaxInt32, Gen: math.MaxUint32}, {Gen: 1 << 31}, {Slot: 1}} {
		a, b := r.unixPair()
		r.added(p, a, token)
		r.Close(b)
		r.wantEvents(p, unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLRDHUP, token)
		r.ok("remove", p.Remove(a))
		r.Close(a)
	}
}

// What does not fit into one batch comes with the next, each event once.
func TestMoreEventsThanABatch(t *testing.T) {
	r := newRig(t)
	p := r.poller()
	const pairs = 300
	for i := range int32(pairs) {
		a, b := r.unixPair()
		r.ok("add", p.Add(r.later(a), epoll.Token{Slot: 2 * i}))
		r.ok("add", p.Add(r.later(b), epoll.Token{Slot: 2*i + 1}))
	}
	seen := map[epoll.Token]bool{}
	for events := p.Wait(0); len(events) > 0; events = p.Wait(0) {
		for _, e := range events {
			if seen[e.Token] {
				t.Fatalf("%v came twice", e)
			}
			seen[e.Token] = true
		}
	}
	if len(seen) != 2*pairs {
		t.Errorf("%d events, want %d", len(seen), 2*pairs)
	}
}

// A descriptor that lives on in a duplicate stays in epoll when it is closed,
// and cannot be removed any more: it is removed before.
func TestRemoveComesBeforeClose(t *testing.T) {
	r := newRig(t)
	p := r.poller()
	for _, remove := range []bool{true, false} {
		a, b := r.pair()
		token := epoll.Token{Slot: 1}
		r.added(p, a, token)
		dup, err := unix.Dup(a)
		if err != nil {
			t.Fatal(err)
		}
		if remove {
			r.ok("remove", p.Remove(a))
		}
		r.Close(a)
		r.send(b, "x")
		r.arrived(dup, 1)
		if remove {
			r.wantEvents(p, 0)
		} else {
			r.wantEvents(p, unix.EPOLLIN, token)
			if errno := p.Remove(a); errno != syscall.EBADF {
				t.Errorf("remove after close: %v", errno)
			}
		}
		r.Close(b)
		r.Close(dup)
	}
}

// A pause in accepting is Remove and AddListener: nothing else is allowed on a
// listener that wakes one loop alone.
func TestListenerIsRemovedAndAddedAgain(t *testing.T) {
	calls := epoll.System()
	epfd := -1
	ctl := calls.EpollCtl
	calls.EpollCtl = func(fd, op, of int, event *unix.EpollEvent) syscall.Errno {
		epfd = fd
		return ctl(fd, op, of, event)
	}
	r := newRigOf(t, calls)
	p, other := r.poller(), r.poller()
	token := epoll.Token{Slot: 5, Gen: 5}
	ln, at := r.listen("127.0.0.1:0", 10)
	r.ok("add", other.AddListener(ln, token))
	r.ok("add", p.AddListener(ln, token))
	if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_MOD, ln, &unix.EpollEvent{}); err != syscall.EINVAL {
		t.Errorf("EPOLL_CTL_MOD: %v, want %v", err, syscall.EINVAL)
	}
	r.ok("remove", p.Remove(ln))
	r.later(r.connect(at))
	r.await(ln, unix.POLLIN)
	r.wantEvents(p, 0)
	r.wantEvents(other, unix.EPOLLIN, token)
	r.ok("add", p.AddListener(ln, token))
	for range 3 { // a level, not an edge
		r.wantEvents(p, unix.EPOLLIN, token)
		r.wantEvents(other, unix.EPOLLIN, token)
	}
	fd, _ := r.accept(ln)
	r.later(fd)
	r.wantEvents(p, 0)
	r.wantEvents(other, 0)
}

// Each Wake ends a Wait that would not end, also one that comes between two.
func TestWakeFromAnotherGoroutine(t *testing.T) {
	r := newRig(t)
	p := r.poller()
	const turns = 2000
	turn := make(chan bool)
	go func() {
		for range turns {
			<-turn
			p.Wake()
		}
	}()
	for range turns {
		turn <- true
		if events := p.Wait(-1); len(events) != 0 {
			t.Fatalf("the wake-up came as %v", events)
		}
	}
}

// Many wakes are one, nothing of them is left for later, and other events come
// beside them.
func TestWakesAreOne(t *testing.T) {
	calls := epoll.System()
	raw := 0
	wait := calls.EpollWait
	calls.EpollWait = func(epfd int, events []unix.EpollEvent, ms int) (int, syscall.Errno) {
		n, errno := wait(epfd, events, ms)
		raw = n
		return n, errno
	}
	r := newRigOf(t, calls)
	p := r.poller()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 { // an eventfd's counter has room for all
				p.Wake()
			}
		})
	}
	wg.Wait()
	a, b := r.unixPair()
	r.later(a)
	r.later(b)
	token := epoll.Token{Slot: 7}
	r.added(p, a, token)
	if raw != 2 {
		t.Errorf("%d raw events, want the wake-up and the socket's", raw)
	}
	r.wantEvents(p, 0)
	if raw != 0 {
		t.Errorf("%d raw events are left", raw)
	}
}

// The descriptor that a late Wake would write to may be somebody else's.
func TestWakeAfterClose(t *testing.T) {
	calls := epoll.System()
	var mu sync.Mutex
	open, late := true, 0
	write, closeFD := calls.Write, calls.Close
	calls.Write = func(fd int, p []byte) (int, syscall.Errno) {
		mu.Lock()
		defer mu.Unlock()
		if !open {
			late++
		}
		return write(fd, p)
	}
	calls.Close = func(fd int) syscall.Errno {
		mu.Lock()
		defer mu.Unlock()
		open = false
		return closeFD(fd)
	}
	p := newRigOf(t, calls).poller()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				p.Wake()
			}
		})
	}
	p.Close()
	p.Close()
	wg.Wait()
	if late != 0 {
		t.Errorf("%d writes to a descriptor that was closed", late)
	}
}

func TestTimeoutsAreRoundedUp(t *testing.T) {
	calls := epoll.System()
	got, waits := 0, 0
	calls.EpollWait = func(_ int, _ []unix.EpollEvent, ms int) (int, syscall.Errno) {
		got, waits = ms, waits+1
		return 0, syscall.EINTR
	}
	p := newRigOf(t, calls).poller()
	for timeout, want := range map[time.Duration]int{
		-1: -1, math.MinInt64: -1, 0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Minute: 60_000,
		math.MaxInt64: math.MaxInt32,
	} {
		waits = 0
		if events := p.Wait(timeout); len(events) != 0 || got != want || waits != 1 {
			t.Errorf("%d: %d ms, %d times, %v; want %d ms, once though a signal came", timeout, got, waits, events, want)
		}
	}
}

func TestWaitEndsWithTheTimeout(t *testing.T) {
	p := newRig(t).poller()
	const timeout = 3*time.Millisecond + 1
	start := time.Now()
	if events := p.Wait(timeout); len(events) != 0 || time.Since(start) < timeout {
		t.Errorf("%v after %v", events, time.Since(start))
	}
}

// A poller that could not be made leaves nothing open.
func TestPollerThatCannotBeMade(t *testing.T) {
	for name, fail := range map[string]func(*epoll.Calls){
		"epoll_create1": func(c *epoll.Calls) { c.EpollCreate = func() (int, syscall.Errno) { return -1, syscall.EMFILE } },
		"eventfd2":      func(c *epoll.Calls) { c.Eventfd = func() (int, syscall.Errno) { return -1, syscall.EMFILE } },
		"epoll_ctl": func(c *epoll.Calls) {
			c.EpollCtl = func(int, int, int, *unix.EpollEvent) syscall.Errno { return syscall.EMFILE }
		},
	} {
		calls := epoll.System()
		fail(&calls)
		r := newRigOf(t, calls)
		if p, err := epoll.NewPoller(r.Kernel); p != nil || !errors.Is(err, syscall.EMFILE) || err.Error() != name+": too many open files" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkWake(b *testing.B) {
	p, err := epoll.NewPoller(epoll.NewKernel(epoll.System()))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for b.Loop() {
		p.Wake()
		p.Wait(0)
	}
}

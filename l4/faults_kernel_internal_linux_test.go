package l4

import (
	"maps"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/l4/epoll"

	"golang.org/x/sys/unix"
)

// fate is what becomes of one system call; the zero value is the real thing.
type fate struct {
	errno syscall.Errno
	short bool // a smaller count than there is
}

// faulty is a kernel that fails as a plan says, and watches who calls it: it
// knows the descriptors that the engine owns, and counts waits that lead to
// nothing.
//
// A failed call does nothing, but for connect and close, which go on in spite of
// a signal. An edge that a faked EAGAIN or a short receive would lose comes
// again: it is as if the bytes had come a little later.
type faulty struct {
	t    testing.TB
	real epoll.Calls
	plan func(call string, nth int, dice *rand.Rand) fate // under mu

	mu       sync.Mutex // guards what follows
	dice     *rand.Rand
	made     map[string]int    // calls so far
	failed   map[string]int    // those that had a fate
	owned    map[int]string    // by descriptor: the call that opened it
	lent     map[int]bool      // listeners, whose owner is a gate
	watched  map[int]watch     // by descriptor
	held     []int             // closed descriptors whose numbers are not free yet
	hold     int               // how many of those there may be
	tight    bool              // send queues are as small as can be
	shrink   int               // the true size of a pipe of 1 MiB; 0 is that
	idle     map[int]idleWaits // by epoll descriptor
	progress int
	endless  map[stretch]bool
	rush     int // bytes of endless streams since the last wait
	maxRush  int
	self     bool // each socket seems connected to itself
}

// stretch is one end of an endless stream: a call on a descriptor that never
// runs dry or full.
type stretch struct {
	call string
	fd   int
}

// watch is what a descriptor was added to an epoll instance with.
type watch struct {
	epfd  int
	event unix.EpollEvent
}

// idleWaits are waits in a row that ended at once and came to nothing.
type idleWaits struct{ n, progress int }

// idleMax is how many of those are no spin: orders and clients that another loop
// was faster to take wake in vain.
const idleMax = 300

func newFaulty(t testing.TB, seed uint64, plan func(call string, nth int, dice *rand.Rand) fate) *faulty {
	return &faulty{
		t: t, real: epoll.System(), plan: plan,
		dice: rand.New(rand.NewPCG(seed, 0)),
		made: map[string]int{}, failed: map[string]int{}, owned: map[int]string{}, lent: map[int]bool{},
		watched: map[int]watch{}, endless: map[stretch]bool{}, idle: map[int]idleWaits{},
	}
}

// arm makes plan the plan, and counts calls from here.
func (k *faulty) arm(plan func(call string, nth int, dice *rand.Rand) fate) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.plan = plan
	clear(k.made)
}

// fateOf notes a call on descriptors and returns what is to become of it.
func (k *faulty) fateOf(call string, fds ...int) fate {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, fd := range fds {
		if k.owned[fd] == "" && !k.lent[fd] {
			k.t.Errorf("%s on descriptor %d, which is not the engine's", call, fd)
		}
	}
	k.made[call]++
	f := fate{}
	if k.plan != nil {
		f = k.plan(call, k.made[call], k.dice)
	}
	if f != (fate{}) {
		k.failed[call]++
		k.progress++ // a wait that came to nothing because of us is no spin
	}
	return f
}

// opened notes descriptors that a call opened.
func (k *faulty) opened(call string, fds ...int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.progress++
	for _, fd := range fds {
		if was := k.owned[fd]; was != "" {
			k.t.Errorf("%s opened descriptor %d, which %s had opened", call, fd, was)
		}
		k.owned[fd] = call
	}
}

// part returns 1 or more of max, at random.
func (k *faulty) part(max int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return 1 + k.dice.IntN(max)
}

func (k *faulty) moved() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.progress++
}

func (k *faulty) watches(fd int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.watched[fd]
	return ok
}

// again has the events of those descriptors that are watched told once more.
func (k *faulty) again(fds ...int) {
	for _, fd := range fds {
		k.mu.Lock()
		w, ok := k.watched[fd]
		k.mu.Unlock()
		if ok {
			k.real.EpollCtl(w.epfd, unix.EPOLL_CTL_MOD, fd, &w.event)
		}
	}
}

// close frees the number of a descriptor at once, or holds it back for a while:
// then a call on it is found out, and else what comes of a number that is used
// again.
func (k *faulty) close(fd int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.owned[fd] == "" {
		k.t.Errorf("close of descriptor %d, which is not the engine's", fd)
		return
	}
	k.made["close"]++
	k.progress++
	kind := k.owned[fd]
	delete(k.owned, fd)
	delete(k.watched, fd)
	if k.hold == 0 || kind == "epoll_create1" {
		k.real.Close(fd)
		return
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		k.t.Error(err)
		return
	}
	unix.Dup3(null, fd, unix.O_CLOEXEC) // closes what fd was
	unix.Close(null)
	if k.held = append(k.held, fd); len(k.held) > k.hold {
		unix.Close(k.held[0])
		k.held = k.held[1:]
	}
}

// flood returns room if one of the descriptors is endless for that call.
func (k *faulty) flood(call string, room int, fds ...int) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, fd := range fds {
		if k.endless[stretch{call, fd}] {
			k.progress++
			k.rush += room
			k.maxRush = max(k.maxRush, k.rush)
			return room
		}
	}
	return 0
}

// waited looks for loops that spin.
func (k *faulty) waited(epfd, n int, took time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rush = 0
	w := k.idle[epfd]
	if k.progress != w.progress || took > time.Millisecond {
		w = idleWaits{progress: k.progress}
	}
	if w.n++; w.n == idleMax {
		k.t.Errorf("a loop spins: %d waits in a row came to nothing, the last with %d events; calls so far: %v", w.n, n, k.made)
	}
	k.idle[epfd] = w
}

// faults returns how many calls of each kind were not the real thing.
func (k *faulty) faults() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.failed)
}

func (k *faulty) lend(fd int, is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lent[fd] = is
}

// over checks that the engine closed all it opened.
func (k *faulty) over() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for fd, call := range k.owned {
		k.t.Errorf("descriptor %d of %s was never closed", fd, call)
	}
	for _, fd := range k.held {
		unix.Close(fd)
	}
	k.held = nil
}

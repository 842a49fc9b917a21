// Package discover keeps what names stand for: the addresses of a name, or those
// of its SRV records, looked up again and again.
//
// It owns the timers, the look-ups and the last good answers. It knows no pool:
// it tells a func that there was an answer, and whoever is told asks what the
// name stands for now. It does not know how long an answer is valid: Go's
// resolver does not tell the TTL.
//
//	Use      which names are looked up, how often and where
//	First    waits for the first answers
//	Suspect  an address did not answer: its name is looked up again now
//	Found    what a name stands for; Status tells how its look-ups fare
//
// Invariants:
//
//   - What is known stays while the resolver fails: no error, no time-out and no
//     empty answer takes an address away.
//   - No answer takes away what an earlier one had, until several in a row lack
//     it: see memory.
//   - At most one look-up of a name runs at a time, and at most one begins in a
//     second, or in the interval if that is shorter.
//   - No func is called under a mutex.
package discover

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Key is a name that is looked up for a pool.
type Key struct {
	Pool string
	Host string
	SRV  bool // SRV records, each with a port, not A and AAAA
}

// Policy is how a name is looked up.
type Policy struct {
	Every  time.Duration // about; above 0
	Source *Source       // another one is asked at once
}

// Hooks are told what look-ups find, from any goroutine. They may block.
type Hooks struct {
	Answered func(Key)        // Found may differ from before
	Failed   func(Key, error) // what was known stays
}

// Names are all names that are looked up. Safe for concurrent use.
type Names struct {
	hooks Hooks
	ctx   context.Context // of every look-up: it ends with Close
	end   context.CancelFunc

	mu    sync.RWMutex // guards what follows
	all   map[Key]*name
	ended bool
}

// New returns an empty set; the caller closes it.
func New(h Hooks) *Names {
	n := &Names{hooks: h, all: map[Key]*name{}}
	n.ctx, n.end = context.WithCancel(context.Background())
	return n
}

// Use makes want the names that are looked up. New ones are at once, others keep
// what is known; what is known of those that are not in want is forgotten.
func (n *Names) Use(want map[Key]Policy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, w := range n.all {
		if _, ok := want[k]; !ok {
			w.stop()
			delete(n.all, k)
		}
	}
	for k, p := range want {
		switch w := n.all[k]; {
		case n.ended:
		case w != nil:
			w.use(p)
		default:
			n.all[k] = n.begin(k, p)
		}
	}
}

// begin starts the look-ups of a new name.
func (n *Names) begin(k Key, p Policy) *name {
	ctx, stop := context.WithCancel(n.ctx)
	w := &name{key: k, hooks: n.hooks, stop: stop, policy: p, first: make(chan struct{}),
		due: make(chan struct{}, 1), altered: make(chan struct{}, 1)}
	go w.run(ctx)
	return w
}

// First waits until each of these names was looked up once, or until ctx ends.
// One that is not in use is not waited for.
func (n *Names) First(ctx context.Context, keys []Key) {
	for _, k := range keys {
		if w := n.name(k); w != nil {
			select {
			case <-w.first:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Suspect says that a dial of address failed: the names of the pool that stand
// for it are looked up now, or as soon as their last look-up is a second old.
// Never blocks.
func (n *Names) Suspect(pool string, address netip.Addr) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for k, w := range n.all {
		if k.Pool == pool && w.standsFor(address) {
			signal(w.due)
		}
	}
}

// Found returns what the name stands for now, sorted. known is false as long as
// no look-up of it has succeeded. The slice must not be changed.
func (n *Names) Found(k Key) (list []Found, known bool) {
	w := n.name(k)
	if w == nil {
		return nil, false
	}
	s := w.status.Load()
	if s == nil {
		return nil, false
	}
	return s.Found, !s.Answered.IsZero()
}

// Status returns how the look-ups of a name fare; its zero value if there was
// none yet.
func (n *Names) Status(k Key) Status {
	if w := n.name(k); w != nil {
		if s := w.status.Load(); s != nil {
			return *s
		}
	}
	return Status{}
}

// Close gives up the look-ups under way and ends all others. It does not wait.
func (n *Names) Close() {
	n.end()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
}

func (n *Names) name(k Key) *name {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.all[k]
}

// signal leaves a token unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

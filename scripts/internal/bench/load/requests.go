//go:build linux

package load

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Requests are clients that each wait for the answers to their requests before
// they send more (a closed loop), or, with a rate, send when it is time to,
// whatever is still without an answer (an open loop).
//
// The latency of an open loop counts from the moment at which a request was to
// be sent, so that a subject that stalls is charged for every request that the
// stall held up.
type Requests struct {
	Targets []netip.AddrPort
	Clients int
	Depth   int     // requests in flight per client of a closed loop; 0 is 1
	Rate    float64 // of all clients, per second; 0 is a closed loop
	Request []byte
	Answer  int // bytes of an answer
}

// Start connects all clients, then begins.
func (q Requests) Start() (Load, error) {
	c := newCrew(q.Clients)
	share := func(i int) int { return (q.Clients + i) / len(c.workers) }
	return c.run(func(i int, w *worker, ready func()) error {
		r := &requester{worker: w, answer: q.Answer, buf: make([]byte, 64<<10)}
		defer r.close()
		if err := r.connect(share(i), q.Targets); err != nil {
			return err
		}
		ready()
		if q.Rate > 0 {
			return q.paced(r, i)
		}
		return q.closed(r)
	})
}

// closed keeps Depth requests of each client in flight: all are sent at once,
// when all before them were answered.
func (q Requests) closed(r *requester) error {
	depth := max(q.Depth, 1)
	batch := bytes.Repeat(q.Request, depth)
	var fault error
	refill := func(token int32) {
		c := r.clients[token]
		now := r.now()
		for range depth {
			c.sent.push(now)
		}
		if err := r.send(token, batch); err != nil && fault == nil {
			fault = err
		}
	}
	r.answered = func(token int32) {
		if r.clients[token].sent.len() == 0 {
			refill(token)
		}
	}
	for token := range r.clients {
		refill(int32(token))
	}
	for !r.stop.Load() && fault == nil {
		if err := r.wait(turn); err != nil {
			return err
		}
	}
	return fault
}

// paced sends this worker's share of the rate. By default the kernel may let a
// timer wait for 50 us longer, which would count as latency.
func (q Requests) paced(r *requester, worker int) error {
	// Never unlocked: the thread ends with the worker.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set the timer slack: %w", err)
	}
	gap := time.Duration(float64(len(r.workers)) / q.Rate * float64(time.Second))
	next := r.now() + gap*time.Duration(worker)/time.Duration(len(r.workers))
	for token := 0; !r.stop.Load(); {
		for ; next <= r.now(); next += gap {
			r.clients[token].sent.push(next)
			if err := r.send(int32(token), q.Request); err != nil {
				return err
			}
			token = (token + 1) % len(r.clients)
		}
		if err := r.wait(min(next-r.now(), turn)); err != nil {
			return err
		}
	}
	r.unanswered()
	return nil
}

// unanswered records how long the requests that are still without an answer
// have waited: leaving them out would hide a stall that lasts to the end.
func (r *requester) unanswered() {
	now := r.now()
	for _, c := range r.clients {
		for c.sent.len() > 0 {
			r.took(now - c.sent.pop())
		}
	}
}

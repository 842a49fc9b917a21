//go:build linux

package load

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"sluice/scripts/internal/bench/wire"
)

// sources is from how many addresses short connections come. Closed ones keep
// their ports for a while: from one address there would soon be no port left.
const sources = 64

// Short is clients that connect, send Size bytes to an echo, wait for them,
// close, and begin again. The latency is that of all of it but the close.
type Short struct {
	Targets []netip.AddrPort
	Clients int // at the same time
	Size    int
}

// Start begins.
func (s Short) Start() (Load, error) {
	c := newCrew(s.Clients)
	return c.run(func(i int, w *worker, ready func()) error {
		r := &shorts{worker: w, spec: s, next: i, message: make([]byte, s.Size), buf: make([]byte, s.Size)}
		r.slots = make([]slot, (s.Clients+i)/len(c.workers))
		defer r.close()
		for token := range r.slots {
			if err := r.begin(token); err != nil {
				return err
			}
		}
		ready()
		return r.loop()
	})
}

// slot is where one connection follows the other.
type slot struct {
	fd    int // 0: none
	begun time.Duration
	sent  bool
	got   int
}

// shorts is a worker with its slots.
type shorts struct {
	*worker
	spec    Short
	slots   []slot
	next    int // which target and source the next connection takes
	message []byte
	buf     []byte
}

// source returns the i-th address that connections come from, not the one that
// everything listens at.
func source(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 0, 1, byte(1 + i%sources)})
}

func (r *shorts) begin(token int) error {
	begun := r.now()
	fd, err := wire.Connect(r.spec.Targets[r.next%len(r.spec.Targets)], source(r.next))
	if err != nil {
		return err
	}
	r.next += len(r.workers)
	r.slots[token] = slot{fd: fd, begun: begun}
	// Edge-triggered, so that one call is enough for a connection's life.
	if err := r.poller.Watch(fd, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLET, int32(token)); err != nil {
		return fmt.Errorf("watch a connection: %w", err)
	}
	return nil
}

func (r *shorts) loop() error {
	var fault error
	for !r.stop.Load() && fault == nil {
		err := r.poller.Wait(turn, func(token int32, _ uint32) {
			if err := r.ready(int(token)); err != nil && fault == nil {
				fault = err
			}
		})
		if err != nil {
			return err
		}
	}
	return fault
}

// ready takes one connection as far as it can go.
func (r *shorts) ready(token int) error {
	s := &r.slots[token]
	if !s.sent {
		n, err := wire.Send(s.fd, r.message)
		if err != nil || n < len(r.message) {
			return fmt.Errorf("send %d bytes on a new connection: %d, %w", len(r.message), n, err)
		}
		s.sent = true
	}
	n, err := wire.Receive(s.fd, r.buf)
	switch {
	case err == unix.EAGAIN:
		return nil
	case err == nil && n == 0:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("wait for the echo on a new connection: %w", err)
	}
	if s.got += n; s.got < r.spec.Size {
		return nil
	}
	r.took(r.now() - s.begun)
	r.done.Add(1)
	unix.Close(s.fd)
	s.fd = 0
	return r.begin(token)
}

func (r *shorts) close() {
	for _, s := range r.slots {
		if s.fd != 0 {
			unix.Close(s.fd)
		}
	}
}

//go:build linux

package load

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"sluice/scripts/internal/bench/wire"
)

// client is one connection that carries requests.
type client struct {
	fd     int
	sent   queue  // when the requests without an answer were sent, or were to be
	got    int    // bytes of an answer that is not complete
	unsent []byte // what the socket had no room for
}

// queue is the times of requests, the oldest first.
type queue struct {
	times []time.Duration
	head  int
}

func (q *queue) push(t time.Duration) { q.times = append(q.times, t) }
func (q *queue) len() int             { return len(q.times) - q.head }

func (q *queue) pop() time.Duration {
	t := q.times[q.head]
	if q.head++; q.head == len(q.times) {
		q.times, q.head = q.times[:0], 0
	}
	return t
}

// requester is a worker with its clients.
type requester struct {
	*worker
	answer   int // bytes
	clients  []*client
	buf      []byte
	answered func(token int32) // after each read that completed answers
}

// connect establishes n connections.
func (r *requester) connect(n int, targets []netip.AddrPort) error {
	for i := range n {
		fd, err := wire.Connect(targets[i%len(targets)], netip.Addr{})
		if err != nil {
			return err
		}
		r.clients = append(r.clients, &client{fd: fd})
		if err := r.poller.Watch(fd, unix.EPOLLOUT, int32(i)); err != nil {
			return fmt.Errorf("watch a connection: %w", err)
		}
	}
	waiting, late := n, r.now()+patience
	for waiting > 0 {
		if r.now() > late {
			return fmt.Errorf("%d of %d connections were not established within %v", waiting, n, patience)
		}
		var fault error
		err := r.poller.Wait(turn, func(token int32, _ uint32) {
			waiting--
			if err := r.establish(token); err != nil && fault == nil {
				fault = err
			}
		})
		if err := errors.Join(err, fault); err != nil {
			return err
		}
	}
	return nil
}

// establish turns a connection that is ready from connecting to reading.
func (r *requester) establish(token int32) error {
	c := r.clients[token]
	if err := wire.Failure(c.fd); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return r.poller.Change(c.fd, unix.EPOLLIN, token)
}

// close closes all connections.
func (r *requester) close() {
	for _, c := range r.clients {
		unix.Close(c.fd)
	}
}

// wait handles what is ready, and waits for it as long as that.
func (r *requester) wait(most time.Duration) error {
	var fault error
	err := r.poller.Wait(most, func(token int32, events uint32) {
		if err := r.ready(token, events); err != nil && fault == nil {
			fault = err
		}
	})
	return errors.Join(err, fault)
}

func (r *requester) ready(token int32, events uint32) error {
	c := r.clients[token]
	if events&unix.EPOLLOUT != 0 {
		rest := c.unsent
		c.unsent = nil
		if err := r.send(token, rest); err != nil {
			return err
		}
		if c.unsent == nil {
			if err := r.poller.Change(c.fd, unix.EPOLLIN, token); err != nil {
				return err
			}
		}
	}
	if events&^unix.EPOLLOUT != 0 {
		return r.receive(token)
	}
	return nil
}

// send sends p, after what is still unsent.
func (r *requester) send(token int32, p []byte) error {
	c := r.clients[token]
	if c.unsent != nil {
		c.unsent = append(c.unsent, p...)
		return nil
	}
	n, err := wire.Send(c.fd, p)
	if err != nil && err != unix.EAGAIN {
		return fmt.Errorf("send a request: %w", err)
	}
	if n < len(p) {
		c.unsent = append(c.unsent, p[n:]...)
		return r.poller.Change(c.fd, unix.EPOLLIN|unix.EPOLLOUT, token)
	}
	return nil
}

// receive reads once and counts the answers that are complete.
func (r *requester) receive(token int32) error {
	c := r.clients[token]
	n, err := wire.Receive(c.fd, r.buf)
	switch {
	case err == unix.EAGAIN:
		return nil
	case err == nil && n == 0:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("wait for an answer: %w", err)
	}
	now := r.now()
	c.got += n
	answers := c.got / r.answer
	c.got %= r.answer
	if answers > c.sent.len() {
		return fmt.Errorf("%d answers to %d requests", answers, c.sent.len())
	}
	for range answers {
		r.took(now - c.sent.pop())
	}
	r.done.Add(int64(answers))
	if answers > 0 && r.answered != nil {
		r.answered(token)
	}
	return nil
}

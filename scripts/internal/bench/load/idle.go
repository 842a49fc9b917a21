//go:build linux

package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// dialers is how many sessions are opened at the same time: few enough for a
// listen queue of 511, which is nginx's.
const dialers = 32

// Idle is sessions that have each moved one byte there and back, and then do
// nothing.
type Idle struct {
	Targets []netip.AddrPort

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

// Grow opens sessions until there are n.
func (s *Idle) Grow(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tickets := make(chan int)
	var wg sync.WaitGroup
	for range dialers {
		wg.Go(func() {
			for i := range tickets {
				if err := s.open(ctx, i); err != nil {
					cancel(fmt.Errorf("open idle session %d: %w", i, err))
				}
			}
		})
	}
	for i := s.Len(); i < n && ctx.Err() == nil; i++ {
		tickets <- i
	}
	close(tickets)
	wg.Wait()
	return context.Cause(ctx)
}

// open opens one session and moves its byte.
func (s *Idle) open(ctx context.Context, i int) error {
	d := net.Dialer{Timeout: patience, KeepAlive: -1, LocalAddr: &net.TCPAddr{IP: source(i).AsSlice()}}
	c, err := d.DialContext(ctx, "tcp4", s.Targets[i%len(s.Targets)].String())
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	c.SetDeadline(time.Now().Add(patience))
	defer c.SetDeadline(time.Time{})
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return err
}

// Len returns how many sessions are open.
func (s *Idle) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Close ends all sessions.
func (s *Idle) Close() {
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

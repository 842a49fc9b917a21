//go:build linux

package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"sluice/scripts/internal/bench/wire"
)

// turn is how long a loop waits before it looks whether it is to end.
const turn = 100 * time.Millisecond

// listenEcho opens the listeners that all echo loops share.
func listenEcho(each int, where Addresses) (listeners []int, err error) {
	for range each {
		fd, at, err := wire.Listen(loopback)
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, fd)
		where[Echo] = append(where[Echo], at.String())
	}
	return listeners, nil
}

// echoLoop serves a share of the connections.
type echoLoop struct {
	poller    *wire.Poller
	listening map[int32]bool
	unsent    map[int32][]byte // by descriptor, of connections whose peer does not read
	buf       []byte
}

// echo serves what it accepts from the listeners until ctx ends.
func echo(ctx context.Context, listeners []int) error {
	p, err := wire.NewPoller()
	if err != nil {
		return err
	}
	defer p.Close()
	e := &echoLoop{p, map[int32]bool{}, map[int32][]byte{}, make([]byte, 64<<10)}
	for _, fd := range listeners {
		e.listening[int32(fd)] = true
		if err := p.Watch(fd, unix.EPOLLIN|unix.EPOLLEXCLUSIVE, int32(fd)); err != nil {
			return fmt.Errorf("watch a listener: %w", err)
		}
	}
	for ctx.Err() == nil {
		if err := p.Wait(turn, e.ready); err != nil {
			return err
		}
	}
	return nil
}

// ready serves one event of a socket.
func (e *echoLoop) ready(fd int32, events uint32) {
	var err error
	switch {
	case e.listening[fd]:
		e.accept(int(fd))
		return
	case events&unix.EPOLLOUT != 0:
		err = e.flush(fd)
	default:
		err = e.answer(fd)
	}
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		delete(e.unsent, fd)
		unix.Close(int(fd))
	}
}

// accept takes one connection and leaves the others to the loop that is woken
// next.
func (e *echoLoop) accept(listener int) {
	fd, err := wire.Accept(listener)
	if err != nil {
		return // another loop was faster, or the client has gone
	}
	if err := e.poller.Watch(fd, unix.EPOLLIN, int32(fd)); err != nil {
		unix.Close(fd)
	}
}

// answer reads once and gives it back. It returns an error when the connection
// is over.
func (e *echoLoop) answer(fd int32) error {
	n, err := wire.Receive(int(fd), e.buf)
	if err != nil {
		return err
	}
	if n == 0 {
		return unix.ECONNRESET // all was given back already
	}
	sent, err := wire.Send(int(fd), e.buf[:n])
	if err != nil && err != unix.EAGAIN {
		return err
	}
	if sent < n {
		e.unsent[fd] = append([]byte(nil), e.buf[sent:n]...)
		return e.poller.Change(int(fd), unix.EPOLLOUT, fd)
	}
	return nil
}

// flush sends what answer could not, and goes back to reading once it is out.
func (e *echoLoop) flush(fd int32) error {
	rest := e.unsent[fd]
	n, err := wire.Send(int(fd), rest)
	if err != nil {
		return err
	}
	if n < len(rest) {
		e.unsent[fd] = rest[n:]
		return nil
	}
	delete(e.unsent, fd)
	return e.poller.Change(int(fd), unix.EPOLLIN, fd)
}

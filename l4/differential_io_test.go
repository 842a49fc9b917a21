//go:build linux

package l4_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"sluice/l4/l4test"
)

const askAgain = time.Second // far above what anything takes here

// What one write takes.
const (
	chunk = 128 << 10 // large, and yet its progress shows
	drop  = 100
)

// send writes the next n bytes of the stream, some at a time. Where it may give
// up, it does so when it is stuck.
func (p *player) send(n, some int64, mayGiveUp bool) {
	p.stage.update(func() { p.writing, p.progress = true, time.Now() })
	buf := make([]byte, min(n, some))
	for n > 0 && p.broken == nil {
		part := buf[:min(n, int64(len(buf)))]
		l4test.PatternAt(p.out+p.sent, int64(len(part))).Read(part)
		if mayGiveUp {
			p.conn.SetWriteDeadline(time.Now().Add(stuckAfter))
		}
		wrote, err := p.conn.Write(part)
		n -= int64(wrote)
		p.stage.update(func() {
			p.sent += int64(wrote)
			p.progress = time.Now()
			if !mayGiveUp || !errors.Is(err, os.ErrDeadlineExceeded) {
				p.broken = err
			}
		})
		if err != nil {
			break
		}
	}
	p.conn.SetWriteDeadline(time.Now().Add(overAfter))
	p.stage.update(func() { p.writing = false })
}

// urgent sends a byte that is no part of the stream; none if there is no room.
func (p *player) urgent() {
	err := sendUrgent(p.conn)
	p.stage.update(func() {
		p.progress = time.Now()
		if err != nil && err != syscall.EAGAIN && p.broken == nil {
			p.broken = err // an error is told once
		}
	})
}

// cork lets what is written wait for the end of the stream (tcp(7)).
func (p *player) cork() {
	raw, err := p.conn.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, 1) })
	}
}

func (p *player) end() {
	p.stage.update(func() { p.ending = true })
	p.conn.CloseWrite()
}

// leave waits for the session to be there: a client that leaves before is
// another matter than what ends a session.
func (p *player) leave(how string) {
	<-p.stage.connected
	p.stage.update(func() { p.leaving, p.ending = true, p.ending || how == opClose })
	if how == opReset {
		p.conn.SetLinger(0)
	}
	p.conn.Close()
}

// readUntil lets the reader go on to limit, and waits.
func (p *player) readUntil(limit int64, holds func() bool) {
	p.stage.update(func() { p.limit = limit })
	p.stage.await(holds)
}

// reader reads to the end, as far as the steps let it.
//
// It asks again now and then: where an urgent byte is next, Linux answers a read
// with EAGAIN if a signal comes meanwhile (tcp_recvmsg), also if there is data
// behind it, and the runtime's poller then waits for an event that was already
// told. Measured: 43 of 61,600 such reads under a storm of SIGURG.
func (p *player) reader() {
	buf := make([]byte, 64<<10)
	for {
		n := p.mayRead(len(buf))
		if n == 0 {
			p.over(net.ErrClosed)
			return
		}
		p.conn.SetReadDeadline(time.Now().Add(askAgain))
		n, err := p.conn.Read(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue // mayRead ends it when the time is over
		}
		if _, wrong := p.in.Write(buf[:n]); wrong != nil {
			err = wrong
		}
		p.stage.update(func() { p.seen += int64(n) })
		if err != nil {
			p.over(err)
			return
		}
	}
}

// mayRead waits until the end may read, and returns how much: 0 if no more.
func (p *player) mayRead(most int) (n int) {
	if p.sips() {
		<-time.After(25 * time.Millisecond)
		most = 32 << 10 // 1.3 MB a second at most
	}
	p.stage.await(func() bool {
		n = int(min(int64(most), p.limit-p.seen))
		return n > 0 || p.leaving
	})
	if p.isLate() {
		return 0
	}
	return max(n, 0)
}

func (p *player) isLate() bool {
	p.stage.mu.Lock()
	defer p.stage.mu.Unlock()
	return p.stage.expired
}

func (p *player) sips() bool {
	p.stage.mu.Lock()
	defer p.stage.mu.Unlock()
	return p.slow
}

// over notes how reading ended, and whether the other end was the cause.
func (p *player) over(err error) {
	p.stage.update(func() {
		other := p.stage.players[p.side.Other()]
		switch {
		case p.stage.expired:
			p.how = "stuck"
		case p.leaving && errors.Is(err, net.ErrClosed):
			p.how = "left"
		case err == io.EOF:
			p.how = "end"
			p.early = !other.ending && !other.leaving
		default:
			p.how = ending(err)
			p.early = !other.leaving
		}
	})
}

//go:build linux

package l4_test

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

const (
	// stuckAfter is how long a write may take nothing before it counts as stuck.
	// A wrong guess is harmless: what was sent is counted, not foretold.
	stuckAfter = 40 * time.Millisecond
	// overAfter bounds a session: who is not over by then is stuck for good.
	overAfter = 2 * l4test.Patience
	unlimited = math.MaxInt64
)

// stage is one session as both of its ends see it. The ends meet here, not on
// the wire: what one waits for, the other tells.
type stage struct {
	script    script
	gate      func()
	order     func()
	connected chan struct{} // closed once the backend's end is there

	mu      sync.Mutex // guards what follows, and the state of both players
	changed sync.Cond  // whatever mu guards
	expired bool
	players [2]*player
}

// newStage returns the stage of a script whose streams carry the tag of the
// session: no two sessions at a time have the same.
func newStage(s script, tag int64) *stage {
	st := &stage{script: s, connected: make(chan struct{})}
	st.changed.L = &st.mu
	for side := range st.players {
		side := session.Side(side)
		st.players[side] = &player{
			stage: st, side: side, limit: unlimited, sentAt: []int64{0}, answered: -1,
			out: streamOf(tag, side), in: l4test.Verify{At: streamOf(tag, side.Other())},
		}
	}
	return st
}

// streamOf returns where in the pattern a stream begins.
func streamOf(tag int64, side session.Side) int64 { return (2*tag + int64(side)) * 10_007 }

// watch ends the session when its time is over, unless stop comes before.
func (st *stage) watch() (stop func() bool) {
	return time.AfterFunc(overAfter, func() { st.update(func() { st.expired = true }) }).Stop
}

func (st *stage) update(f func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	f()
	st.changed.Broadcast()
}

// await waits until holds does, or the time is over.
func (st *stage) await(holds func() bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for !holds() && !st.expired {
		st.changed.Wait()
	}
}

// awaitStuck is await for what does not happen but lasts.
func (st *stage) awaitStuck(holds func() bool) {
	done := make(chan struct{})
	defer close(done)
	go func() {
		tick := time.NewTicker(stuckAfter / 4)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				st.changed.Broadcast()
			}
		}
	}()
	st.await(holds)
}

// player is one end: it does its steps, and reads beside them.
type player struct {
	stage *stage
	side  session.Side
	conn  *net.TCPConn
	out   int64         // where in the pattern its stream begins
	in    l4test.Verify // for the reader alone

	// stage.mu guards the fields below.
	done     int     // steps of its own
	sent     int64   // bytes that its socket took
	sentAt   []int64 // the same, by done
	progress time.Time
	writing  bool
	ending   bool // it began to end its stream
	leaving  bool // it began to leave
	broken   error
	seen     int64
	limit    int64 // of seen; unlimited unless it holds
	slow     bool
	how      string // how reading ended; empty while it goes on
	early    bool   // reading ended before the other end did anything about it

	answered int64 // bytes sent when a step first waited for the end; -1 if none did
}

// play acts the part out, and closes the socket.
func (p *player) play(conn *net.TCPConn) {
	p.conn = conn
	conn.SetDeadline(time.Now().Add(overAfter))
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		p.reader()
	}()
	above := 0 // steps of the other end
	for _, s := range p.stage.script {
		if s.side != p.side {
			above++
			continue
		}
		p.do(s, above)
		p.stage.update(func() {
			p.done++
			p.sentAt = append(p.sentAt, p.sent)
		})
	}
	if !p.leaving {
		p.end()
		p.readUntil(unlimited, func() bool { return p.how != "" })
		conn.Close()
	}
	<-reading
}

func (p *player) do(s step, above int) {
	other := p.stage.players[p.side.Other()]
	arrived := func() bool { return p.how != "" || other.done >= above && p.seen >= other.sentAt[above] }
	switch s.op {
	case opWrite:
		p.send(s.n, p.holds())
	case opPush:
		p.send(s.n, true)
	case opLast:
		p.cork()
		p.send(s.n, p.holds())
		p.end()
	case opUrgent:
		p.urgent()
	case opEnd:
		p.end()
	case opHold:
		p.conn.SetReadBuffer(4 * lightest) // so that it takes less to fill the queues
		p.stage.update(func() { p.limit = p.seen })
	case opSlow:
		p.stage.update(func() { p.slow = true })
	case opTake:
		want := p.seenSoFar() + s.n
		p.readUntil(want, func() bool { return p.seen >= want || arrived() })
	case opRead:
		p.readUntil(unlimited, arrived)
	case opEnded:
		p.readUntil(unlimited, func() bool { return p.how != "" })
		if p.answered < 0 {
			p.answered = p.sent
		}
	case opSync:
		p.sync(other, above)
	case opGate:
		p.stage.gate()
	case opOrder:
		p.stage.order()
		p.readUntil(unlimited, func() bool { return p.how != "" })
	case opReset, opClose:
		p.leave(s.op)
	default:
		panic("no operation " + s.op)
	}
}

// sync waits for the steps of the other end above. If this end holds, the other
// may be stuck in one of them.
func (p *player) sync(other *player, above int) {
	did := func() bool { return other.done >= above }
	if p.holds() {
		p.stage.awaitStuck(func() bool { return did() || other.stuck() })
	} else {
		p.stage.await(did)
	}
}

// holds reports whether the end does not read all that comes.
func (p *player) holds() bool {
	p.stage.mu.Lock()
	defer p.stage.mu.Unlock()
	return p.limit != unlimited
}

// stuck reports whether the end waits for the other to read. The mutex is held.
func (p *player) stuck() bool { return p.writing && time.Since(p.progress) > stuckAfter }

func (p *player) seenSoFar() int64 {
	p.stage.mu.Lock()
	defer p.stage.mu.Unlock()
	return p.seen
}

// send writes the next n bytes of the stream. Where it may give up, it does so
// when it is stuck.
func (p *player) send(n int64, mayGiveUp bool) {
	p.stage.update(func() { p.writing, p.progress = true, time.Now() })
	buf := make([]byte, min(n, 128<<10))
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
func (p *player) reader() {
	buf := make([]byte, 64<<10)
	for {
		n := p.mayRead(len(buf))
		if n == 0 {
			p.over(net.ErrClosed)
			return
		}
		n, err := p.conn.Read(buf[:n])
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
		<-time.After(10 * time.Millisecond)
		most = 16 << 10 // 1.6 MB a second at most
	}
	p.stage.await(func() bool {
		n = int(min(int64(most), p.limit-p.seen))
		return n > 0 || p.leaving
	})
	return max(n, 0)
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
		case p.stage.expired, errors.Is(err, os.ErrDeadlineExceeded):
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

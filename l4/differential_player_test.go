//go:build linux

package l4_test

import (
	"net"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

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
		p.send(s.n, chunk, p.holds())
	case opDrip:
		p.send(s.n, drop, p.holds())
	case opPush:
		p.send(s.n, chunk, true)
	case opLast:
		p.cork()
		p.send(s.n, chunk, p.holds())
		p.end()
	case opUrgent:
		p.urgent()
	case opEnd:
		p.end()
	case opHold:
		p.conn.SetReadBuffer(4 * lightest) // so that it takes less to fill the queues
		p.stage.update(func() { p.limit = p.seen })
	case opSlow:
		p.conn.SetReadBuffer(8 * lightest)
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

package l4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"sluice/l4/header"
	"sluice/l4/l4test"
	"sluice/l4/session"
)

// play is one session of a trial: what both ends do, and what they saw.
type play struct {
	id     uint32
	roles  [2]role // by session.Side
	saw    [2]sight
	addr   string // of the client
	header string // goes first
}

// role is what one end of a session does.
type role struct {
	size  int
	piece int    // bytes that it writes at once
	how   string // "end": ends its stream and reads to the end; "reset": when it sent all; "hang": waits for the other
	tight bool   // its send queue is small

	midway func() // called when half is sent; nil
	ended  func() // called when its end is sent; nil
}

// sight is what one end saw of the other: bytes, and an end, a reset or wrong
// bytes. The zero value: it was never reached.
type sight struct {
	bytes int
	how   string
}

// headSize is the length of the play's number, which the client sends first.
const headSize = 4

// at is where in the pattern a side's stream begins, behind the head.
func (p *play) at(side session.Side) int64 { return int64(p.id)*7919 + int64(side)*65537 }

// run is the client's end.
func (tr *trial) run(p *play) {
	tr.mu.Lock()
	tr.plays[p.id] = p
	tr.mu.Unlock()
	c, err := net.Dial("tcp", tr.listener.Addr())
	if err != nil { // reset already
		p.saw[session.Client].how = howItEnded(err)
		return
	}
	c.SetDeadline(time.Now().Add(2 * l4test.Patience))
	p.addr = c.LocalAddr().String()
	head := binary.BigEndian.AppendUint32([]byte(p.header), p.id)
	if _, err := c.Write(head); err != nil {
		p.saw[session.Client].how = "reset"
		c.Close()
		return
	}
	p.act(session.Client, c.(*net.TCPConn))
}

// serve is the backend's end.
func (tr *trial) serve(c *net.TCPConn) {
	head := make([]byte, headSize)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	tr.mu.Lock()
	p := tr.plays[binary.BigEndian.Uint32(head)]
	tr.mu.Unlock()
	if p == nil {
		tr.t.Errorf("a backend got the head %x of no play", head)
		return
	}
	p.act(session.Backend, c)
}

// greetingSize is the size of a PROXY header of version 2 for IPv4.
const greetingSize = 28

// serveGreeted is serve for the backend that gets PROXY headers.
func (tr *trial) serveGreeted(c *net.TCPConn) {
	greeting := make([]byte, greetingSize)
	if _, err := io.ReadFull(c, greeting); err != nil {
		return
	}
	if h, v := header.Read(greeting); v != header.Whole || h.Size != greetingSize || !h.Source.IsValid() {
		tr.t.Errorf("a backend got %q for a header", greeting)
	}
	tr.serve(c)
}

// act is what an end does, and returns when it saw how the other ended.
func (p *play) act(side session.Side, c *net.TCPConn) {
	defer c.Close()
	r := &p.roles[side]
	if r.tight {
		tight(c)
		c.SetReadBuffer(1)
	}
	reset := false // a socket tells of it once, and that may be the writer
	var both sync.WaitGroup
	both.Go(func() {
		src := l4test.PatternAt(p.at(side), int64(r.size))
		buf := make([]byte, r.piece)
		for sent, called := 0, false; ; {
			if !called && r.midway != nil && sent >= r.size/2 {
				called = true
				r.midway()
			}
			n, err := src.Read(buf)
			if err != nil {
				break
			}
			if _, err := c.Write(buf[:n]); err != nil {
				reset = errors.Is(err, syscall.ECONNRESET)
				return
			}
			sent += n
		}
		switch r.how {
		case "end":
			c.CloseWrite()
			if r.ended != nil {
				r.ended()
			}
		case "reset":
			l4test.Abort(c)
		}
	})
	v := &l4test.Verify{At: p.at(side.Other())}
	_, err := io.Copy(v, onlyRead{c})
	both.Wait()
	if r.how == "hang" {
		c.CloseWrite()
	}
	p.saw[side] = sight{int(v.N), howItEnded(err)}
	if reset {
		p.saw[side].how = "reset"
	}
}

// onlyRead keeps io.Copy from splicing.
type onlyRead struct{ io.Reader }

func howItEnded(err error) string {
	switch {
	case err == nil:
		return "end"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case errors.Is(err, net.ErrClosed):
		return "closed"
	}
	return err.Error()
}

// whole reports whether both ends got all and saw an end.
func (p *play) whole() bool {
	return p.saw[session.Client] == sight{p.roles[session.Backend].size, "end"} &&
		p.saw[session.Backend] == sight{p.roles[session.Client].size, "end"}
}

// polite are causes of sessions that we ended: both see an end behind part of
// what was sent.
var polite = map[session.Cause]bool{
	session.Killed: true, session.Shutdown: true, session.Idle: true, session.HalfCloseTimeout: true,
	session.Removed: true, session.Drained: true,
}

// check returns what is wrong with a play that is over; r is its record, if
// there is one.
func (p *play) check(r session.Record, recorded bool) error {
	for side := range session.Side(2) {
		saw, other := p.saw[side], p.roles[side.Other()]
		switch saw.how {
		case "", "reset", "closed":
			continue
		case "end":
		default:
			return fmt.Errorf("side %d saw %v", side, saw)
		}
		partial := saw.bytes < other.size
		switch {
		case partial && !(recorded && polite[r.Cause]):
			return fmt.Errorf("side %d took %d of %d bytes for all", side, saw.bytes, other.size)
		case other.how == "reset" && !(recorded && polite[r.Cause]):
			return fmt.Errorf("side %d saw an end, the other reset", side)
		}
	}
	if recorded && (r.Cause == session.ClientClosed || r.Cause == session.BackendClosed) && p.roles[0].how == "end" && p.roles[1].how == "end" && !p.whole() {
		return fmt.Errorf("the cause is %s, but the ends saw %v", r.Cause, p.saw)
	}
	return nil
}

func (p *play) String() string {
	return fmt.Sprintf("play %d: client %d %s in %d, backend %d %s in %d; saw %v", p.id,
		p.roles[0].size, p.roles[0].how, p.roles[0].piece, p.roles[1].size, p.roles[1].how, p.roles[1].piece, p.saw)
}

package l4

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// Bytes and the end behind them are one event, and no other comes: a receive
// that empties the queue is not the last.
func TestEndBehindBytesOfOneEventIsNotLost(t *testing.T) {
	t.Parallel()
	for _, buffer := range []int{3, 5000, 64 << 10} { // less than what comes, and more
		k := newFaulty(t, 0, nil)
		tr := startTrial(t, k, shape{loops: 1, buffer: buffer, set: patient()})
		go tr.listener.Serve()
		tr.crowd(1)()
		var plays []*play
		free := occupy(tr.driver.loops[0])
		done := make(chan struct{})
		for id := range uint32(20) {
			p := &play{id: id, roles: [2]role{{size: 50 * int(id), piece: 1000, how: "end"}, {size: 100, piece: 100, how: "end"}}}
			plays = append(plays, p)
			ended := make(chan struct{})
			p.roles[session.Client].ended = func() { close(ended) }
			go func() { tr.run(p); done <- struct{}{} }()
			<-ended // bytes and end are in the queue of a socket that nobody accepted
		}
		free()
		for range plays {
			<-done
		}
		tr.until("they are over", func() bool { return tr.front.Status().Active == 0 })
		tr.close()
		for _, p := range plays {
			if !p.whole() {
				t.Errorf("buffer %d: %v", buffer, p)
			}
		}
	}
}

// onlyHand makes a backend that hands its connections over the only one.
func (tr *trial) onlyHand() <-chan *net.TCPConn {
	habit, conns := l4test.Hand(tr.t)
	tr.backends = append(tr.backends, l4test.Serve(tr.t, habit))
	spec := tr.poolConfig()
	spec.Backends = spec.Backends[2:]
	tr.pool.Apply(spec)
	return conns
}

// A session ends, a new client takes its place and its descriptor, and an event
// of the old one comes behind, all in one batch.
func TestEventOfASessionBeforeIsNotTheNextOnes(t *testing.T) {
	t.Parallel()
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 512, set: patient()})
	conns := tr.onlyHand()
	go tr.listener.Serve()
	for range 20 {
		old, err := net.Dial("tcp", tr.listener.Addr())
		if err != nil {
			t.Fatal(err)
		}
		backend := <-conns
		tr.until("it relays", func() bool {
			rows := tr.sessions()
			return len(rows) == 1 && rows[0].State == "relaying"
		})
		l := tr.driver.loops[0]
		before := k.calledSoFar("epoll_pwait")
		free := occupy(l)
		l4test.Abort(backend)                            // the session is over
		next, err := net.Dial("tcp", tr.listener.Addr()) // in its place
		if err != nil {
			t.Fatal(err)
		}
		l4test.Abort(old.(*net.TCPConn)) // its last event
		free()
		select {
		case c := <-conns:
			c.Write([]byte("!"))
			c.Close()
		case <-time.After(l4test.Patience):
			t.Fatal("the new session has no backend")
		}
		if _, err := io.ReadFull(next, make([]byte, 1)); err != nil {
			t.Fatalf("the new session, after %d waits: %v", k.calledSoFar("epoll_pwait")-before, err)
		}
		next.Close()
		tr.until("it is over", func() bool { return tr.front.Status().Active == 0 })
	}
	tr.close()
}

// Two streams that never run dry and one small request share a loop: in each
// round of it they move what a turn of each may.
func TestBulkLeavesTurnsToOthers(t *testing.T) {
	t.Parallel()
	const streams = 2
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: loopBuffer, set: patient()})
	go tr.listener.Serve()
	leave := tr.crowd(streams)
	tr.driver.onAll(func(_ int, l *loop) {
		for d := range sessionsOf(l) {
			k.flow(d, true)
			d.socks[session.Client].readable = true
			l.again(d)
		}
	})
	tr.until("the streams flow", func() bool { return k.calledSoFar("fill") > 100 })
	for id := range uint32(5) {
		p := &play{id: id, roles: [2]role{{size: 10, piece: 10, how: "end"}, {size: 10, piece: 10, how: "end"}}}
		tr.run(p)
		if p.saw[session.Client] != (sight{10, "end"}) {
			t.Errorf("a small request: %v", p)
		}
	}
	tr.driver.onAll(func(_ int, l *loop) {
		for d := range sessionsOf(l) {
			k.flow(d, false)
		}
	})
	// Received and sent, and one turn begins as a copy and goes on by splice.
	if most := streams * 2 * (copyTurn + spliceTurn); k.maxRush > most {
		t.Errorf("between two looks at the others %d bytes were received and sent, want %d at most", k.maxRush, most)
	}
	leave()
	tr.until("they are over", func() bool { return tr.front.Status().Active == 0 })
	tr.close()
}

// flow makes the direction of d from the client endless, or not.
func (k *faulty) flow(d *duplex, on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for side, calls := range [2][]string{{"recv", "fill"}, {"send", "empty"}} {
		for _, call := range calls {
			k.endless[stretch{call, int(d.socks[side].fd)}] = on
		}
	}
}

// A session that does nothing costs no timer, no pipe and no memory but its own,
// and its bulk was spliced, also behind a PROXY header.
func TestIdleSessionHoldsNothing(t *testing.T) {
	for _, header := range []string{"", "PROXY UNKNOWN\r\n"} {
		t.Run(fmt.Sprintf("header of %d bytes", len(header)), func(t *testing.T) {
			t.Parallel()
			idleSessionHoldsNothing(t, header)
		})
	}
}

func idleSessionHoldsNothing(t *testing.T, header string) {
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 1024, set: patient(), header: header != ""})
	conns := tr.onlyHand()
	go tr.listener.Serve()
	const sessions, bytes = 10, 200_000
	var clients []net.Conn
	for range sessions {
		c, err := net.Dial("tcp", tr.listener.Addr())
		if err != nil {
			t.Fatal(err)
		}
		go io.Copy(c, io.MultiReader(strings.NewReader(header), l4test.Pattern(bytes)))
		backend := <-conns
		if n, err := io.CopyN(&l4test.Verify{}, onlyRead{backend}, bytes); err != nil {
			t.Fatalf("the backend got %d bytes: %v", n, err)
		}
		clients = append(clients, c, backend)
	}
	if k.calledSoFar("fill") == 0 {
		t.Error("nothing was spliced")
	}
	var timers, holding, free int
	tr.until("the timers of young sessions are over", func() bool {
		tr.driver.onAll(func(_ int, l *loop) {
			timers, holding, free = l.timers.Len(), 0, len(l.spills.free)
			for d := range sessionsOf(l) {
				for side := range d.flows {
					if d.flows[side].held != nil || d.flows[side].pipe != nil {
						holding++
					}
				}
			}
		})
		return timers == 0
	})
	if holding != 0 || free > spillsKept {
		t.Errorf("%d directions hold memory or a pipe, and the loop %d pieces of it", holding, free)
	}
	if n := k.stillOpen("pipe2"); n > 2*4 { // of the stock
		t.Errorf("%d ends of pipes are open", n)
	}
	for _, c := range clients {
		c.Close()
	}
	tr.until("they are over", func() bool { return tr.front.Status().Active == 0 })
	tr.close()
}

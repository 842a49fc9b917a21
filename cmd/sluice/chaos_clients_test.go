//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"sluice/l4/greeting"
)

// visitor is a client that comes again and again, each time from an address of
// its own, so that its sessions can be told apart in the log.
type visitor struct {
	chaos *chaos
	rand  *rand.Rand
	index uint64
	calls uint64
	said  map[string]stay // by address
	wrong []string
}

// stay is what a client knows of one session.
type stay struct {
	sent, got int64 // bytes
	whole     bool  // both ends came, and all that was sent came back
}

func newVisitor(c *chaos, index uint64) *visitor {
	return &visitor{chaos: c, rand: rand.New(rand.NewPCG(*chaosSeed, index+1)), index: index, said: map[string]stay{}}
}

func (v *visitor) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			v.call()
		}
	}
}

// address is one that no session had before: 127.1.0.0 and up.
func (v *visitor) address() netip.Addr {
	v.calls++
	n := v.index<<20 | v.calls
	return netip.AddrFrom4([4]byte{127, byte(1 + n>>16), byte(n >> 8), byte(n)})
}

// call is one session, whatever becomes of it.
func (v *visitor) call() {
	from := v.address()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: patience}
	frontend := v.rand.IntN(2)
	conn, err := d.Dial("tcp", v.chaos.listen[frontend])
	if err != nil {
		time.Sleep(5 * time.Millisecond) // a frontend that is not there costs no time
		return
	}
	c := conn.(*net.TCPConn)
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if frontend == believing && v.rand.IntN(2) == 0 {
		v.announce(c, from)
	}
	switch v.rand.IntN(8) {
	case 0: // leaves at once
	case 1: // resets in the middle
		c.Write(make([]byte, v.rand.IntN(10_000)))
		c.SetLinger(0)
	case 2: // stalls
		c.Write(make([]byte, v.rand.IntN(300_000)))
		time.Sleep(time.Duration(v.rand.IntN(int(400 * time.Millisecond)))) // how long it stalls
	case 3:
		v.said[from.String()] = v.exchange(c, 1<<20+v.rand.IntN(1<<20))
	default:
		v.said[from.String()] = v.exchange(c, v.rand.IntN(5000))
	}
}

// announce begins with a PROXY header, in two parts.
func (v *visitor) announce(c *net.TCPConn, client netip.Addr) {
	head := greeting.Client(1+v.rand.IntN(2), netip.AddrPortFrom(client, 1), netip.AddrPortFrom(client, 2))
	half := v.rand.IntN(len(head))
	c.Write(head[:half])
	time.Sleep(time.Duration(v.rand.IntN(int(20 * time.Millisecond)))) // how slow it is
	c.Write(head[half:])
}

// exchange sends n bytes and an end, and reads to the end of what comes back.
func (v *visitor) exchange(c *net.TCPConn, n int) (s stay) {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(v.rand.Uint32())
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		sent, err := c.Write(data)
		s.sent = int64(sent)
		if err == nil {
			c.CloseWrite()
		}
	})
	back, err := io.ReadAll(c)
	sending.Wait()
	s.got = int64(len(back))
	name, echo, _ := bytes.Cut(back, []byte("\n"))
	if !bytes.HasPrefix(data, echo) {
		v.wrong = append(v.wrong, fmt.Sprintf("of %d bytes sent, %d came back that are others", n, len(echo)))
	}
	s.whole = err == nil && len(name) == 1 && len(echo) == n
	return s
}

// checkRecords compares the log with what the clients know, and the totals of
// the backends with the log.
func (c *chaos) checkRecords() {
	t := c.t
	t.Helper()
	if status, _ := c.ask("GET", "/healthz", ""); status != 200 {
		t.Fatal("the process does not live")
	}
	c.end(syscall.SIGTERM)
	seen := map[string]stay{}
	var normal, toBackend, toClient int64
	for _, line := range c.lines("session") {
		s := stay{sent: int64(line["to_backend"].(float64)), got: int64(line["to_client"].(float64))}
		toBackend += s.sent
		toClient += s.got
		if cause := line["cause"]; cause == "client_closed" || cause == "backend_closed" {
			s.whole = true
			normal++
		}
		client, err := netip.ParseAddrPort(line["client"].(string))
		if err != nil {
			t.Fatal(err)
		}
		seen[client.Addr().String()] = s
	}
	if normal == 0 {
		t.Error("no session ended well: the chaos is too wild to show anything")
	}
	c.compare(seen)
	if got := c.totals; got != [2]int64{toBackend, toClient} {
		t.Errorf("the backends count %v bytes, the records %d and %d", got, toBackend, toClient)
	}
}

// compare checks that a whole exchange that a client saw is in the log with the
// same bytes, and that a normal end in the log is a whole exchange. An order may
// end a session just before its ends are passed on; and a backend that falls before
// it greeted may have ended properly.
func (c *chaos) compare(seen map[string]stay) {
	c.t.Helper()
	for _, v := range c.visitors {
		for _, w := range v.wrong {
			c.t.Error(w)
		}
		for client, said := range v.said {
			logged, ok := seen[client]
			if said.whole && !ok {
				c.t.Errorf("the session of %s is not in the log; the client saw %+v", client, said)
			}
			bytes := said.sent == logged.sent && said.got == logged.got
			if ok && (said.whole && !bytes || logged.whole && logged.got > 0 && said != logged) {
				c.t.Errorf("the log has %+v of the session of %s, which saw %+v", logged, client, said)
			}
		}
	}
}

// tally says how the sessions went.
func (c *chaos) tally() string {
	whole, calls := 0, uint64(0)
	for _, v := range c.visitors {
		calls += v.calls
		for _, s := range v.said {
			if s.whole {
				whole++
			}
		}
	}
	return fmt.Sprintf("%d sessions, %d of them whole", calls, whole)
}

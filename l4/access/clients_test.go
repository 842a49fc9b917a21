package access_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/l4/access"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func expect(t *testing.T, c *access.Clients, a string, l access.Limits, want access.Verdict) {
	t.Helper()
	if got := c.Enter(addr(a), l); got != want {
		t.Fatalf("%s enters: got verdict %d, want %d", a, got, want)
	}
}

// B039: each client has places of its own. A /64 of IPv6 is one client, and IPv4
// in IPv6 is IPv4.
func TestSessionsOfEachClient(t *testing.T) {
	var c access.Clients
	two := access.Limits{Sessions: 2}
	for _, client := range [][]string{
		{"127.0.0.1", "::ffff:127.0.0.1", "127.0.0.1"},
		{"127.0.0.2", "127.0.0.2", "127.0.0.2"},
		{"2001:db8::1", "2001:db8::ffff:0:0:1", "2001:db8::2"},
		{"2001:db8:0:1::1", "2001:db8:0:1::1", "2001:db8:0:1::1"},
		{"fe80::1%eth0", "fe80::2%eth1", "fe80::1"},
	} {
		expect(t, &c, client[0], two, access.Let)
		expect(t, &c, client[1], two, access.Let)
		expect(t, &c, client[2], two, access.TooMany)
		c.Leave(addr(client[1]))
		expect(t, &c, client[2], two, access.Let)
		expect(t, &c, client[0], access.Limits{Sessions: 3}, access.Let) // a reload
		expect(t, &c, client[0], two, access.TooMany)
		for _, a := range client {
			c.Leave(addr(a))
		}
	}
	if n := c.Len(); n != 0 {
		t.Errorf("%d clients are left, want none", n)
	}
}

// A client begins as many sessions at once as its rate, and then so many a
// second; one that is refused costs it nothing.
func TestRateOfEachClient(t *testing.T) {
	for _, rate := range []int{1, 3, 1000} {
		synctest.Test(t, func(t *testing.T) {
			var c access.Clients
			l := access.Limits{Rate: rate}
			enter := func() (n int) {
				for c.Enter(addr("192.0.2.1"), l) == access.Let {
					n++
					c.Leave(addr("192.0.2.1"))
				}
				return n
			}
			for _, pause := range []time.Duration{0, time.Second, time.Hour} {
				time.Sleep(pause)
				if n := enter(); n != rate {
					t.Errorf("rate %d: %d at once after %v", rate, n, pause)
				}
			}
			expect(t, &c, "192.0.2.2", l, access.Let) // another client
			c.Leave(addr("192.0.2.2"))
			total := 0
			for range 100 { // 10 seconds
				time.Sleep(100 * time.Millisecond)
				total += enter()
			}
			if total < 10*rate-1 || total > 10*rate {
				t.Errorf("rate %d: %d in 10 seconds", rate, total)
			}
			if c.Len() == 0 {
				t.Error("a client is forgotten while it may not begin a session")
			}
			time.Sleep(time.Second)
			if n := c.Len(); n != 0 {
				t.Errorf("rate %d: %d clients are left, want none", rate, n)
			}
		})
	}
}

// What was undone leaves no trace, also in the bucket.
func TestUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c access.Clients
		l := access.Limits{Sessions: 1, Rate: 2}
		for range 10 {
			expect(t, &c, "192.0.2.1", l, access.Let)
			c.Undo(addr("192.0.2.1"), l)
		}
		if n := c.Len(); n != 0 {
			t.Errorf("%d clients are left, want none", n)
		}
	})
}

// A session keeps its client in the table, whatever the others do, and a client
// with none is gone within a second.
func TestClientsAgainstNaive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c access.Clients
		r := rand.New(rand.NewPCG(1, 2))
		l := access.Limits{Sessions: 3, Rate: 5}
		held := map[netip.Addr]int{}
		for range 100_000 {
			a := netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(4)), byte(r.IntN(64))})
			switch {
			case r.IntN(2) == 0 && held[a] > 0:
				c.Leave(a)
				held[a]--
			default:
				v := c.Enter(a, l)
				if (v == access.TooMany) != (held[a] == l.Sessions) {
					t.Fatalf("with %d sessions: verdict %d", held[a], v)
				}
				if v == access.Let {
					held[a]++
				}
			}
			if r.IntN(10) == 0 {
				time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		clients := 0
		for a, n := range held {
			if n > 0 {
				clients++
			}
			for range n {
				defer c.Leave(a)
			}
		}
		if got := c.Len(); got != clients {
			t.Errorf("%d clients in the table, %d have sessions", got, clients)
		}
	})
}

// However many addresses come, they take the memory of some thousands: what is forgotten is a
// bucket that is not full yet, never a session.
func TestManyAddressesStayBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands still
		var c access.Clients
		l := access.Limits{Sessions: 2, Rate: 1}
		expect(t, &c, "127.0.0.1", l, access.Let)
		const n, most = 300_000, 66_000
		for i := range uint64(n) {
			var b [16]byte
			binary.BigEndian.PutUint64(b[:], 0x2001<<48+i)
			a := netip.AddrFrom16(b)
			if v := c.Enter(a, l); v != access.Let {
				t.Fatalf("address %d: verdict %d", i, v)
			}
			c.Leave(a)
		}
		if got := c.Len(); got > most || got < most/2 {
			t.Errorf("%d clients are remembered, want %d at most", got, most)
		}
		expect(t, &c, "127.0.0.1", l, access.TooOften)
		c.Leave(addr("127.0.0.1"))
		time.Sleep(2 * time.Second)
		if got := c.Len(); got != 0 {
			t.Errorf("%d clients are remembered at the end, want none", got)
		}
	})
}

func TestClientsFromManyGoroutines(t *testing.T) {
	var c access.Clients
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 2000 {
				a := netip.AddrFrom4([4]byte{10, 0, 0, byte(i % 7)})
				if c.Enter(a, access.Limits{Sessions: 4}) == access.Let {
					c.Leave(a)
				}
			}
		})
	}
	all.Wait()
	if n := c.Len(); n != 0 {
		t.Errorf("%d clients are left, want none", n)
	}
}

func BenchmarkClients(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var c access.Clients
			l := access.Limits{Sessions: 1 << 30, Rate: 1_000_000}
			list := many(n)
			for _, p := range list {
				c.Enter(p.Addr(), l)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				a := list[i*7919%n].Addr()
				if c.Enter(a, l) == access.Let {
					c.Leave(a)
				}
			}
		})
	}
}

package l4_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"sluice/l4"
	"sluice/l4/access"
	"sluice/l4/l4test"
	"sluice/l4/session"
)

// plain is what the relay is measured against: accept, dial, two io.Copy.
func plain(b *testing.B, backend string) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { copyBoth(c.(*net.TCPConn), backend) })
		}
	})
	b.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

func copyBoth(client *net.TCPConn, backend string) {
	defer client.Close()
	s, err := net.Dial("tcp", backend)
	if err != nil {
		return
	}
	defer s.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(s, client)
		s.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(client, s)
	client.CloseWrite()
	<-done
}

// onRelays measures f over the plain copy and over every engine.
func onRelays(b *testing.B, habit func(*net.TCPConn), f func(b *testing.B, addr string)) {
	backend := l4test.Serve(b, habit)
	b.Run("plain", func(b *testing.B) { f(b, plain(b, backend.Addr)) })
	for _, engine := range engines {
		b.Run(engine, func(b *testing.B) {
			r := start(b, setup{engine: engine, specs: specs(backend.Addr), drop: true})
			f(b, r.addr)
		})
	}
}

func dialBench(b *testing.B, addr string) *net.TCPConn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	return c.(*net.TCPConn)
}

const block = 1 << 20

// BenchmarkRelayToBackend moves bulk from the client, 1 MiB an operation.
func BenchmarkRelayToBackend(b *testing.B) {
	onRelays(b, func(c *net.TCPConn) {
		io.CopyBuffer(struct{ io.Writer }{io.Discard}, onlyReader{c}, make([]byte, 256<<10))
	}, func(b *testing.B, addr string) {
		c := dialBench(b, addr)
		buf := make([]byte, block)
		b.SetBytes(block)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Write(buf); err != nil {
				b.Fatal(err)
			}
		}
		c.CloseWrite()
		io.Copy(io.Discard, c)
		c.Close()
	})
}

// BenchmarkRelayToClient moves bulk from the backend, 1 MiB an operation.
func BenchmarkRelayToClient(b *testing.B) {
	onRelays(b, func(c *net.TCPConn) {
		for buf := make([]byte, 256<<10); ; {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	}, func(b *testing.B, addr string) {
		c := dialBench(b, addr)
		defer l4test.Abort(c)
		buf := make([]byte, block)
		b.SetBytes(block)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRelayPing sends 64 bytes there and back over one connection.
func BenchmarkRelayPing(b *testing.B) {
	onRelays(b, echoPlain, func(b *testing.B, addr string) {
		c := dialBench(b, addr)
		defer c.Close()
		buf := make([]byte, 64)
		b.ReportAllocs()
		for b.Loop() {
			c.Write(buf)
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRelayPing50 does so over 50 connections at once.
func BenchmarkRelayPing50(b *testing.B) {
	onRelays(b, echoPlain, func(b *testing.B, addr string) {
		const clients = 50
		var conns []*net.TCPConn
		for range clients {
			c := dialBench(b, addr)
			defer c.Close()
			conns = append(conns, c)
		}
		b.ReportAllocs()
		b.ResetTimer()
		var wg sync.WaitGroup
		for i, c := range conns {
			wg.Go(func() {
				buf := make([]byte, 64)
				for range (b.N + i) / clients {
					c.Write(buf)
					io.ReadFull(c, buf)
				}
			})
		}
		wg.Wait()
		b.StopTimer()
	})
}

// BenchmarkRelayShort is a connection with 64 bytes there and back.
func BenchmarkRelayShort(b *testing.B) {
	onRelays(b, echoPlain, func(b *testing.B, addr string) {
		b.ReportAllocs()
		buf := make([]byte, 64)
		for b.Loop() {
			c := dialBench(b, addr)
			c.Write(buf)
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
			c.Close()
		}
	})
}

// echoPlain is an echo by read and write, as most servers are.
func echoPlain(c *net.TCPConn) {
	for buf := make([]byte, 4096); ; {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		c.Write(buf[:n])
	}
}

// A client that is turned away, from its connect to the reset.
func BenchmarkRefusedClient(b *testing.B) {
	for _, entries := range []int{10, 100_000} {
		var list []netip.Prefix
		for i := range entries {
			list = append(list, netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(i >> 15), byte(i >> 7), byte(i<<1) + 1}), 32))
		}
		for _, engine := range engines {
			b.Run(fmt.Sprintf("%s/%d", engine, entries), func(b *testing.B) {
				r := start(b, setup{engine: engine, admission: l4.Admission{Deny: access.NewSet(list)}})
				for b.Loop() {
					if how := r.refused(""); how != "reset" {
						b.Fatalf("the client saw %s", how)
					}
					<-r.refusals
				}
			})
		}
	}
}

// BenchmarkEndIdlest looks at sessions that are idle, and ends none: what a step of
// a rebalance costs, twice.
func BenchmarkEndIdlest(b *testing.B) {
	for _, engine := range engines {
		b.Run(engine, func(b *testing.B) {
			const n = 2000
			r := start(b, setup{engine: engine, specs: specs(l4test.Serve(b, l4test.Silent(b)).Addr)})
			for range n {
				r.dial()
			}
			eventually(b, "all relay", func() bool { return r.pool.Status().Backends[0].Total == n })
			m := session.Match{State: "relaying", Backend: "A", MinIdle: time.Hour}
			b.ReportAllocs()
			for b.Loop() {
				if got := r.engine.EndIdlest(m, 10, session.Rebalanced); got != 0 {
					b.Fatalf("%d sessions took the order", got)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/session")
		})
	}
}

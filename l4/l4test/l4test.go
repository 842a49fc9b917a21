// Package l4test holds the backends and clients that tests of the data plane
// talk to: real sockets on loopback, each with one habit. Only tests import it.
package l4test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Patience bounds every wait of a test for something that must happen.
const Patience = 10 * time.Second

// Backend is a listening server on loopback that treats every connection the
// same way. It ends with the test, and its connections with it.
type Backend struct {
	Addr string

	ln    *net.TCPListener
	mu    sync.Mutex // guards what follows
	conns map[net.Conn]struct{}
	total int
	gone  bool
	wg    sync.WaitGroup
}

// Serve starts a backend that runs habit on each connection and closes it
// afterwards.
func Serve(t testing.TB, habit func(c *net.TCPConn)) *Backend {
	t.Helper()
	return ServeAt(t, "127.0.0.1:0", habit)
}

// ServeAt is Serve on a given address, for one that comes back.
func ServeAt(t testing.TB, addr string, habit func(c *net.TCPConn)) *Backend {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("listen on %s: %v", addr, err)
	}
	b := &Backend{Addr: ln.Addr().String(), ln: ln.(*net.TCPListener), conns: map[net.Conn]struct{}{}}
	b.wg.Add(1)
	go b.accept(habit)
	t.Cleanup(b.Stop)
	return b
}

func (b *Backend) accept(habit func(c *net.TCPConn)) {
	defer b.wg.Done()
	for {
		c, err := b.ln.AcceptTCP()
		if err != nil {
			return
		}
		if !b.keep(c) {
			c.Close()
			return
		}
		go func() {
			defer b.wg.Done()
			defer b.drop(c)
			habit(c)
		}()
	}
}

func (b *Backend) keep(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return false
	}
	b.wg.Add(1)
	b.total++
	b.conns[c] = struct{}{}
	return true
}

func (b *Backend) drop(c net.Conn) {
	c.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

// Total returns how many connections it accepted.
func (b *Backend) Total() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Active returns how many connections it holds now.
func (b *Backend) Active() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns)
}

// Stop closes the listener and every connection, and waits for their habits.
func (b *Backend) Stop() {
	b.mu.Lock()
	b.gone = true
	b.ln.Close()
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// Echo returns what it gets, and ends when the client has ended.
func Echo(c *net.TCPConn) {
	io.Copy(c, c)
}

// Tag greets with name and a line feed, then echoes: a server-first protocol
// that tells who answered.
func Tag(name string) func(c *net.TCPConn) {
	return func(c *net.TCPConn) {
		io.WriteString(c, name+"\n")
		Echo(c)
	}
}

// ReadAllThenReply answers only when the client has ended: "R:" and the data.
// It works only where a half-close is passed on.
func ReadAllThenReply(c *net.TCPConn) {
	data, err := io.ReadAll(c)
	if err == nil {
		c.Write(append([]byte("R:"), data...))
	}
}

// Sink reads and drops everything.
func Sink(c *net.TCPConn) { io.Copy(io.Discard, c) }

// Silent neither reads nor writes, until the test is over.
func Silent(t testing.TB) func(c *net.TCPConn) {
	return func(*net.TCPConn) { <-t.Context().Done() }
}

// Reset reads one byte, then resets.
func Reset(c *net.TCPConn) {
	io.ReadFull(c, make([]byte, 1))
	c.SetLinger(0)
}

// Source writes n bytes of Pattern after the first byte it gets, then closes.
func Source(n int64) func(c *net.TCPConn) {
	return func(c *net.TCPConn) {
		if _, err := io.ReadFull(c, make([]byte, 1)); err == nil {
			io.Copy(c, Pattern(n))
		}
	}
}

// Hand hands each connection to the test, which may close it before the test
// ends.
func Hand(t testing.TB) (habit func(c *net.TCPConn), conns <-chan *net.TCPConn) {
	ch := make(chan *net.TCPConn, 1<<10)
	return func(c *net.TCPConn) {
		ch <- c
		<-t.Context().Done()
	}, ch
}

// Abort closes c with RST.
func Abort(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}

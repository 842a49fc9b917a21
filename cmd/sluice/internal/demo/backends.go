package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// backend is a server of the demo that can be stopped, and started again on the
// same port. Not safe for concurrent use.
type backend struct {
	name    string
	address string // empty before the first start
	serve   func(net.Listener) (stop func())
	stop    func() // nil while stopped
}

// start listens, on the port it had before if it had one.
func (b *backend) start(ctx context.Context) error {
	at := b.address
	if at == "" {
		at = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", at)
	for err != nil && ctx.Err() == nil && b.address != "" {
		// The port may still be in use by a connection to ourselves.
		pause(ctx, 50*time.Millisecond)
		ln, err = net.Listen("tcp", at)
	}
	if err != nil {
		return err
	}
	b.address = ln.Addr().String()
	b.stop = b.serve(ln)
	return nil
}

// halt stops the backend if it runs.
func (b *backend) halt() {
	if b.stop != nil {
		b.stop()
		b.stop = nil
	}
}

// newEcho returns a TCP backend that greets with its name and then sends back
// what it gets.
func newEcho(name string) *backend {
	b := &backend{name: name}
	b.serve = func(ln net.Listener) func() {
		e := &echo{greeting: greeting(name), conns: make(map[net.Conn]bool)}
		e.all.Go(func() { e.accept(ln) })
		return func() {
			ln.Close()
			e.close()
			e.all.Wait()
		}
	}
	return b
}

// newWeb returns an HTTP backend that answers with its name and the path.
func newWeb(name string) *backend {
	b := &backend{name: name}
	b.serve = func(ln net.Listener) func() {
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s, you asked for %s\n", greeting(name), r.URL.Path)
		})}
		var done sync.WaitGroup
		done.Go(func() { s.Serve(ln) })
		return func() {
			s.Close()
			done.Wait()
		}
	}
	return b
}

func greeting(name string) string { return "hello from " + name }

// echo is the server behind newEcho.
type echo struct {
	greeting string
	all      sync.WaitGroup

	mu     sync.Mutex // guards conns and closed
	conns  map[net.Conn]bool
	closed bool
}

func (e *echo) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		e.all.Go(func() { e.talk(c) })
	}
}

func (e *echo) talk(c net.Conn) {
	defer c.Close()
	if !e.add(c) {
		return
	}
	defer e.remove(c)
	if _, err := fmt.Fprintln(c, e.greeting); err == nil {
		io.Copy(c, c)
	}
}

func (e *echo) add(c net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.conns[c] = true
	}
	return !e.closed
}

func (e *echo) remove(c net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
}

// close ends every connection and takes no more.
func (e *echo) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for c := range e.conns {
		c.Close()
	}
}

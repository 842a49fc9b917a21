//go:build linux

// Package serve is what stands behind the balancers: the same process for every
// subject, so that it cannot be what makes one better than another.
//
//	echo     gives back what it gets
//	source   sends without end
//	sink     takes without end
//
// Each is one or more addresses on loopback.
package serve

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
)

// Addresses are where the services listen, by service.
type Addresses map[string][]string

// The names of the services.
const (
	Echo   = "echo"
	Source = "source"
	Sink   = "sink"
)

// block is what source and sink move with one call: more than the 64 KiB from
// which splice pays.
const block = 256 << 10

// loopback is where everything listens.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Run serves at that many addresses for each service until ctx ends. It calls
// ready once all listen.
func Run(ctx context.Context, each int, ready func(Addresses)) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	where := Addresses{}
	listeners, err := listenEcho(each, where)
	if err != nil {
		return err
	}
	for range runtime.NumCPU() {
		wg.Go(func() {
			if err := echo(ctx, listeners); err != nil {
				cancel(fmt.Errorf("echo: %w", err))
			}
		})
	}
	for service, handle := range map[string]func(net.Conn){Source: source, Sink: sink} {
		for range each {
			l, err := net.Listen("tcp4", loopback.String()+":0")
			if err != nil {
				return fmt.Errorf("listen for %s: %w", service, err)
			}
			where[service] = append(where[service], l.Addr().String())
			context.AfterFunc(ctx, func() { l.Close() })
			wg.Go(func() { accept(l, handle) })
		}
	}
	ready(where)
	<-ctx.Done()
	return context.Cause(ctx)
}

// accept handles connections until l is closed. They end with their peers, at
// the latest with the process.
func accept(l net.Listener, handle func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			handle(c)
		}()
	}
}

// zeros is what all sources send.
var zeros [block]byte

func source(c net.Conn) {
	for {
		if _, err := c.Write(zeros[:]); err != nil {
			return
		}
	}
}

// sink hides that a connection can splice: what it takes must be read, as a
// real server does.
func sink(c net.Conn) {
	buf := make([]byte, block)
	for {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

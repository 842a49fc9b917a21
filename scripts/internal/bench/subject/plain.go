//go:build linux

package subject

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
)

// RunPlain is the balancer that anybody would write first: accept, dial, two
// io.Copy. It ends with ctx, and its sessions with the process.
func RunPlain(ctx context.Context, services []Service) error {
	for _, s := range services {
		l, err := net.Listen("tcp4", s.Listen)
		if err != nil {
			return fmt.Errorf("listen for %s: %w", s.Name, err)
		}
		defer l.Close()
		go acceptPlain(l, s.Backends)
	}
	<-ctx.Done()
	return nil
}

func acceptPlain(l net.Listener, backends []string) {
	var turn atomic.Uint64
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		backend := backends[turn.Add(1)%uint64(len(backends))]
		go joinPlain(c.(*net.TCPConn), backend)
	}
}

func joinPlain(client *net.TCPConn, address string) {
	defer client.Close()
	c, err := net.Dial("tcp4", address)
	if err != nil {
		return
	}
	backend := c.(*net.TCPConn)
	defer backend.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(backend, client)
		backend.CloseWrite()
	}()
	io.Copy(client, backend)
	client.CloseWrite()
	<-done
}

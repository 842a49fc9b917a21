package l4

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	backoffMin = 5 * time.Millisecond // after the first accept error, doubling; as net/http.Server
	backoffMax = time.Second
)

// Listener is a listening socket and its accept loop. It belongs to its listen
// address; which frontend gets its clients can change at any time. Safe for
// concurrent use.
type Listener struct {
	ln       net.Listener
	addr     string
	frontend atomic.Pointer[Frontend]
	closing  atomic.Bool
	stop     chan struct{} // closed by Close
	loop     sync.Mutex    // held by the accept loop while it runs
}

// Listen binds address, "host:port" or "unix:/path"; mode is the permission
// bits of a unix socket's file. Nothing is accepted until Serve. A socket file
// that a dead process left behind is replaced.
func Listen(address string, mode uint32) (*Listener, error) {
	// Options of accepted sockets are the session's business: see tune.
	ln, err := Bind(net.ListenConfig{KeepAlive: -1}, address, fs.FileMode(mode))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return newListener(ln), nil
}

func newListener(ln net.Listener) *Listener {
	l := &Listener{ln: ln, stop: make(chan struct{})}
	l.addr = ln.Addr().String()
	if ln.Addr().Network() == "unix" {
		l.addr = "unix:" + l.addr
	}
	return l
}

// Addr returns the address as bound: "ip:port", or "unix:/path".
func (l *Listener) Addr() string { return l.addr }

// Assign makes f the frontend of the clients accepted from now on. It must be
// called before Serve.
func (l *Listener) Assign(f *Frontend) { l.frontend.Store(f) }

// Serve accepts until Close, and returns then. An accept error backs off and
// never ends the loop. It must be called once.
func (l *Listener) Serve() {
	l.loop.Lock()
	defer l.loop.Unlock()
	backoff := time.Duration(0)
	for {
		c, err := l.ln.Accept()
		f := l.frontend.Load()
		switch {
		case err == nil:
			backoff = 0
			f.admit(c.(stream), l.addr)
		case errors.Is(err, net.ErrClosed) && l.closing.Load():
			return
		default:
			f.acceptFailed(fmt.Errorf("accept on %s: %w", l.addr, err))
			backoff = min(max(2*backoff, backoffMin), backoffMax)
			l.wait(backoff)
		}
	}
}

// wait waits for d, or for Close.
func (l *Listener) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.stop:
	}
}

// Close stops accepting, and returns when the accept loop has ended. Clients
// that wait in the kernel's queue are reset by it; the kernel can lose one whose
// handshake ends in that moment, and then it hears nothing until it sends. Serve may be called or not,
// before or after, and closing twice is harmless.
func (l *Listener) Close() (err error) {
	if l.closing.CompareAndSwap(false, true) {
		close(l.stop)
		err = l.ln.Close()
	}
	l.loop.Lock()
	l.loop.Unlock() //lint:ignore SA2001 it is the wait for the accept loop
	return err
}

package l4

import "sync/atomic"

// Listener is a listening socket. It belongs to its listen address; which
// frontend gets its clients can change at any time. Safe for concurrent use.
type Listener struct {
	addr     string
	frontend atomic.Pointer[Frontend]
	acceptor acceptor
	adopted  bool // the file of a unix socket is somebody else's
}

// Addr returns the address as bound: "ip:port", or "unix:/path".
func (l *Listener) Addr() string { return l.addr }

// Assign makes f, which must be of the same engine, the frontend of the clients
// accepted from now on. It must be called before Serve.
func (l *Listener) Assign(f *Frontend) { l.frontend.Store(f) }

// Serve accepts until Close, and returns then. An accept error backs off and
// never ends it. It must be called once.
func (l *Listener) Serve() { l.acceptor.serve() }

// Close stops accepting, and returns when nothing more is accepted. Clients that
// wait in the kernel's queue are reset by it; the kernel can lose one whose
// handshake ends in that moment, and then it hears nothing until it sends. Serve
// may be called or not, before or after, and closing twice is harmless.
func (l *Listener) Close() error { return l.acceptor.close() }

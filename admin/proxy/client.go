package proxy

import (
	"bufio"
	"context"
	"net"
	"net/http"
)

// client is the client's side of one request.
type client struct {
	http.ResponseWriter
	ctx    context.Context // ends the upgraded connection
	failed bool            // a write to the client failed
	taken  bool            // the connection was upgraded
	left   func(net.Conn)  // told when an upgraded connection is closed
}

// Unwrap lets http.ResponseController find what the server offers.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *client) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.failed = c.failed || err != nil
	return n, err
}

// WriteHeader swallows a backend's 100 Continue: the server sends one of its
// own when the body is first read, and there must not be two.
func (c *client) WriteHeader(status int) {
	if status != http.StatusContinue {
		c.ResponseWriter.WriteHeader(status)
	}
}

// Hijack takes the connection over for an upgrade. Its end is the end of the
// request, and the other way round.
func (c *client) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c.taken = true
	context.AfterFunc(c.ctx, func() { conn.Close() })
	return &taken{conn, buffered.Reader, c.left}, buffered, nil
}

// reset ends a response that broke off so that an HTTP/1.0 client cannot take
// it for a whole one. Later ones see it by the length or the last chunk.
func (c *client) reset(r *http.Request) {
	if r.ProtoAtLeast(1, 1) {
		return
	}
	conn, _, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
	c.left(conn)
}

// taken is an upgraded connection. What the client sent along with its request
// was read ahead and comes first.
type taken struct {
	net.Conn
	ahead *bufio.Reader
	left  func(net.Conn)
}

// Close makes room for another connection.
func (t *taken) Close() error {
	t.left(t.Conn)
	return t.Conn.Close()
}

func (t *taken) Read(p []byte) (int, error) {
	if n := t.ahead.Buffered(); n > 0 {
		return t.ahead.Read(p[:min(n, len(p))])
	}
	return t.Conn.Read(p)
}

// CloseWrite hands on that the backend has ended.
func (t *taken) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}

package admin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/pool"
	"sluice/pool/balance"
)

// eventually polls until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	late := time.After(l4test.Patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s did not come true", what)
		}
	}
}

// await waits for one value or the closing of a channel.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(l4test.Patience):
		t.Fatalf("%s did not happen", what)
	}
	return v
}

// web starts an HTTP backend.
func web(t *testing.T, f http.HandlerFunc) (address string) {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// named is a backend that answers with its name.
func namedWeb(t *testing.T, name string) string {
	return web(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, name) })
}

// raw starts a backend that treats each connection by f, which gets it after a
// request's header was read.
func raw(t *testing.T, f func(c *net.TCPConn, in *bufio.Reader, req *http.Request)) *l4test.Backend {
	t.Helper()
	return l4test.Serve(t, func(c *net.TCPConn) {
		in := bufio.NewReader(c)
		if req, err := http.ReadRequest(in); err == nil {
			f(c, in, req)
		}
	})
}

// connect opens a raw client connection.
func (r *rig) connect() *net.TCPConn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(l4test.Patience))
	return c.(*net.TCPConn)
}

// counter counts by key. Safe for concurrent use.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[key]++
}

func (c *counter) most() (key string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, v := range c.n {
		if v > n {
			key, n = k, v
		}
	}
	return key, n
}

func get(path string, headers ...string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, strings.Join(append(headers, ""), "\r\n"))
}

func newStrategy(t *testing.T, name string) pool.Strategy {
	t.Helper()
	s, err := balance.ByName(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantStatus reads one response from a raw connection.
func wantStatus(t *testing.T, c net.Conn, status int) string {
	t.Helper()
	return wantNext(t, bufio.NewReader(c), status)
}

// wantNext reads the next of several responses.
func wantNext(t *testing.T, in *bufio.Reader, status int) string {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		t.Fatalf("got %d %q, %v; want %d", res.StatusCode, text, err, status)
	}
	return string(text)
}

// wantBytes reads exactly text.
func wantBytes(t *testing.T, in io.Reader, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(in, got); err != nil || string(got) != text {
		t.Fatalf("got %q, %v; want %q", got[:n], err, text)
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// socket starts a backend that upgrades every request and then goes on by f.
func socket(t *testing.T, f func(c *net.TCPConn, in *bufio.Reader)) *l4test.Backend {
	t.Helper()
	return raw(t, func(c *net.TCPConn, in *bufio.Reader, req *http.Request) {
		if req.Header.Get("Upgrade") != "websocket" {
			io.WriteString(c, "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n")
			return
		}
		io.WriteString(c, switched)
		f(c, in)
	})
}

// echoSocket echoes, half-close included.
func echoSocket(t *testing.T) *l4test.Backend {
	return socket(t, func(c *net.TCPConn, in *bufio.Reader) { io.Copy(c, in) })
}

// upgrade opens a WebSocket through /proxy, as far as TCP sees one.
func (r *rig) upgrade() (*net.TCPConn, *bufio.Reader) { return r.upgradeAt("/proxy/ws") }

func (r *rig) upgradeAt(path string) (*net.TCPConn, *bufio.Reader) {
	r.t.Helper()
	c := r.connect()
	io.WriteString(c, get(path, "Connection: Upgrade", "Upgrade: websocket"))
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		r.t.Fatalf("got %v, %v; want 101", res, err)
	}
	return c, in
}

// configOf returns the configuration of a pool as it is, with a limit of
// failures.
func configOf(t *testing.T, p *pool.Pool, maxFailures int) pool.Config {
	t.Helper()
	c := pool.Config{
		Strategy: newStrategy(t, "round_robin"),
		Policy:   pool.Policy{MaxFailures: maxFailures, RetryAfter: time.Hour},
	}
	for _, b := range p.Status().Backends {
		c.Backends = append(c.Backends, pool.Spec{ID: b.ID, Address: b.Address, Weight: b.Weight})
	}
	return c
}

package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/admin/proxy"
	"sluice/l4"
	"sluice/l4/l4test"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a whole admin side over real pools, on a port of its own.
type rig struct {
	*Server
	t        *testing.T
	addr     string
	logs     *observer.ObservedLogs
	records  chan session.Record
	pools    atomic.Pointer[[]*pool.Pool]
	draining atomic.Bool
	bound    atomic.Bool
	reloaded func(by string) (Reloaded, error)
	client   *http.Client
}

// proxying are the settings of most tests.
var proxying = Settings{Proxy: ProxySettings{Enabled: true, ResponseTimeout: l4test.Patience}}

// newPool returns a pool of backends whose ids are a, b, c.
func newPool(t *testing.T, name string, addresses ...string) *pool.Pool {
	t.Helper()
	c := pool.Config{Strategy: newStrategy(t, "round_robin")}
	for i, a := range addresses {
		c.Backends = append(c.Backends, pool.Spec{ID: string(rune('a' + i)), Address: a, Weight: 1})
	}
	p := pool.New(name, c, pool.Hooks{})
	t.Cleanup(p.Close)
	return p
}

// start serves until the end of the test. Then no lease may be left.
func start(t *testing.T, set Settings, pools ...*pool.Pool) *rig {
	t.Helper()
	return startWith(t, defaults, set, pools...)
}

// defaults are the settings of /proxy in most tests: those of a frontend.
var defaults = session.Settings{
	Attempts: 3, ConnectTimeout: 2 * time.Second, DialBudget: 6 * time.Second, HalfCloseTimeout: time.Minute,
}

func startWith(t *testing.T, search session.Settings, set Settings, pools ...*pool.Pool) *rig {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	r := &rig{t: t, logs: logs, records: make(chan session.Record, 4096)}
	r.pools.Store(&pools)
	r.bound.Store(true)
	r.reloaded = func(string) (Reloaded, error) { return Reloaded{Generation: 2}, nil }
	r.Server = New(Sources{
		About:     func() About { return About{Generation: 1, Engine: "copy", Version: "test"} },
		Frontends: func() []l4.Status { return r.fronts() },
		Pools:     func() []*pool.Pool { return *r.pools.Load() },
		Add: func(p *pool.Pool, s pool.Spec) error {
			if s.Address == ourselves {
				return fmt.Errorf("%s is where frontend web of this process listens: %w", s.Address, ErrOwnAddress)
			}
			return p.Add(s)
		},
		Strategy: func(_ *pool.Pool, name string) (pool.Strategy, error) { return balance.ByName(name, "") },
		Reload:   func(_ context.Context, by string) (Reloaded, error) { return r.reloaded(by) },
		Draining: r.draining.Load,
		Bound:    r.bound.Load,
	}, set, proxy.Options{
		Dial:     dialTest,
		Settings: search,
		Record:   func(rec session.Record) { r.records <- rec },
	}, zap.New(core))
	ln := listen(t)
	r.addr = ln.Addr().String()
	served := r.serve(ln)
	transport := &http.Transport{DisableCompression: true, ExpectContinueTimeout: l4test.Patience}
	r.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if n := r.stop(l4test.Patience); n != 0 {
			t.Errorf("Drain cut %d requests; want none", n)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve returned %v; want nil", err)
		}
		r.wantNoLeases()
	})
	return r
}

// exhausted is an address to which no dial gets a descriptor.
const exhausted = "exhausted.invalid:1"

// ourselves is an address where the process itself listens.
const ourselves = "127.0.0.1:7001"

func dialTest(ctx context.Context, address string) (net.Conn, error) {
	if address == exhausted {
		return nil, &net.OpError{Op: "dial", Err: syscall.EMFILE}
	}
	var d net.Dialer
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return d.DialContext(ctx, "unix", path)
	}
	return d.DialContext(ctx, "tcp", address)
}

// fronts is one frontend for each pool, named like it.
func (r *rig) fronts() (list []l4.Status) {
	for _, p := range *r.pools.Load() {
		list = append(list, l4.Status{Name: "to " + p.Name(), Pool: p.Name()})
	}
	return list
}

// listen opens a port of its own.
func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// serve serves on ln, and returns once it does.
func (r *rig) serve(ln net.Listener) (served <-chan error) {
	r.t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.Serve(ln) }()
	eventually(r.t, "listening", func() bool { return r.listen() == ln.Addr() })
	return done
}

// stop drains for at most d and closes. It returns how many requests were cut.
func (r *rig) stop(d time.Duration) (cut int) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	cut = r.Drain(ctx)
	r.Close()
	return cut
}

func (r *rig) wantNoLeases() {
	r.t.Helper()
	for _, p := range *r.pools.Load() {
		for _, b := range p.Status().Backends {
			if b.Active != 0 {
				r.t.Errorf("backend %s has %d sessions at the end; want 0", b.ID, b.Active)
			}
		}
	}
	if n := r.Active(); n != 0 {
		r.t.Errorf("%d requests are still in /proxy; want 0", n)
	}
}

// request builds a request for the rig; headers come as "Key: value".
func (r *rig) request(method, path, body string, headers ...string) *http.Request {
	r.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.addr+path, reader)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range headers {
		key, value, _ := strings.Cut(h, ": ")
		if key == "Host" {
			req.Host = value
		}
		req.Header.Add(key, value)
	}
	return req
}

// reply is a response that was read to its end.
type reply struct {
	*http.Response
	text string
}

func (r *rig) do(method, path, body string, headers ...string) reply {
	r.t.Helper()
	return r.send(r.request(method, path, body, headers...))
}

func (r *rig) send(req *http.Request) reply {
	r.t.Helper()
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatalf("%s %s: reading the response: %v", req.Method, req.URL, err)
	}
	return reply{res, string(text)}
}

// want fails unless the status is right and the body has the text.
func (p reply) want(t *testing.T, status int, text string) reply {
	t.Helper()
	if p.StatusCode != status || !strings.Contains(p.text, text) {
		t.Errorf("%s %s: got %d %q; want %d and %q in it",
			p.Request.Method, p.Request.URL, p.StatusCode, p.text, status, text)
	}
	return p
}

// decode returns the body as T.
func decode[T any](t *testing.T, p reply) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(p.text), &v); err != nil {
		t.Fatalf("%q is not JSON: %v", p.text, err)
	}
	return v
}

// record returns the next record.
func (r *rig) record() session.Record {
	r.t.Helper()
	select {
	case rec := <-r.records:
		return rec
	case <-time.After(l4test.Patience):
		r.t.Fatal("no record came")
		return session.Record{}
	}
}

// backend returns the status of one backend of the first pool.
func (r *rig) backend(id string) pool.BackendStatus {
	r.t.Helper()
	return backendOf((*r.pools.Load())[0], id).BackendStatus
}

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

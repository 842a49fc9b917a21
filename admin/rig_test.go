package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
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
	names map[string][]Name // by pool
	*Server
	t         *testing.T
	addr      string
	logs      *observer.ObservedLogs
	records   chan session.Record
	pools     atomic.Pointer[[]*pool.Pool]
	leaving   []*pool.Pool
	draining  atomic.Bool
	bound     atomic.Bool
	kept      atomic.Int64 // calls of Keep
	reloaded  func(by string) (Reloaded, error)
	unplanned error // of a dry run
	sessions  func(session.Match, session.Key, int) ([]session.Row, bool)
	end       func(session.Match) int
	endIdlest func(session.Match, int) int
	client    *http.Client
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
	r.sessionsOf()
	r.Server = New(Sources{
		About:     func() About { return About{Generation: 1, Engine: "copy", Version: "test", RestartNeeded: []string{}} },
		Frontends: func() []l4.Status { return r.fronts() },
		Pools:     func() []*pool.Pool { return *r.pools.Load() },
		Leaving:   func() []*pool.Pool { return r.leaving },
		Add: func(p *pool.Pool, s pool.Spec) error {
			if s.Address == ourselves {
				return fmt.Errorf("%s is where frontend web of this process listens: %w", s.Address, ErrOwnAddress)
			}
			return p.Add(s)
		},
		Strategy: func(_ *pool.Pool, name string) (pool.Strategy, error) { return balance.ByName(name, "") },
		Reload:   func(_ context.Context, by string) (Reloaded, error) { return r.reloaded(by) },
		Sessions: func(m session.Match, after session.Key, most int) ([]session.Row, bool) {
			return r.sessions(m, after, most)
		},
		End: func(m session.Match) int { return r.end(m) },
		EndIdlest: func(m session.Match, n int) int {
			if m.On == nil || m.State != "relaying" {
				t.Errorf("asked to end %d of %+v", n, m)
			}
			return r.endIdlest(m, n)
		},
		Keep:   func() { r.kept.Add(1) },
		Unlike: r.unlike,
		Names:  func(p *pool.Pool) []Name { return r.names[p.Name()] },
		Plan: func(_ context.Context, text []byte) (Reloaded, error) {
			return Reloaded{Generation: 1, DryRun: true, Changes: []string{fmt.Sprint(len(text), " bytes")}}, r.unplanned
		},
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
func (r *rig) serve(ln net.Listener) (served <-chan error) { return r.serveFor(ln, Everything) }

func (r *rig) serveFor(ln net.Listener, s Scope) (served <-chan error) {
	r.t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.Serve(ln, s) }()
	eventually(r.t, "listening", func() bool { return r.entrances[s].listen() == ln.Addr() })
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

// unlike lists what the API changed in the pools.
func (r *rig) unlike() []pool.Difference {
	list := []pool.Difference{}
	for _, p := range *r.pools.Load() {
		list = append(list, p.Differences()...)
	}
	return list
}

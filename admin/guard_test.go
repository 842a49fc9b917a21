package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
)

const (
	readToken    = "Authorization: Bearer look-only"
	operateToken = "Authorization: Bearer steer"
	wrongToken   = "Authorization: Bearer steer-"
)

var tokens = []Token{{"look-only", false}, {"steer", true}}

func TestWhoMayDoWhat(t *testing.T) {
	type stance struct {
		Settings
		public bool // others can reach the listener
	}
	closed := stance{Settings: Settings{Proxy: proxying.Proxy, Hosts: []string{"Sluice.Example"}}}
	locked, bare := closed, closed
	locked.Tokens = tokens
	bare.public = true
	open := locked
	open.public = true
	for _, c := range []struct {
		name    string
		set     stance
		request string
		headers string // separated by |
		status  int
	}{
		{"a change is for anybody here", closed, "POST /reload", "", 200},
		{"a foreign page reads nothing it could not", closed, "GET /status", "Origin: http://evil.example", 200},
		{"a foreign form is refused", closed, "POST /reload", "Origin: http://evil.example", 403},
		{"another port is foreign", closed, "POST /reload", "Origin: http://localhost:3000|Host: localhost:8404", 403},
		{"no origin to tell is foreign", closed, "POST /reload", "Origin: null", 403},
		{"a cross-site fetch is refused", closed, "POST /reload", "Sec-Fetch-Site: cross-site", 403},
		{"a same-site fetch is refused", closed, "DELETE /backends/none", "Sec-Fetch-Site: same-site", 403},
		{"our own page may", closed, "POST /reload", "Sec-Fetch-Site: same-origin|Origin: http://localhost:8404|Host: localhost:8404", 200},
		{"our own page may by a name of ours", closed, "POST /reload", "Origin: https://sluice.example|Host: 127.0.0.1:8404", 200},
		{"a preflight is refused", closed, "OPTIONS /reload", "Origin: http://evil.example|Access-Control-Request-Method: POST", 403},
		{"a rebound name may not change", closed, "POST /reload", "Host: evil.example:8404", 403},
		{"a rebound name may not read", closed, "GET /status", "Host: evil.example:8404", 403},
		{"a rebound name may not use /proxy", closed, "GET /proxy/", "Host: evil.example:8404", 403},
		{"a rebound name is no matter for a probe", closed, "GET /healthz", "Host: evil.example", 200},
		{"nor for metrics", closed, "GET /metrics", "Host: evil.example", 200},
		{"nor for readiness", closed, "GET /readyz", "Host: evil.example", 200},
		{"localhost", closed, "GET /status", "Host: LocalHost", 200},
		{"a literal", closed, "GET /status", "Host: [::1]:8404", 200},
		{"a bare literal", closed, "GET /status", "Host: [::1]", 200},
		{"a configured name", closed, "POST /reload", "Host: sluice.example.:8404", 200},
		{"a longer name", closed, "GET /status", "Host: x.sluice.example", 403},
		{"an address in a name", closed, "GET /status", "Host: 127.0.0.1.evil.example", 403},

		{"locked: reading is free", locked, "GET /status", "", 200},
		{"locked: /proxy is free", locked, "POST /proxy/", "", 200},
		{"locked: a change needs a token", locked, "POST /reload", "", 401},
		{"locked: the right one", locked, "POST /reload", operateToken, 200},
		{"locked: in any case", locked, "POST /reload", strings.Replace(operateToken, "Bearer", "bearer", 1), 200},
		{"locked: one for reading", locked, "POST /reload", readToken, 403},
		{"locked: a wrong one", locked, "POST /reload", wrongToken, 401},
		{"locked: none at all", locked, "POST /reload", "Authorization: Bearer ", 401},
		{"locked: another scheme", locked, "POST /reload", "Authorization: Basic steer", 401},
		{"locked: two", locked, "POST /reload", operateToken + "|" + operateToken, 401},
		{"locked: a token does not help a foreign page", locked, "POST /reload", operateToken + "|Origin: http://evil.example", 403},
		{"locked: nor a change under a foreign name", locked, "POST /reload", operateToken + "|Host: evil.example", 403},

		{"open: probes are free", open, "GET /healthz", "", 200},
		{"open: metrics too", open, "GET /metrics", "", 200},
		{"open: metrics with a token of somebody else", open, "GET /metrics", wrongToken, 200},
		{"open: readiness too", open, "GET /readyz/to%20web", "", 200},
		{"open: reading needs a token", open, "GET /status", "", 401},
		{"open: so do paths that are not there", open, "GET /nothing", "", 401},
		{"open: so does /proxy", open, "GET /proxy/", "", 401},
		{"open: a reader reads", open, "GET /status", readToken, 200},
		{"open: by whatever name", open, "GET /status", readToken + "|Host: sluice:8404", 200},
		{"open: a reader uses /proxy with any method", open, "POST /proxy/", readToken, 200},
		{"open: a reader changes nothing", open, "POST /reload", readToken, 403},
		{"open: an operator does", open, "POST /reload", operateToken, 200},
		{"open without tokens is shut", bare, "GET /status", "", 401},

		{"a foreign page may not post through /proxy", closed, "POST /proxy/", "Origin: http://evil.example", 403},
		{"nor open a WebSocket", closed, "GET /proxy/", "Origin: http://evil.example|Connection: Upgrade|Upgrade: websocket", 403},
		{"our page may post through /proxy", closed, "POST /proxy/", "Origin: http://127.0.0.1|Host: 127.0.0.1", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, c.set.Settings, newPool(t, "web", namedWeb(t, "a")))
			if c.set.public {
				r.goPublic()
			}
			method, path, _ := strings.Cut(c.request, " ")
			var headers []string
			if c.headers != "" {
				headers = strings.Split(c.headers, "|")
			}
			p := r.do(method, path, "", headers...).want(t, c.status, "")
			if got := p.Header.Get("WWW-Authenticate") != ""; got != (c.status == 401) {
				t.Errorf("status %d has WWW-Authenticate %q", c.status, p.Header.Get("WWW-Authenticate"))
			}
			for _, e := range r.logs.All() {
				if line := e.Message + string(mustJSON(e.ContextMap())); strings.Contains(line, "steer") || strings.Contains(line, "look-only") {
					t.Errorf("a token was logged: %s", line)
				}
			}
		})
	}
}

// goPublic serves on a listener that others can reach, and sends what follows
// there.
func (r *rig) goPublic() (ln net.Listener) {
	r.t.Helper()
	ln, err := net.Listen("tcp4", ":0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.serve(ln)
	r.addr = fmt.Sprintf("127.0.0.1:%d", ln.Addr().(*net.TCPAddr).Port)
	return ln
}

// What a connection may do does not grow when the listener that it came in
// through gives way to one that needs no token.
func TestConnectionOutlivesItsPublicListener(t *testing.T) {
	r := start(t, Settings{Tokens: tokens}, newPool(t, "web"))
	loopback := r.addr
	ln := r.goPublic()
	old := r.connect()
	in := bufio.NewReader(old)
	ask := func(status int, headers ...string) {
		t.Helper()
		io.WriteString(old, get("/status", headers...))
		wantNext(t, in, status)
	}
	ask(200, readToken)
	ln.Close()
	r.Use(Settings{})
	ask(401)
	ask(401, readToken)
	r.addr = loopback
	r.do("GET", "/status", "").want(t, 200, "")
}

// A handler that runs in another server judges by the connection's own address.
func TestHandlerInAnotherServer(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	for _, c := range []struct {
		local  net.Addr
		status int
	}{
		{nil, 401},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, 401},
		{&net.TCPAddr{IP: net.IPv6loopback}, 200},
		{&net.UnixAddr{}, 200},
	} {
		q := httptest.NewRequest("GET", "http://localhost/status", nil)
		if c.local != nil {
			q = q.WithContext(context.WithValue(q.Context(), http.LocalAddrContextKey, c.local))
		}
		w := httptest.NewRecorder()
		if r.Handler().ServeHTTP(w, q); w.Code != c.status {
			t.Errorf("got %d by %v, want %d", w.Code, c.local, c.status)
		}
	}
}

func TestNewTokensHoldFromTheNextRequest(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	r.do("POST", "/reload", "").want(t, 200, "")
	r.Use(Settings{Tokens: tokens})
	r.do("POST", "/reload", "").want(t, 401, "a token is needed")
	r.do("POST", "/reload", "", operateToken).want(t, 200, "")
	r.Use(Settings{Tokens: []Token{{"new", true}}})
	r.do("POST", "/reload", "", operateToken).want(t, 401, "")
}

// A wrong token is told from a missing one, and logged with who sent it: a few
// lines a second, whatever is tried, and never the token.
func TestWrongTokens(t *testing.T) {
	r := start(t, Settings{Tokens: tokens, Proxy: proxying.Proxy}, newPool(t, "web", namedWeb(t, "a")))
	r.do("POST", "/reload", "").want(t, 401, "a token is needed")
	r.do("POST", "/reload", "", "Authorization: Basic steer").want(t, 401, "a token is needed")
	r.do("GET", "/status", "", wrongToken).want(t, 200, "")
	r.do("GET", "/proxy/", "", wrongToken).want(t, 200, "")
	if n := r.logs.FilterMessage("token refused").Len(); n != 0 {
		t.Errorf("got %d lines without a refused token; want none: %v", n, r.logs.All())
	}
	r.goPublic()
	began := time.Now()
	for range 50 {
		r.do("GET", "/status", "", wrongToken).want(t, 401, "the token is not valid")
	}
	most := peerLines * (2 + int(time.Since(began)/time.Second))
	lines := r.logs.FilterMessage("token refused").FilterLevelExact(zapcore.WarnLevel).All()
	if len(lines) < 1 || len(lines) > most {
		t.Errorf("got %d lines of 50 wrong tokens; want 1 to %d", len(lines), most)
	}
	for _, e := range lines {
		if line := string(mustJSON(e.ContextMap())); !strings.HasPrefix(line, `{"client":"127.0.0.1:`) || strings.Contains(line, "steer") {
			t.Errorf("got %s; want the client and not the token", line)
		}
	}
}

// Clients that /proxy does not let in are counted by the reason.
func TestProxyRejectionsHaveReasons(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", namedWeb(t, "a")), newPool(t, "db"))
	r.do("POST", "/proxy/", "", "Origin: http://evil.example").want(t, 403, "")
	r.do("GET", "/proxy/", "", "Host: evil.example").want(t, 403, "")
	r.do("GET", "/proxy/", "").want(t, 400, "name one by pool in [admin.proxy], or ask /pools/NAME/proxy")
	r.do("GET", "/pools/none/proxy/", "").want(t, 404, "")
	r.Use(Settings{})
	r.do("GET", "/proxy/", "").want(t, 404, "enabled = true in [admin.proxy]")
	r.Use(proxying)
	r.Drain(t.Context())
	r.do("GET", "/pools/web/proxy/", "").want(t, 503, "")
	s := newStatus(t, r)
	f := s.Frontends[len(s.Frontends)-1]
	if want := map[string]int64{"denied": 2, "no_pool": 2, "off": 1, "shutdown": 1}; f.Rejected != 6 || !maps.Equal(f.RejectedBy, want) {
		t.Errorf("got %d, %v; want 6, %v", f.Rejected, f.RejectedBy, want)
	}
}

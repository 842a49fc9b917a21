package admin

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/l4/l4test"
	"sluice/l4/session"
	"sluice/pool"
)

// mirror is a backend that answers with the request as it came.
func mirror(t *testing.T) string {
	return raw(t, func(c *net.TCPConn, in *bufio.Reader, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s\nHost: %s\n", req.Method, req.RequestURI, req.Host)
		for key, values := range req.Header {
			for _, v := range values {
				fmt.Fprintf(&b, "%s: %s\n", key, v)
			}
		}
		fmt.Fprintf(&b, "Trailer: %v\n%s", req.Trailer, body)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", b.Len(), b.String())
	}).Addr
}

// has fails unless the mirror shows each line.
func (p reply) has(t *testing.T, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !slices.Contains(strings.Split(p.text, "\n"), want) {
			t.Errorf("the backend did not see %q, but:\n%s", want, p.text)
		}
	}
}

func (p reply) lacks(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(p.text, part) {
			t.Errorf("the backend saw %q:\n%s", part, p.text)
		}
	}
}

func TestPathAndQueryArriveAsTheyWereWritten(t *testing.T) {
	r := start(t, proxying, newPool(t, "a/b", mirror(t)))
	for _, c := range []struct{ path, want string }{
		{"/proxy", "/"},
		{"/proxy/", "/"},
		{"/proxy?x=1", "/?x=1"},
		{"/proxy/a/b", "/a/b"},
		{"/proxy/a//b/", "/a//b/"},
		{"/proxy//evil.example/", "//evil.example/"},
		{"/proxy/a%2Fb/%2e%2e/c%20d", "/a%2Fb/%2e%2e/c%20d"},
		{"/proxy/a/../b", "/a/../b"},
		{"/proxy/%C3%A9+(x)'", "/%C3%A9+(x)'"},
		{"/proxy/q?a=1;b=2&c=%zz&&d", "/q?a=1;b=2&c=%zz&&d"},
		{"/proxy/q?", "/q?"},
		{"/proxy/proxy/x", "/proxy/x"},
		{"/pools/a%2Fb/proxy/x%2Fy?z", "/x%2Fy?z"},
		{"/pools/a%2Fb/proxy", "/"},
	} {
		c2 := r.connect()
		io.WriteString(c2, get(c.path, "Connection: close"))
		text := wantStatus(t, c2, 200)
		if line, _, _ := strings.Cut(text, "\n"); line != "GET "+c.want {
			t.Errorf("%s arrived as %q; want GET %s", c.path, line, c.want)
		}
	}
	r.do("GET", "/pools/none/proxy/x", "").want(t, 404, "no pool")
	r.do("GET", "/proxyx", "").want(t, 404, "no such path")
	r.Use(Settings{})
	r.do("GET", "/proxy/x", "").want(t, 404, "switched off")
}

func TestClientCannotForgeWhereItComesFrom(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", mirror(t)))
	p := r.do("GET", "/proxy/", "", "Host: 127.0.0.1:99",
		"X-Forwarded-For: 1.2.3.4", "X-Forwarded-For: 1.2.3.5", "X-Forwarded-Host: forged.example",
		"X-Forwarded-Proto: forged", "X-Forwarded-Port: forged", "X-Forwarded-Prefix: forged",
		"Forwarded: for=1.2.3.4", "X-Real-Ip: 1.2.3.4")
	p.has(t, "Host: 127.0.0.1:99", "X-Forwarded-For: 127.0.0.1", "X-Real-Ip: 127.0.0.1",
		"X-Forwarded-Host: 127.0.0.1:99", "X-Forwarded-Proto: http")
	p.lacks(t, "1.2.3.", "forged", "Forwarded: for")
}

func TestClientCannotRemoveHeadersThatTheProxyAdds(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", mirror(t)))
	p := r.do("GET", "/proxy/", "", "Connection: ", "Connection: X-Forwarded-For, X-Real-IP, X-Secret",
		"X-Secret: hop", "Keep-Alive: 5", "Proxy-Authorization: Basic x")
	p.has(t, "X-Forwarded-For: 127.0.0.1", "X-Real-Ip: 127.0.0.1")
	p.lacks(t, "Connection:", "X-Secret", "Keep-Alive", "Proxy-Authorization")
}

func TestOnlyWebSocketsMayBeUpgraded(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", mirror(t)))
	for _, kind := range []string{"h2c", "TLS/1.0", "websocket2", "h2c, websocket"} {
		p := r.do("GET", "/proxy/", "", "Connection: Upgrade, HTTP2-Settings", "Upgrade: "+kind, "HTTP2-Settings: AAMAAABk")
		p.want(t, 200, "").lacks(t, "Upgrade", "Http2-Settings")
	}
	r.do("GET", "/proxy/", "", "Connection: Upgrade", "Upgrade: WebSocket").has(t, "Upgrade: WebSocket", "Connection: Upgrade")
	r.do("GET", "/proxy/", "x", "Connection: Upgrade", "Upgrade: websocket").lacks(t, "Upgrade")
	r.do("GET", "/proxy/", "", "Connection: Upgrade", "Upgrade: \xe4").want(t, 400, "")
}

func TestOnlyOurTokenIsKeptFromTheBackend(t *testing.T) {
	set := proxying
	set.Tokens = tokens
	r := start(t, set, newPool(t, "web", mirror(t)))
	r.do("GET", "/proxy/", "", operateToken).lacks(t, "Authorization", "steer")
	r.do("GET", "/proxy/", "", readToken).lacks(t, "Authorization", "look-only")
	for _, odd := range []string{"Token steer", "Bearer\tsteer", "Bearer steer x"} {
		r.do("GET", "/proxy/", "", "Authorization: "+odd).lacks(t, "Authorization", "steer")
	}
	r.do("GET", "/proxy/", "", operateToken, operateToken).lacks(t, "Authorization", "steer")
	r.do("GET", "/proxy/", "", "Authorization: Bearer theirs").has(t, "Authorization: Bearer theirs")
	r.do("GET", "/proxy/", "", "Authorization: Basic dTpw").has(t, "Authorization: Basic dTpw")
}

func TestTrailersPassInBothDirections(t *testing.T) {
	address := web(t, func(w http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body)
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprintf(w, "saw %s", q.Trailer.Get("X-Up"))
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"X-Late", "43")
	})
	r := start(t, proxying, newPool(t, "web", address))
	q := r.request("POST", "/proxy/", "")
	q.Body, q.ContentLength = io.NopCloser(strings.NewReader("some text")), -1
	q.Trailer = http.Header{"X-Up": {"41"}}
	p := r.send(q).want(t, 200, "saw 41")
	if p.Trailer.Get("X-Sum") != "42" || p.Trailer.Get("X-Late") != "43" {
		t.Errorf("got trailers %v; want X-Sum 42 and X-Late 43", p.Trailer)
	}
}

func TestForgedTrailersAreDroppedAndHurtNoBackend(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", mirror(t)))
	for _, c := range []struct {
		name   string
		status int
	}{{"X-Forwarded-For", 200}, {"bad name", 400}} {
		conn := r.connect()
		fmt.Fprintf(conn, "POST /proxy/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: %s\r\n\r\n"+
			"3\r\nabc\r\n0\r\n%s: 1.2.3.4\r\n\r\n", c.name, c.name)
		if text := wantStatus(t, conn, c.status); strings.Contains(text, "1.2.3.4") {
			t.Errorf("the backend saw a forged trailer: %s", text)
		}
	}
	if b := r.backend("a"); b.DialFailures != 0 {
		t.Errorf("a bad request counts as %d failures of the backend; want 0", b.DialFailures)
	}
}

func TestRequestsGoRoundAndNameTheirBackend(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", namedWeb(t, "A"), namedWeb(t, "B"), namedWeb(t, "C")))
	var got string
	for range 4 {
		p := r.do("POST", "/proxy", "{}").want(t, 200, "")
		got += p.text
		if id := p.Header.Get("Sluice-Backend"); strings.ToUpper(id) != p.text {
			t.Errorf("backend %s says it is %s", p.text, id)
		}
	}
	if got != "ABCA" {
		t.Errorf("got %s; want ABCA", got)
	}
	r.do("DELETE", "/backends/b", "").want(t, 204, "")
	got = ""
	for range 3 {
		got += r.do("GET", "/proxy", "").text
	}
	if got != "CAC" {
		t.Errorf("after the removal of B got %s; want CAC", got)
	}
}

func TestBackendCannotForgeItsName(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Sluice-Backend", "forged")
	})))
	if got := r.do("GET", "/proxy/", "").Header.Values("Sluice-Backend"); len(got) != 1 || got[0] != "a" {
		t.Errorf("got %q; want a", got)
	}
}

func TestAddProxyRemoveAsOneWouldTryIt(t *testing.T) {
	p := newPool(t, "web")
	r := start(t, proxying, p)
	r.do("POST", "/proxy", "{}").want(t, 503, `{"error":"no backend is available"}`)
	r.do("POST", "/backends", fmt.Sprintf(`{"id":"one","address":%q}`, namedWeb(t, "one"))).want(t, 201, "")
	r.do("POST", "/proxy", "{}").want(t, 200, "one")
	r.do("DELETE", "/backends/one", "").want(t, 204, "")
	r.do("POST", "/proxy", "{}").want(t, 503, "no backend is available")
	rec := r.record()
	if rec.Cause != session.NoBackend || rec.Code != "SC" || rec.Backend != "" {
		t.Errorf("got %+v; want no_backend, SC", rec)
	}
}

func TestUnixSocketBackend(t *testing.T) {
	path := t.TempDir() + "/app.sock"
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { io.WriteString(w, q.Host) })}
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	r := start(t, proxying, newPool(t, "web", "unix:"+path))
	r.do("GET", "/proxy/", "", "Host: localhost").want(t, 200, "localhost")
	if rec := r.record(); rec.Address != "unix:"+path {
		t.Errorf("got address %q; want unix:%s", rec.Address, path)
	}
}

func TestRecordAndCountersOfARequest(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body)
		io.WriteString(w, strings.Repeat("d", 70_001))
	})))
	r.do("POST", "/proxy/", strings.Repeat("u", 5003)).want(t, 200, "")
	rec := r.record()
	if rec.ToBackend != 5003 || rec.ToClient != 70_001 {
		t.Errorf("got %d to the backend and %d to the client; want 5003 and 70001", rec.ToBackend, rec.ToClient)
	}
	b := r.backend("a")
	if b.BytesToBack != 5003 || b.BytesToClient != 70_001 || b.Total != 1 || b.FailuresInRow != 0 {
		t.Errorf("got %+v; want the bytes of the record and 1 session", b)
	}
	if rec.Frontend != "/proxy" || rec.Pool != "web" || rec.Backend != "a" || rec.Address != b.Address ||
		rec.Listen != r.addr || !rec.Client.IsValid() || rec.Source == "" || rec.Session == "" ||
		rec.Cause != session.BackendClosed || rec.Code != "--" || len(rec.Attempts) != 1 ||
		rec.FrontendActive != 1 || rec.BackendActive != 1 || rec.Total <= 0 || rec.Dial > rec.Total {
		t.Errorf("got %+v", rec)
	}
	r.do("GET", "/proxy/", "")
	if next := r.record(); next.Session == rec.Session {
		t.Errorf("two sessions are called %s", next.Session)
	}
	s := newStatus(t, r)
	if f := s.Frontends[len(s.Frontends)-1]; f.Total != 2 || f.Active != 0 || f.Rejected != 0 {
		t.Errorf("got %+v; want 2 in total", f)
	}
}

func TestFullBackendsAreSaidToBeFull(t *testing.T) {
	here, goOn := make(chan bool), make(chan bool)
	r := start(t, proxying, newPool(t, "web", web(t, func(http.ResponseWriter, *http.Request) {
		here <- true
		<-goOn
	})))
	r.do("PATCH", "/backends/a", `{"max_sessions":1}`)
	c := r.connect()
	io.WriteString(c, get("/proxy/"))
	await(t, "the request", here)
	r.do("GET", "/proxy/", "").want(t, 503, "no backend is available: every usable backend is at its session limit")
	if rec := r.record(); rec.Cause != session.BackendLimit || rec.Code != "SQ" {
		t.Errorf("got cause %s, code %s; want backend_limit, SQ", rec.Cause, rec.Code)
	}
	r.do("GET", "/readyz/to%20web", "").want(t, 200, "") // full is usable
	close(goOn)
	wantStatus(t, c, 200)
}

func TestKeptConnectionsOutliveReloads(t *testing.T) {
	b := keepalive(t)
	p := newPool(t, "web", b.Addr)
	r := start(t, proxying, p)
	for i := range 20 {
		r.do("GET", "/proxy/", "").want(t, 200, "x")
		p.Apply(pool.Config{
			Strategy: newStrategy(t, "round_robin"),
			Backends: []pool.Spec{{ID: "a", Address: b.Addr, Weight: 1 + i}},
		})
		r.Use(proxying)
		r.do("POST", "/reload", "").want(t, 200, "")
	}
	if n := b.Total(); n != 1 {
		t.Errorf("the backend saw %d connections; want 1", n)
	}
	for range 20 {
		if rec := r.record(); len(rec.Attempts) != 1 {
			t.Errorf("got attempts %v; want 1", rec.Attempts)
		}
	}
	if n := r.backend("a").Total; n != 20 {
		t.Errorf("%d sessions were counted; want 20", n)
	}
	r.do("DELETE", "/backends/a", "").want(t, 204, "")
	eventually(t, "the end of the idle connection", func() bool { return b.Active() == 0 })
}

// keepalive is a backend that answers any number of requests with "x".
func keepalive(t *testing.T) *l4test.Backend {
	return raw(t, func(c *net.TCPConn, in *bufio.Reader, _ *http.Request) {
		for {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
		}
	})
}

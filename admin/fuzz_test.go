package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"sluice/l4/session"
	"sluice/pool"
)

// methodsTried are what the first argument of FuzzAPI stands for.
var methodsTried = []string{"GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS"}

// secretsTried are what the second one stands for; only the last may change
// anything.
var secretsTried = []string{"", "wrong", tokens[0].Secret, tokens[1].Secret}

// Whatever is asked: nothing panics, an answer is one of those that are
// documented, an error says why, and what was refused, or asked by who may not
// change things, changed nothing.
func FuzzAPI(f *testing.F) {
	for method := range methodsTried {
		for token := range secretsTried {
			f.Add(uint8(method), uint8(token), "/backends/a?pool=web", "127.0.0.1", `{"weight":3,"state":"drain"}`)
		}
	}
	for _, c := range [][2]string{
		{"/backends", `{"id":"n","address":"10.0.0.1:1","weight":1001}`},
		{"/backends", `{"pool":"web","id":"n","address":"unix:/run/n.sock","max_sessions":1}`},
		{"/pools/web", `{"strategy":"least_connections"}`}, {"/pools/w%2565b", `{}`},
		{"/sessions?client=10.0.0.0/8&min_age=1s&all=true", ""}, {"/sessions/cafe-1", ""},
		{"/overrides?backend=a", ""}, {"/explain?client=10.0.0.1&events=all", ""}, {"/backends/a/events", ""}, {"/reload?dry_run=true", "[[pool]]"}, {"/reload", ""},
		{"/readyz/to%20web", ""}, {"//status/../..", "\x00"}, {"/backends/%2F%00", `[]`},
	} {
		f.Add(uint8(2), uint8(3), c[0], "localhost", c[1])
		f.Add(uint8(3), uint8(3), c[0], "", c[1])
		f.Add(uint8(4), uint8(3), c[0], "evil.test", c[1])
	}
	f.Fuzz(func(t *testing.T, method, token uint8, path, host, body string) {
		at, err := url.Parse(path)
		if err != nil || at.Host != "" || at.Opaque != "" {
			return
		}
		secret := secretsTried[int(token)%len(secretsTried)]
		q := &http.Request{
			Method: methodsTried[int(method)%len(methodsTried)], URL: at, Host: host, RemoteAddr: "127.0.0.1:1",
			Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}
		if secret != "" {
			q.Header.Set("Authorization", "Bearer "+secret)
		}
		checkAsked(t, q, secret == tokens[1].Secret)
	})
}

// checkAsked has one request answered by an admin side of its own.
func checkAsked(t *testing.T, q *http.Request, mayChange bool) {
	t.Helper()
	p := newPool(t, "web", "127.0.0.1:1", "127.0.0.1:2")
	r := start(t, Settings{Tokens: tokens}, p)
	r.end = func(session.Match) int { r.kept.Add(1); return 1 }
	r.reloaded = func(string) (Reloaded, error) { r.kept.Add(1); return Reloaded{}, nil }
	before := asIs(p)
	answer := httptest.NewRecorder()
	r.Handler().ServeHTTP(answer, q)
	said := fmt.Sprintf("%s %s: %d %s", q.Method, q.URL, answer.Code, answer.Body)
	switch answer.Code {
	case 200, 201, 204, 400, 401, 403, 404, 405, 409, 413, 422, 503:
	default:
		t.Errorf("an answer that is not documented: %s", said)
	}
	refused := answer.Code >= 400
	var why struct{ Error string }
	if refused && q.Method != "HEAD" && q.URL.Path != "/metrics" &&
		(json.Unmarshal(answer.Body.Bytes(), &why) != nil || why.Error == "") {
		t.Errorf("an error that does not say why: %s", said)
	}
	if after := asIs(p); (refused || !mayChange) && (after != before || r.kept.Load() != 0) {
		t.Errorf("%s; but it changed something:\n%s\n%s", said, before, after)
	}
	checkMembers(t, p)
}

// asIs is what the API can change of a pool.
func asIs(p *pool.Pool) string {
	s := p.Status()
	text := s.Strategy
	for _, b := range s.Backends {
		text += fmt.Sprintf(" %s=%s %d %d %s", b.ID, b.Address, b.Weight, b.MaxSessions, b.Admin)
	}
	return text
}

// checkMembers checks that no request made a backend that the file could not
// have.
func checkMembers(t *testing.T, p *pool.Pool) {
	t.Helper()
	for _, b := range p.Status().Backends {
		if pool.CheckName(b.ID) != nil || pool.CheckAddress(b.Address) != nil || b.Weight < 0 || b.Weight > pool.MaxWeight {
			t.Errorf("backend %+v", b)
		}
	}
}

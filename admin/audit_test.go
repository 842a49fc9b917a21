package admin

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
)

// lines returns what was logged, without who asked, and fails unless all of it
// says so.
func (r *rig) lines() (all []string) {
	r.t.Helper()
	for _, e := range r.logs.TakeAll() {
		m := e.ContextMap()
		if !strings.HasPrefix(fmt.Sprint(m["by"]), "127.0.0.1:") {
			r.t.Errorf("%q does not say who: %v", e.Message, m)
		}
		delete(m, "by")
		all = append(all, e.Message+" "+strings.ReplaceAll(string(mustJSON(m)), `\u003e`, ">"))
	}
	return all
}

func TestEveryChangeIsOneLine(t *testing.T) {
	r := start(t, Settings{Tokens: tokens}, newPool(t, "web", "127.0.0.1:1"))
	by := ""
	r.reloaded = func(who string) (Reloaded, error) { by = who; return Reloaded{Generation: 2}, nil }
	for _, c := range []struct{ request, body, token, want string }{
		{"GET /status", "", readToken, ""},
		{"GET /healthz", "", "", ""},
		{"GET /nothing", "", "", ""},
		{"POST /backends", `{"id":"n","address":"10.0.0.1:80"}`, operateToken,
			`backend added {"address":"10.0.0.1:80","backend":"n","max_sessions":0,"pool":"web","role":"operate","status":201,"weight":1}`},
		{"PATCH /backends/n", `{"weight":3,"state":"drain"}`, operateToken,
			`backend changed {"backend":"n","change":"weight 1 -> 3, state ready -> drain","pool":"web","role":"operate","status":200}`},
		{"DELETE /backends/n", "", operateToken,
			`backend removed {"active":0,"address":"10.0.0.1:80","backend":"n","pool":"web","role":"operate","status":204}`},
		{"PATCH /pools/web", `{"strategy":"least_connections"}`, operateToken,
			`strategy switched {"change":"round_robin -> least_connections","pool":"web","role":"operate","status":200}`},
		{"POST /reload", "", operateToken, ""}, // who reloads tells of it
		{"POST /reload", "", readToken,
			`change refused {"method":"POST","path":"/reload","reason":"the token may read only; a change needs an operate token","role":"read","status":403}`},
		{"DELETE /backends/a", "", "",
			`change refused {"method":"DELETE","path":"/backends/a","reason":"a token is needed: Authorization: Bearer TOKEN","role":"none","status":401}`},
		{"DELETE /backends/a", "", wrongToken,
			`change refused {"method":"DELETE","path":"/backends/a","reason":"the token is not valid: it is none of those in the token_file of [admin]","role":"none","status":401}`},
		{"DELETE /backends/none%20such", "", operateToken,
			`change refused {"method":"DELETE","path":"/backends/none%20such","reason":"no such backend: \"none such\"; GET /backends?pool=web lists them","role":"operate","status":404}`},
		{"DELETE /status", "", operateToken,
			`change refused {"method":"DELETE","path":"/status","reason":"DELETE is not for this path; it takes GET, HEAD","role":"operate","status":405}`},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		var headers []string
		if c.token != "" {
			headers = append(headers, c.token)
		}
		r.do(method, path, c.body, headers...)
		if got := strings.Join(r.lines(), "|"); got != c.want {
			t.Errorf("%s: got %s\nwant %s", c.request, got, c.want)
		}
	}
	if !strings.HasPrefix(by, "127.0.0.1:") || !strings.HasSuffix(by, " operate") {
		t.Errorf("the reload is by %q; want the address and the role", by)
	}
}

// A peer can cause as many refusals as it likes, and as long ones.
func TestRefusedChangesAreBounded(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	began := time.Now()
	for range 50 {
		r.do("DELETE", "/backends/"+strings.Repeat("x", 10_000), "").want(t, 404, "")
	}
	most := peerLines * (2 + int(time.Since(began)/time.Second))
	lines := r.logs.FilterMessage("change refused").FilterLevelExact(zapcore.WarnLevel).All()
	if len(lines) < 1 || len(lines) > most {
		t.Errorf("got %d lines of 50 refusals; want 1 to %d", len(lines), most)
	}
	for _, e := range lines {
		if n := len(mustJSON(e.ContextMap())); n > 3*maxShown {
			t.Errorf("got a line of %d bytes", n)
		}
	}
}

// endless is the body of a client that never stops.
type endless struct{ sent atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.sent.Add(int64(len(p)))
	return len(p), nil
}

// A body of 1 GB is refused long before it has arrived, also if it does not say
// how long it is.
func TestHugeBodyIsRefusedEarly(t *testing.T) {
	for name, length := range map[string]int64{"announced": 1 << 30, "chunked": -1} {
		t.Run(name, func(t *testing.T) {
			r := start(t, Settings{}, newPool(t, "web"))
			body := &endless{}
			q := r.request("POST", "/backends", "")
			q.Body, q.ContentLength = io.NopCloser(io.LimitReader(body, 1<<30)), length
			// A client that does not read while it sends may meet the closed connection
			// first.
			res, err := r.client.Do(q)
			if err == nil {
				defer res.Body.Close()
				if res.StatusCode != 413 || !res.Close {
					t.Errorf("got %d, close %t; want 413, close", res.StatusCode, res.Close)
				}
			}
			if sent := body.sent.Load(); sent > 64<<20 {
				t.Errorf("%d bytes were taken; want a small part of 1 GB", sent)
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
		})
	}
}

package admin

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/admin/rebalance"
	"sluice/l4/session"
	"sluice/pool"
)

// uneven fills a pool of two: the first has n sessions, the second none. The func
// that it returns ends one of them, and has its client come back.
func uneven(t *testing.T, p *pool.Pool, n int) (end func(session.Match, int) int) {
	t.Helper()
	drain, ready := pool.Drain, pool.Ready
	if err := p.Patch("b", pool.Patch{Admin: &drain}); err != nil {
		t.Fatal(err)
	}
	leases := make([]pool.Lease, n)
	come := func(l *pool.Lease) {
		if err := p.Acquire(l, pool.Query{}); err != nil {
			t.Error(err)
		}
		l.Connected()
	}
	for i := range leases {
		come(&leases[i])
	}
	if err := p.Patch("b", pool.Patch{Admin: &ready}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for i := range leases {
			leases[i].Release()
		}
	})
	return func(m session.Match, n int) (ended int) {
		for i := range leases {
			if ended < n && leases[i].Backend() == m.On {
				leases[i].Release()
				come(&leases[i])
				ended++
			}
		}
		return ended
	}
}

func rebalanced(t *testing.T, set Settings, n int) *rig {
	t.Helper()
	p := newPool(t, "web", "127.0.0.1:1", "127.0.0.1:2")
	p.SetStrategy(newStrategy(t, "least_connections"))
	r := start(t, set, p)
	r.endIdlest = uneven(t, p, n)
	return r
}

func TestRebalance(t *testing.T) {
	r := rebalanced(t, Settings{Tokens: tokens}, 40)
	const path = "/pools/web/rebalance"
	r.do("GET", path, "", readToken).want(t, 404, "POST begins one")
	r.do("DELETE", path, "", operateToken).want(t, 404, `no rebalance of pool \"web\" runs`)
	first := r.do("POST", path, `{"rate":1000,"target":0,"min_age":"0s","min_idle":"1ms"}`, operateToken)
	first.want(t, 202, `"state":"running"`)
	p := decode[rebalance.Progress](t, first)
	if p.Surplus != 20 || p.Remaining != 20 || p.Closed != 0 || p.Rate != 1000 || p.Target != 0 || p.MinIdle != "1ms" || len(p.Backends) != 2 ||
		p.Backends[0] != (rebalance.Share{ID: "a", Eligible: true, Active: 40, Fair: 20, ToClose: 20}) ||
		p.Backends[1] != (rebalance.Share{ID: "b", Eligible: true, Fair: 20}) || !strings.HasSuffix(p.By, " operate") {
		t.Errorf("got %s", first.text)
	}
	eventually(t, "it is even", func() bool {
		p = decode[rebalance.Progress](t, r.do("GET", path, "", readToken).want(t, 200, "state"))
		return p.State == rebalance.Even
	})
	if p.Closed != 20 || p.Remaining != 0 || p.Backends[0].Active != 20 || p.Backends[0].Closed != 20 || p.Ended.IsZero() {
		t.Errorf("got %+v", p)
	}
	r.do("DELETE", path, "", operateToken).want(t, 404, "runs")
	eventually(t, "the line of the end", func() bool { return r.logs.FilterMessage("rebalance ended").Len() == 1 })
	r.logs.TakeAll()
}

func TestRebalanceIsOneAtATimeAndStops(t *testing.T) {
	r := rebalanced(t, Settings{}, 400)
	const path = "/pools/web/rebalance"
	r.do("POST", path, `{"rate":1}`).want(t, 202, `"surplus":180`)
	r.do("POST", path, `{"rate":1}`).want(t, 409, "DELETE stops it")
	r.do("POST", path, `{"dry_run":true}`).want(t, 200, `"state":"planned"`)
	r.do("DELETE", path, "").want(t, 200, `"state":"stopped"`)
	r.do("GET", path, "").want(t, 200, `"reason":"it was stopped"`)
	r.do("POST", path, "").want(t, 202, `"rate":10,"target":10,"min_age":"0s","min_idle":"0s"`)
	r.draining.Store(true)
	eventually(t, "it ends with the process", func() bool {
		return strings.Contains(r.do("GET", path, "").text, `"state":"shutdown"`)
	})
	r.draining.Store(false)
	r.do("POST", path, `{"rate":1}`).want(t, 202, "")
	pools := r.pools.Load()
	r.pools.Store(&[]*pool.Pool{newPool(t, "other")})
	r.do("GET", path, "").want(t, 404, "no pool")
	eventually(t, "it ends with its pool", func() bool {
		p, _ := r.rebalances.Progress("web")
		return p.State == rebalance.Removed
	})
	r.pools.Store(pools)
	r.do("POST", path, `{"rate":1}`).want(t, 202, "")
	r.Close()
	if p, _ := r.rebalances.Progress("web"); p.Ended.IsZero() {
		t.Errorf("the server is closed, and the rebalance goes on: %+v", p)
	}
}

// A dry run needs no more than a read token, and does nothing; all else needs what a
// change needs, and what is not understood begins nothing.
func TestWhoMayRebalance(t *testing.T) {
	r := rebalanced(t, Settings{Tokens: tokens}, 40)
	var ended atomic.Int64
	end := r.endIdlest
	r.endIdlest = func(m session.Match, n int) int { ended.Add(1); return end(m, n) }
	const path = "/pools/web/rebalance"
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		text               string
	}{
		{"POST", path, `{"dry_run":true}`, []string{readToken}, 200, `"to_close":18`},
		{"POST", path, `{"dry_run":true,"target":0}`, []string{operateToken}, 200, `"to_close":20`},
		{"POST", path, `{"dry_run":true}`, nil, 200, ""}, // loopback: reading needs no token
		{"POST", path, `{"dry_run":true}`, []string{"Origin: http://evil.example"}, 403, "another site"},
		{"POST", path, `{"dry_run":true}`, []string{"Host: evil.example"}, 403, "is neither"},
		{"POST", path, `{}`, []string{readToken}, 403, "may read only"},
		{"POST", path, ``, []string{readToken}, 403, "may read only"},
		{"POST", path, `{"dry_run":false}`, []string{readToken}, 403, "may read only"},
		{"POST", path, `{}`, nil, 401, "a token is needed"},
		{"POST", path, `{}`, []string{wrongToken}, 401, "not valid"},
		{"POST", path, `{}`, []string{operateToken, "Origin: http://evil.example"}, 403, "another site"},
		{"POST", path, `{}`, []string{operateToken, "Host: evil.example"}, 403, "is neither"},
		{"DELETE", path, ``, []string{readToken}, 403, "may read only"},
		{"DELETE", path, ``, []string{operateToken, "Origin: http://evil.example"}, 403, "another site"},
		{"PUT", path, ``, []string{operateToken}, 405, "DELETE, GET, POST, HEAD"},
		{"POST", "/pools/none/rebalance", `{}`, []string{operateToken}, 404, "no pool"},
		{"POST", path + "/x", `{}`, []string{operateToken}, 404, "no such path"},
		{"POST", path, `{"rat":1}`, []string{operateToken}, 400, `unknown field \"rat\"; known are: dry_run, min_age, min_idle, rate, target`},
		{"POST", path, `{"rate":0}`, []string{operateToken}, 400, `\"rate\" must be 1 at least`},
		{"POST", path, `{"rate":1001}`, []string{operateToken}, 400, `\"rate\" must be a whole number from 0 to 1000`},
		{"POST", path, `{"rate":1.5}`, []string{operateToken}, 400, `\"rate\"`},
		{"POST", path, `{"target":-1}`, []string{operateToken}, 400, `\"target\"`},
		{"POST", path, `{"min_idle":5}`, []string{operateToken}, 400, `\"min_idle\" must be a string`},
		{"POST", path, `{"min_idle":"5"}`, []string{operateToken}, 400, `\"min_idle\" must be a duration`},
		{"POST", path, `{"min_age":"-5s"}`, []string{operateToken}, 400, `\"min_age\" must be a duration`},
		{"POST", path, `{"dry_run":"yes"}`, []string{operateToken}, 400, `\"dry_run\" must be true or false`},
		{"POST", path, `{"dry_run":null}`, []string{operateToken}, 400, `\"dry_run\" must be true or false`},
		{"POST", path, `{"rate":1,"rate":2}`, []string{operateToken}, 400, "given twice"},
		{"POST", path, `[]`, []string{operateToken}, 400, "JSON object"},
		{"POST", path, `{} {}`, []string{operateToken}, 400, "JSON object"},
	} {
		got := r.do(c.method, c.path, c.body, c.headers...).want(t, c.status, c.text)
		if challenged := got.Header.Get("WWW-Authenticate") != ""; challenged != (c.status == http.StatusUnauthorized) {
			t.Errorf("%s %s: WWW-Authenticate: %v", c.method, c.body, challenged)
		}
	}
	if p, begun := r.rebalances.Progress("web"); begun || ended.Load() > 0 || r.kept.Load() > 0 {
		t.Errorf("something was begun: %+v, %d ended, kept %d times", p, ended.Load(), r.kept.Load())
	}
}

func TestRebalanceIsAudited(t *testing.T) {
	r := rebalanced(t, Settings{Tokens: tokens}, 400)
	for _, c := range []struct{ method, body, token, want string }{
		{"POST", `{"dry_run":true}`, readToken, ""},
		{"POST", `{"rate":1}`, readToken,
			`change refused {"method":"POST","path":"/pools/web/rebalance","reason":"the token may read only; a change needs an operate token","role":"read","status":403}`},
		{"POST", `{"rate":1}`, operateToken,
			`rebalance started {"min_age":0,"min_idle":0,"pool":"web","rate":1,"role":"operate","status":202,"surplus":180,"target":10}`},
		{"DELETE", "", operateToken, `rebalance ended|rebalance stopped {"pool":"web","role":"operate","status":200}`},
	} {
		r.do(c.method, "/pools/web/rebalance", c.body, c.token)
		lines := r.lines()
		for i, l := range lines {
			if strings.HasPrefix(l, "rebalance ended") {
				if !strings.Contains(l, `"state":"stopped"`) || !strings.Contains(l, `"surplus":180`) || !strings.Contains(l, `"closed":`) {
					t.Errorf("got %s", l)
				}
				lines[i] = "rebalance ended"
			}
		}
		if got := strings.Join(lines, "|"); got != c.want {
			t.Errorf("%s %s: got %s\nwant %s", c.method, c.body, got, c.want)
		}
	}
}

package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sluice/admin/internal/answer"
	"sluice/pool"
)

func TestEveryStatusOfTheAPI(t *testing.T) {
	long := strings.Repeat("x", 129)
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"GET", "/healthz", "", 200, `"ok"`},
		{"HEAD", "/healthz", "", 200, ""},
		{"POST", "/healthz", "", 405, "takes GET, HEAD"},
		{"GET", "/readyz", "", 200, `{"ready":true}`},
		{"GET", "/readyz/to%20web", "", 200, `"ready":true`},
		{"GET", "/readyz/none", "", 404, `no frontend \"none\"; GET /status lists them`},
		{"GET", "/status", "", 200, `"name":"web","strategy":"round_robin"`},
		{"GET", "/metrics", "", 200, "sluice_config_generation 1\n"},
		{"POST", "/metrics", "", 405, "takes GET, HEAD"},
		{"GET", "/metrics/", "", 404, "no such path"},
		{"GET", "/sessions", "", 200, `{"sessions":[],"next":null}`},
		{"DELETE", "/sessions", "", 400, "all=true"},
		{"POST", "/sessions", "", 405, "DELETE, GET, HEAD"},
		{"GET", "/sessions/cafe-1", "", 405, "takes DELETE"},
		{"DELETE", "/sessions/cafe-1", "", 404, "GET /sessions lists them"},
		{"GET", "/", "", 404, "no such path"},
		{"GET", "/status/", "", 404, "no such path"},
		{"GET", "/nothing", "", 404, "no such path; there is /status, /backends"},
		{"GET", "/pools", "", 404, "no such path"},
		{"GET", "/pools/web/other", "", 404, "no such path"},
		{"GET", "/backends", "", 200, `"backends":[{"pool":"web","id":"a"`},
		{"GET", "/backends?pool=web", "", 200, `"id":"a"`},
		{"GET", "/backends?pool=none", "", 404, `no pool \"none\"; there is web`},
		{"PUT", "/backends", "", 405, "GET, POST, HEAD"},
		{"GET", "/backends/a", "", 405, "DELETE, PATCH"},
		{"GET", "/backends/a/events", "", 200, `{"pool":"web","backend":"a","events":[{"kind":"state","text":"up: configured in the file","count":1,"first":"2`},
		{"HEAD", "/backends/a/events", "", 200, ""},
		{"GET", "/backends/a/events?pool=web", "", 200, `"events":[`},
		{"GET", "/backends/a/events?pool=none", "", 404, "no pool"},
		{"GET", "/backends/a/events?last=3", "", 400, `unknown parameter \"last\"; known are: pool`},
		{"GET", "/backends/x/events", "", 404, `no such backend: \"x\"; GET /explain lists`},
		{"GET", "/backends//events", "", 404, "no such"},
		{"POST", "/backends/a/events", "", 405, "DELETE, GET, PATCH, HEAD"},
		{"GET", "/explain", "", 200, `"pool":"web","strategy":"round_robin","pick":{"id":"a","address":"127.0.0.1:1","sure":true},"outcome":"served"`},
		{"HEAD", "/explain", "", 200, ""},
		{"POST", "/explain", "", 405, "GET, HEAD"},
		{"GET", "/explain/", "", 404, "no such path"},
		{"GET", "/explain?pool=none", "", 404, "no pool"},
		{"GET", "/explain?client=::ffff:10.0.0.1", "", 200, `"client":"10.0.0.1"`},
		{"GET", "/explain?client=10.0.0.1:80", "", 400, `parameter \"client\" must be an address without a port`},
		{"GET", "/explain?client=fe80::1%25eth0", "", 400, "without a port or a zone"},
		{"GET", "/explain?client=a.example", "", 400, "must be an address"},
		{"GET", "/explain?client=", "", 400, "is empty"},
		{"GET", "/explain?client=10.0.0.1&client=10.0.0.2", "", 400, "given twice"},
		{"GET", "/explain?backend=a", "", 400, `unknown parameter \"backend\"; known are: client, events, pool`},
		{"GET", "/explain?events=all", "", 200, `"events":[{"kind":"state"`},
		{"GET", "/explain?events=-1", "", 400, "must be all, or a whole number from 0 to 1024"},
		{"GET", "/reload", "", 405, "POST"},
		{"GET", "/pools/web", "", 200, `"eligible":1`},
		{"GET", "/pools/none", "", 404, "no pool"},

		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:80"}`, 201, `"weight":1,"max_sessions":0,"state":"up"`},
		{"POST", "/backends", `{"pool":"web","id":"n","address":"10.0.0.1:80","weight":0,"max_sessions":7}`, 201, `"weight":0,"max_sessions":7`},
		{"POST", "/backends", `{"id":"[::1]:80","address":"[::1]:80"}`, 201, `"origin":"api"`},
		{"POST", "/backends", `{"id":"n","address":"unix:/run/app.sock"}`, 201, ""},
		{"POST", "/backends", `{"id":"n","address":"name.example:65535"}`, 201, ""},
		{"POST", "/backends", ``, 400, "the body is empty"},
		{"POST", "/backends", `[]`, 400, "must be a JSON object"},
		{"POST", "/backends", `{"id":"n"`, 400, "not one JSON object"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:80"} x`, 400, "not one JSON object"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:80"}{}`, 400, "not one JSON object"},
		{"POST", "/backends", `{"address":"10.0.0.1:80"}`, 400, `\"id\" is missing`},
		{"POST", "/backends", `{"id":"n"}`, 400, `\"address\" is missing`},
		{"POST", "/backends", `{"id":7,"address":"10.0.0.1:80"}`, 400, "must be a string"},
		{"POST", "/backends", `{"id":null,"address":"10.0.0.1:80"}`, 400, "must be a string"},
		{"POST", "/backends", `{"id":"n","id":"m","address":"10.0.0.1:80"}`, 400, `\"id\" is given twice`},
		{"POST", "/backends", `{"id":"n","adress":"10.0.0.1:80"}`, 400, `unknown field \"adress\"; known are: address, backup, id`},
		{"POST", "/backends", `{"ID":"n","address":"10.0.0.1:80"}`, 400, "unknown field"},
		{"POST", "/backends", `{"id":"a b","address":"10.0.0.1:80"}`, 400, "1 to 128 of the characters"},
		{"POST", "/backends", `{"id":"` + long + `","address":"10.0.0.1:80"}`, 400, "1 to 128 of the characters"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:80","weight":-1}`, 400, "from 0 to 1000"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:80","weight":1001}`, 400, "from 0 to 1000"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:80","weight":1.5}`, 400, "whole number"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:80","weight":99999999999999999999}`, 400, "whole number"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:80","weight":"1"}`, 400, "whole number"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:80","max_sessions":-1}`, 400, "whole number"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1"}`, 400, `write \"10.0.0.1:PORT\"`},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:0"}`, 400, "port is 1 to 65535"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:65536"}`, 400, "to 65535"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:http"}`, 400, "to 65535"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:080"}`, 400, "to 65535"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.1:80,10.0.0.2:80"}`, 400, "exactly one"},
		{"POST", "/backends", `{"id":"n","address":"http://10.0.0.1:80"}`, 400, `a URL; write \"10.0.0.1:80\"`},
		{"POST", "/backends", `{"id":"n","address":":80"}`, 400, "has no host"},
		{"POST", "/backends", `{"id":"n","address":"0.0.0.0:80"}`, 400, "to listen on"},
		{"POST", "/backends", `{"id":"n","address":"10.0.0.256:80"}`, 400, "no IPv4 address"},
		{"POST", "/backends", `{"id":"n","address":"unix:app.sock"}`, 400, "absolute path"},
		{"POST", "/backends", `{"id":"n","address":"unix:/` + long + `"}`, 400, "at most 107"},
		{"POST", "/backends", `{"id":"a","address":"10.0.0.1:80"}`, 409, "configured already; change it by PATCH"},
		{"POST", "/backends", `{"id":"n","address":"127.0.0.1:1"}`, 409, "configured already"},
		{"POST", "/backends", `{"id":"n","address":"` + ourselves + `"}`, 400, `field \"address\": 127.0.0.1:7001 is where frontend web`},
		{"POST", "/backends", `{"pool":"none","id":"n","address":"10.0.0.1:80"}`, 404, "no pool"},
		{"POST", "/backends", `{"id":"` + strings.Repeat("x", maxBody) + `"}`, 413, "larger than 65536"},

		{"DELETE", "/backends/a", "", 204, ""},
		{"DELETE", "/backends/none", "", 404, `no such backend: \"none\"; GET /backends?pool=web lists them`},
		{"DELETE", "/backends/a?pool=none", "", 404, "no pool"},
		{"PATCH", "/backends/a", `{"weight":7,"max_sessions":5,"state":"drain"}`, 200, `"weight":7,"max_sessions":5,"state":"drain"`},
		{"PATCH", "/backends/a", `{"state":"maint"}`, 200, `"admin":"maint"`},
		{"PATCH", "/backends/a", `{}`, 400, "nothing to change"},
		{"PATCH", "/backends/a", `{"state":"up"}`, 400, `must be \"ready\", \"drain\" or \"maint\"`},
		{"PATCH", "/backends/a", `{"weight":null}`, 400, "whole number"},
		{"PATCH", "/backends/a", `{"address":"10.0.0.1:80"}`, 400, "unknown field"},
		{"PATCH", "/backends/none", `{"weight":1}`, 404, "GET /backends?pool=web lists them"},
		{"PATCH", "/pools/web", `{"strategy":"least_connections"}`, 200, `"strategy":"least_connections","strategy_origin":"api"`},
		{"PATCH", "/pools/web", `{"strategy":"fastest"}`, 400, "round_robin, least_connections"},
		{"PATCH", "/pools/web", `{}`, 400, "nothing to change"},
		{"PATCH", "/pools/none", `{"strategy":"round_robin"}`, 404, "no pool"},
		{"POST", "/reload", "", 200, `{"generation":2,"changes":[],"plan":[]}`}, // and no empty list of warnings
	} {
		t.Run(c.method+" "+c.path+" "+c.body[:min(60, len(c.body))], func(t *testing.T) {
			r := start(t, Settings{}, newPool(t, "web", "127.0.0.1:1"))
			before := r.do("GET", "/pools/web", "").text
			p := r.do(c.method, c.path, c.body).want(t, c.status, c.text)
			if p.StatusCode >= 400 {
				if c.method != "HEAD" && decode[answer.Problem](t, p).Error == "" {
					t.Errorf("got %q; want an error in it", p.text)
				}
				if after := r.do("GET", "/pools/web", "").text; after != before {
					t.Errorf("an error changed the pool from\n%s to\n%s", before, after)
				}
			}
			if (p.StatusCode == 405) != (p.Header.Get("Allow") != "") {
				t.Errorf("status %d has Allow %q", p.StatusCode, p.Header.Get("Allow"))
			}
		})
	}
}

func TestIDsAreFoundWhateverCharactersTheyHold(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "a/b:c[d]"))
	for _, c := range []struct{ id, path string }{
		{"127.0.0.1:8080", "/backends/127.0.0.1:8080"},
		{"127.0.0.1:8080", "/backends/127.0.0.1%3A8080"},
		{"[::1]:80", "/backends/[::1]:80"},
		{"[::1]:80", "/backends/%5B%3A%3A1%5D%3A80"},
		{"unix:/run/app.sock", "/backends/unix%3A%2Frun%2Fapp.sock"},
		{"unix:/run/app.sock", "/backends/unix:/run/app.sock"},
		{"..", "/backends/%2E%2E"},
		{"web/10.0.0.1", "/backends/web/10.0.0.1"},
		{"web/events", "/backends/web/events"},
	} {
		r.do("POST", "/backends", fmt.Sprintf(`{"id":%q,"address":"10.0.0.1:80"}`, c.id)).want(t, 201, c.id)
		r.do("PATCH", c.path, `{"weight":3}`).want(t, 200, `"weight":3`)
		r.do("GET", c.path+"/events", "").want(t, 200, `weight 1 -> 3 by the API`)
		r.do("DELETE", c.path, "").want(t, 204, "")
		r.do("DELETE", c.path, "").want(t, 404, "")
	}
	r.do("GET", "/pools/a%2Fb:c%5Bd%5D", "").want(t, 200, `"name":"a/b:c[d]"`)
	r.do("PATCH", "/pools/a%2Fb%3Ac[d]", `{"strategy":"least_connections"}`).want(t, 200, "least_connections")
	r.do("GET", "/pools/a/b:c[d]", "").want(t, 404, "")
}

func TestLocationOfANewBackendLeadsToIt(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"), newPool(t, "db"))
	p := r.do("POST", "/backends", `{"pool":"db","id":"unix:/s/[a]","address":"unix:/s/a"}`).want(t, 201, "")
	r.do("PATCH", p.Header.Get("Location"), `{"state":"drain"}`).want(t, 200, "drain")
}

func TestPoolIsAskedForOnlyWhereItIsNeeded(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", "127.0.0.1:1"), newPool(t, "db", "127.0.0.1:2", "127.0.0.1:3"))
	const names = "name one of the pools: web, db"
	r.do("GET", "/backends", "").want(t, 200, `"pool":"db","id":"b"`)
	r.do("POST", "/backends", `{"id":"n","address":"10.0.0.1:80"}`).want(t, 400, names)
	r.do("DELETE", "/backends/a", "").want(t, 400, names)
	r.do("PATCH", "/backends/a", `{"weight":2}`).want(t, 400, names)
	r.do("GET", "/proxy/x", "").want(t, 400, "name one by pool in [admin.proxy], or ask /pools/NAME/proxy")
	r.do("DELETE", "/backends/b?pool=db", "").want(t, 204, "")
	if n := len(newStatus(t, r).Pools[1].Backends); n != 1 {
		t.Errorf("db has %d backends; want 1", n)
	}
}

func newStatus(t *testing.T, r *rig) overview {
	t.Helper()
	return decode[overview](t, r.do("GET", "/status", "").want(t, 200, ""))
}

func TestStatusHasNoNullAndEveryPart(t *testing.T) {
	r := start(t, proxying, newPool(t, "web"))
	p := r.do("GET", "/status", "").want(t, 200, `"backends":[]`)
	if strings.Contains(p.text, "null") {
		t.Errorf("%s has null in it", p.text)
	}
	for _, key := range []string{"generation", "started", "engine", "version", "log_dropped", "draining", "frontends", "pools"} {
		p.want(t, 200, `"`+key+`":`)
	}
	s := decode[overview](t, p)
	last := s.Frontends[len(s.Frontends)-1]
	if last.Name != "/proxy" || last.Listen != r.addr || last.Pool != "web" {
		t.Errorf("got frontend %+v; want /proxy at %s to web", last, r.addr)
	}
	r.Use(Settings{})
	if n := len(newStatus(t, r).Frontends); n != 1 {
		t.Errorf("with /proxy off there are %d frontends; want 1", n)
	}
}

// What a pool tells of itself is shown as it is.
func TestStatusShowsWhatTheAPIDeleted(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web", "127.0.0.1:1"))
	r.do("DELETE", "/backends/a", "").want(t, 204, "")
	for _, path := range []string{"/status", "/pools/web"} {
		r.do("GET", path, "").want(t, 200, `"deleted_by_api":["a"]`)
	}
}

func TestReadinessSaysWhyNot(t *testing.T) {
	p := newPool(t, "web", "127.0.0.1:1")
	r := start(t, Settings{}, p)
	r.do("PATCH", "/backends/a", `{"weight":0}`)
	r.do("GET", "/readyz", "").want(t, 200, "")
	r.do("GET", "/readyz/to%20web", "").want(t, 503, "no backend of pool web")
	r.do("PATCH", "/backends/a", `{"weight":1,"state":"drain"}`)
	r.do("GET", "/readyz/to%20web", "").want(t, 503, "no backend of pool web")
	r.do("PATCH", "/backends/a", `{"state":"ready"}`)
	r.do("GET", "/readyz/to web", "").want(t, 200, "")
	r.bound.Store(false)
	r.do("GET", "/readyz", "").want(t, 503, "not every listener is bound")
	r.draining.Store(true)
	r.do("GET", "/readyz", "").want(t, 503, "draining")
	r.do("GET", "/readyz/to%20web", "").want(t, 503, "draining")
	r.do("GET", "/healthz", "").want(t, 200, "")
	if !newStatus(t, r).Draining {
		t.Error("status does not say draining")
	}
}

func TestReadinessWaitsForFirstProbeResults(t *testing.T) {
	p := newPool(t, "web", "127.0.0.1:1")
	r := start(t, Settings{}, p)
	p.Apply(pool.Config{
		Policy:   pool.Policy{Probed: true, Init: pool.InitProbe},
		Backends: []pool.Spec{{ID: "new", Address: "127.0.0.1:2", Weight: 1}},
		Strategy: newStrategy(t, "round_robin"),
	})
	r.do("GET", "/readyz", "").want(t, 503, "first probe results are missing in pool web")
	p.SetHealth(p.Probed()[0], pool.Up, "test")
	r.do("GET", "/readyz", "").want(t, 200, "")
}

func TestRefusedReloadListsEveryMistake(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	for _, c := range []struct {
		err  error
		want []string
	}{
		{Errors{"line 1: x", "line 2: y"}, []string{"line 1: x", "line 2: y"}},
		{fmt.Errorf("config.toml: %w", Errors{"line 3: z"}), []string{"line 3: z"}},
		{errors.New("cannot bind"), []string{"cannot bind"}},
		{Errors{}, []string{"unknown error"}},
	} {
		r.reloaded = func(string) (Reloaded, error) { return Reloaded{}, c.err }
		p := decode[answer.Problem](t, r.do("POST", "/reload", "").want(t, 422, c.want[0]))
		if fmt.Sprint(p.Errors) != fmt.Sprint(c.want) || p.Error == "" {
			t.Errorf("got %+v; want errors %q", p, c.want)
		}
	}
}

func TestReloadShowsWarnings(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	r.reloaded = func(string) (Reloaded, error) { return Reloaded{Generation: 3, Warnings: []string{"unwise"}}, nil }
	r.do("POST", "/reload", "").want(t, 200, `{"generation":3,"changes":[],"plan":[],"warnings":["unwise"]}`)
}

func TestFailedAdditionDoesNotTouchTheRunningTwin(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web", "127.0.0.1:1"))
	r.do("POST", "/backends", `{"id":"a","address":"127.0.0.1:1","weight":-1}`).want(t, 400, "")
	r.do("POST", "/backends", `{"id":"a","address":"127.0.0.1:1"}`).want(t, 409, "")
	r.do("POST", "/backends", `{"id":"twin","address":"127.0.0.1:1"}`).want(t, 409, "")
	if b := r.backend("a"); b.State != "up" || b.Weight != 1 {
		t.Errorf("got %+v; want it as before", b)
	}
	var both sync.WaitGroup
	for range 100 {
		both.Go(func() { r.do("POST", "/backends", `{"id":"n","address":"10.0.0.1:80","weight":5}`) })
		both.Go(func() { r.do("DELETE", "/backends/n", "") })
		both.Wait()
		if b := r.backend("n"); b.ID != "" && b.Admin == "ready" && b.Weight != 5 {
			t.Fatalf("got half a backend: %+v", b)
		}
		r.do("DELETE", "/backends/n", "")
	}
}

func TestBackendsOfTheAPIAreBounded(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web", "127.0.0.1:1", "127.0.0.1:2"))
	r.most = 2
	for i, status := range []int{201, 201, 409} {
		r.do("POST", "/backends", fmt.Sprintf(`{"id":"n%d","address":"10.0.0.%d:80"}`, i, i)).want(t, status, "")
	}
	r.do("DELETE", "/backends/n0", "").want(t, 204, "")
	r.do("POST", "/backends", `{"id":"n","address":"10.0.0.9:80"}`).want(t, 201, "")
}

func TestBodyIsJSONWhateverTheContentType(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	for i, kind := range []string{"application/json", "text/plain", "application/x-www-form-urlencoded", ""} {
		body := fmt.Sprintf(`{"id":"n%d","address":"10.0.0.%d:80"}`, i, i+1)
		r.do("POST", "/backends", body, "Content-Type: "+kind).want(t, 201, "")
	}
}

func TestHugeBodyIsRefusedUnread(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	c := r.connect()
	fmt.Fprintf(c, "POST /backends HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		1<<30, strings.Repeat(" ", 70_000))
	wantStatus(t, c, http.StatusRequestEntityTooLarge)
}

// Nothing is changed in another pool than was meant.
func TestQueriesThatAreNotUnderstoodChangeNothing(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", "127.0.0.1:1"))
	for _, query := range []string{"pool=", "pool=%zz", "pool=web;x", "pool=web&pool=db", "pol=web"} {
		for _, call := range []string{
			"GET /backends ", "POST /backends " + `{"id":"n","address":"10.0.0.1:80"}`, `PATCH /backends/a {"weight":3}`, "DELETE /backends/a ",
		} {
			method, rest, _ := strings.Cut(call, " ")
			path, body, _ := strings.Cut(rest, " ")
			r.do(method, path+"?"+query, body).want(t, 400, "")
		}
	}
	r.do("POST", "/backends?pool=web", `{"id":"n","address":"10.0.0.1:80","pool":"db"}`).want(t, 400, "leave one out")
	r.do("GET", "/backends?pool=web", "").want(t, 200, `"id":"a","address":"127.0.0.1:1","weight":1`)
}

package admin

import (
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// scoped serves on one more port for that scope alone, and sends what follows
// there. others says that they can reach it.
func (r *rig) scoped(s Scope, others bool) net.Listener {
	r.t.Helper()
	at := "127.0.0.1:0"
	if others {
		at = "0.0.0.0:0"
	}
	ln, err := net.Listen("tcp4", at)
	if err != nil {
		r.t.Fatal(err)
	}
	r.serveFor(ln, s)
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	r.addr = "127.0.0.1:" + port
	return ln
}

func TestListenerForProbesServesNothingElse(t *testing.T) {
	r := start(t, Settings{Tokens: tokens, Proxy: proxying.Proxy}, newPool(t, "web", namedWeb(t, "a")))
	r.scoped(Probes, true)
	for _, path := range []string{"/healthz", "/readyz", "/readyz/to%20web", "/metrics"} {
		r.do("GET", path, "", "Host: evil.example").want(t, 200, "")
	}
	r.do("POST", "/healthz", "").want(t, 405, "")
	for _, request := range []string{
		"GET /", "GET /status", "GET /backends", "POST /backends", "DELETE /backends/a", "PATCH /pools/web",
		"POST /reload", "GET /proxy", "GET /proxy/x", "GET /pools/web/proxy/x", "GET /pools/web", "OPTIONS /status",
	} {
		method, path, _ := strings.Cut(request, " ")
		r.do(method, path, "").want(t, 404, "for probes alone")
		r.do(method, path, "", operateToken).want(t, 404, "for probes alone")
	}
}

// What comes through the listener of /proxy is what comes through a frontend:
// pages, methods and names are the backend's business.
func TestListenerForProxyServesNothingElse(t *testing.T) {
	set := Settings{Tokens: tokens, Proxy: proxying.Proxy}
	set.Proxy.Listens = true
	r := start(t, set, newPool(t, "web", mirror(t)))
	ln := r.scoped(Traffic, true)
	for _, path := range []string{"/proxy", "/proxy/x?y", "/pools/web/proxy/x"} {
		r.do("POST", path, "body", "Host: shop.example", "Origin: http://evil.example", "Sec-Fetch-Site: cross-site").
			want(t, 200, "Host: shop.example")
	}
	r.do("GET", "/proxy/", "", "Authorization: Bearer theirs").has(t, "Authorization: Bearer theirs")
	r.do("GET", "/proxy/", "", readToken).lacks(t, "look-only")
	for _, request := range []string{
		"GET /", "GET /healthz", "GET /readyz", "GET /status", "GET /backends", "POST /backends", "GET /pools/web",
		"PATCH /pools/web", "POST /reload", "OPTIONS /reload",
	} {
		method, path, _ := strings.Cut(request, " ")
		r.do(method, path, "").want(t, 404, "for /proxy")
		r.do(method, path, "", operateToken).want(t, 404, "for /proxy")
	}
	f := r.frontends()[1]
	if f.Listen != ln.Addr().String() || !maps.Equal(f.RejectedBy, map[string]int64{"no_path": 20}) {
		t.Errorf("got %+v; want %s and 20 without a path", f, ln.Addr())
	}
	r.Use(Settings{Tokens: tokens, Proxy: proxying.Proxy})
	r.do("GET", "/proxy/", "").want(t, 404, "switched off") // on a connection that outlived the listener
}

// Clients of /proxy that take every place take none of those who steer.
func TestClientsOfProxyShutNoOperatorOut(t *testing.T) {
	here, goOn := make(chan bool), make(chan bool)
	set := proxying
	set.Proxy.Listens = true
	r := start(t, set, newPool(t, "web", web(t, func(http.ResponseWriter, *http.Request) {
		here <- true
		<-goOn
	})))
	operators := r.addr
	r.scoped(Traffic, false)
	d := &r.entrances[Traffic].door
	d.mu.Lock()
	d.max = 1
	d.mu.Unlock()
	busy := r.connect()
	io.WriteString(busy, get("/proxy/"))
	await(t, "the request", here)
	if n, err := r.connect().Read(make([]byte, 1)); err == nil {
		t.Errorf("another client got %d bytes; want to be closed", n)
	}
	r.addr = operators
	r.do("GET", "/status", "").want(t, 200, "")
	close(goOn)
	wantStatus(t, busy, 200)
}

// A drain closes the listener of /proxy and what is idle there, lets finish what
// is under way, and leaves the API alone.
func TestDrainClosesTheListenerOfProxy(t *testing.T) {
	here, goOn := make(chan bool), make(chan bool)
	set := proxying
	set.Proxy.Listens = true
	r := start(t, set, newPool(t, "web", web(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/slow" {
			here <- true
			<-goOn
		}
		io.WriteString(w, "whole")
	})))
	operators := r.addr
	ln := r.scoped(Traffic, false)
	idle, busy := r.connect(), r.connect()
	io.WriteString(idle, get("/proxy/"))
	wantStatus(t, idle, 200)
	io.WriteString(busy, get("/proxy/slow"))
	await(t, "the request", here)
	var drained sync.WaitGroup
	drained.Go(func() {
		if n := r.Drain(t.Context()); n != 0 {
			t.Errorf("Drain cut %d requests; want none", n)
		}
	})
	if n, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection got %d bytes, %v; want EOF", n, err)
	}
	if _, err := ln.Accept(); err == nil {
		t.Error("the listener is still open")
	}
	r.addr = operators
	r.do("GET", "/status", "").want(t, 200, `"active":1`)
	close(goOn)
	if text := wantStatus(t, busy, 200); text != "whole" {
		t.Errorf("got %q; want whole", text)
	}
	drained.Wait()
}

// The permissions of a unix socket say who may come in: it needs no token where
// there is none, and no name leads a browser to it.
func TestUnixSocket(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	path := t.TempDir() + "/s"
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	r.serve(ln)
	ask := func(text string, status int) {
		t.Helper()
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, text)
		wantStatus(t, c, status)
	}
	change := strings.Replace(get("/reload"), "GET", "POST", 1)
	named := strings.NewReplacer("localhost", "sluice.example")
	ask(get("/status"), 200)
	ask(named.Replace(get("/status")), 200)
	ask(named.Replace(change), 200)
	ask(strings.Replace(change, "\r\n\r\n", "\r\nOrigin: http://evil.example\r\n\r\n", 1), 403)
	r.Use(Settings{Tokens: tokens})
	ask(get("/status"), 200)
	ask(change, 401)
	if line := r.logs.FilterMessage("change refused").All()[0].ContextMap(); line["by"] != "unix" {
		t.Errorf("got %v; want it by unix", line)
	}
}

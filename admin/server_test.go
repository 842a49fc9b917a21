package admin

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// TestSlowHeadersShutNobodyOut is one test of real time: 5 s for the header.
func TestSlowHeadersShutNobodyOut(t *testing.T) {
	t.Parallel()
	r := start(t, Settings{}, newPool(t, "web"))
	began := time.Now()
	var slow []net.Conn
	for i := range 500 {
		c := r.connect()
		io.WriteString(c, get("/status")[:1+i%30])
		slow = append(slow, c)
	}
	for range 20 {
		asked := time.Now()
		r.do("GET", "/status", "").want(t, 200, "")
		if took := time.Since(asked); took > time.Second {
			t.Errorf("the API took %v beside 500 slow connections", took)
		}
	}
	for _, c := range slow {
		c.SetReadDeadline(began.Add(15 * time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Fatalf("a connection without a request was not closed: %v", err)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("closing the slow connections took %v; want at most 10 s", took)
	}
}

func TestFullServerShowsOutWhoWaitsLongest(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	r.narrow(3)
	var waiting []*net.TCPConn
	for range 3 {
		waiting = append(waiting, r.connect())
		eventually(t, "the connection", func() bool { return r.inside() == len(waiting) })
	}
	c := r.connect()
	io.WriteString(c, get("/healthz"))
	wantStatus(t, c, 200)
	if n, err := waiting[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the oldest got %d bytes and %v; want EOF", n, err)
	}
	io.WriteString(waiting[1], get("/healthz"))
	wantStatus(t, waiting[1], 200)
}

// narrow sets how many connections the door lets in.
func (r *rig) narrow(max int) {
	r.entrances[Everything].door.mu.Lock()
	defer r.entrances[Everything].door.mu.Unlock()
	r.entrances[Everything].door.max = max
}

func (r *rig) inside() int {
	r.entrances[Everything].door.mu.Lock()
	defer r.entrances[Everything].door.mu.Unlock()
	return len(r.entrances[Everything].door.conns)
}

func TestFullServerOfBusyConnectionsRefusesNewcomers(t *testing.T) {
	here, goOn := make(chan bool), make(chan bool)
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, _ *http.Request) {
		here <- true
		<-goOn
	})))
	r.narrow(1)
	busy := r.connect()
	io.WriteString(busy, get("/proxy/"))
	await(t, "the request", here)
	if n, err := r.connect().Read(make([]byte, 1)); err == nil {
		t.Errorf("a newcomer got %d bytes; want to be closed", n)
	}
	close(goOn)
	wantStatus(t, busy, 200)
}

func TestUpgradedConnectionGivesItsPlaceBack(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", echoSocket(t).Addr))
	for range 3 {
		c, in := r.upgrade()
		c.CloseWrite()
		io.Copy(io.Discard, in)
	}
	eventually(t, "every place", func() bool { return r.inside() == 0 })
}

func TestDrainWaitsForWhatGoesThroughProxy(t *testing.T) {
	here, goOn := make(chan bool), make(chan bool)
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, _ *http.Request) {
		here <- true
		<-goOn
		io.WriteString(w, "whole")
	})))
	var both sync.WaitGroup
	both.Go(func() { r.do("GET", "/proxy/", "").want(t, 200, "whole") })
	await(t, "the request", here)
	both.Go(func() {
		if n := r.Drain(t.Context()); n != 0 {
			t.Errorf("Drain cut %d requests; want none", n)
		}
	})
	r.wantDraining()
	r.do("GET", "/status", "").want(t, 200, `"active":1`) // the API answers until the end
	close(goOn)
	both.Wait()
	r.do("POST", "/reload", "").want(t, 200, "")
}

// wantDraining waits until /proxy refuses, and checks how.
func (r *rig) wantDraining() {
	r.t.Helper()
	var p reply
	eventually(r.t, "the refusal", func() bool {
		p = r.do("GET", "/proxy/", "")
		return p.StatusCode == http.StatusServiceUnavailable
	})
	if p.want(r.t, 503, "shutting down"); !p.Close {
		r.t.Error("the refusal leaves the connection open; want Connection: close")
	}
}

func TestDrainWaitsForAWebSocketAndThenReturnsAtOnce(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", echoSocket(t).Addr))
	c, in := r.upgrade()
	done := make(chan int, 1)
	go func() { done <- r.Drain(t.Context()) }()
	r.wantDraining()
	io.WriteString(c, "still here")
	wantBytes(t, in, "still here")
	select {
	case n := <-done:
		t.Fatalf("Drain returned %d with a WebSocket open", n)
	default:
	}
	c.CloseWrite()
	io.Copy(io.Discard, in)
	if n := await(t, "the end of the drain", done); n != 0 {
		t.Errorf("Drain cut %d requests; want none", n)
	}
}

func TestDrainCutsWhatOutlastsItsTime(t *testing.T) {
	here := make(chan bool, 2)
	hanging := web(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/begun" {
			io.WriteString(w, "begun")
			http.NewResponseController(w).Flush()
		}
		here <- true
		<-q.Context().Done()
	})
	r := start(t, proxying, newPool(t, "web", hanging), newPool(t, "ws", echoSocket(t).Addr))
	c, in := r.upgradeAt("/pools/ws/proxy/")
	io.WriteString(c, "x")
	wantBytes(t, in, "x")
	waits, begun := r.connect(), r.connect()
	io.WriteString(waits, get("/pools/web/proxy/waits"))
	io.WriteString(begun, get("/pools/web/proxy/begun"))
	await(t, "one request", here)
	await(t, "the other", here)
	if n := r.stop(0); n != 3 {
		t.Errorf("Drain cut %d requests; want 3", n)
	}
	wantStatus(t, waits, 503)
	if text, err := io.ReadAll(begun); err == nil && strings.HasSuffix(string(text), "0\r\n\r\n") {
		t.Errorf("the cut response looks whole: %q", text)
	}
	io.Copy(io.Discard, in)
	for range 3 {
		if rec := r.record(); rec.Cause != "shutdown" || rec.Code != "KD" {
			t.Errorf("got cause %s, code %s; want shutdown, KD", rec.Cause, rec.Code)
		}
	}
}

func TestServeAfterCloseReturns(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	r.Close()
	ln := listen(t)
	if err := r.Serve(ln, Everything); err != nil {
		t.Errorf("got %v; want nil", err)
	}
	if _, err := ln.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}

func TestClosedListenerEndsServeAndAnotherGoesOn(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	ln, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	done := r.serve(ln)
	ln.Close()
	if err := await(t, "the end of Serve", done); err != nil {
		t.Errorf("Serve returned %v; want nil", err)
	}
	r.do("GET", "/healthz", "").want(t, 200, "")
}

func TestSlowBodyOfAChangeBlocksNoOtherChange(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	c := r.connect()
	fmt.Fprint(c, "POST /backends HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\n\r\n{")
	r.do("POST", "/backends", `{"id":"n","address":"10.0.0.1:80"}`).want(t, 201, "")
	c.CloseWrite()
	wantStatus(t, c, 400)
}

// A response may take as long as it likes to write, and a body to read: the time
// of a request ends with its header.
func TestNoTimeoutCutsAStream(t *testing.T) {
	r := start(t, proxying, newPool(t, "web"))
	for i := range r.entrances {
		if s := &r.entrances[i].http; s.WriteTimeout != 0 || s.ReadTimeout != 0 || s.ReadHeaderTimeout == 0 {
			t.Errorf("listeners of scope %d: got timeouts of %v for writing, %v for reading, %v for the header; want the last alone",
				i, s.WriteTimeout, s.ReadTimeout, s.ReadHeaderTimeout)
		}
	}
}

// One more test of real time: 10 s for a body that does not come.
func TestSlowBodyIsGivenUp(t *testing.T) {
	t.Parallel()
	r := start(t, Settings{}, newPool(t, "web"))
	c := r.connect()
	c.SetDeadline(time.Now().Add(bodyTimeout + l4test.Patience))
	fmt.Fprint(c, "POST /backends HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\n\r\n{")
	if text := wantStatus(t, c, 408); !strings.Contains(text, "did not arrive within 10s") {
		t.Errorf("got %q", text)
	}
}

// A place at the door is not held by a body that nobody waits for: else strangers
// could keep everybody out.
func TestBodyThatNobodyReadsHoldsNoPlace(t *testing.T) {
	set := Settings{Tokens: tokens, Proxy: proxying.Proxy}
	for request, status := range map[string]int{
		"POST /healthz": 405, "GET /readyz": 200, "POST /nothing": 401, "POST /backends": 401, "POST /proxy/": 401, "GET /status": 401,
	} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			r := start(t, set, newPool(t, "web"))
			r.goPublic()
			c := r.connect()
			c.SetDeadline(time.Now().Add(l4test.Patience))
			fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\n\r\n{", request)
			wantStatus(t, c, status)
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}

// However few descriptors there are, the connections of the three scopes and what
// /proxy dials for its own leave half of them.
func TestAdminSideLeavesDescriptors(t *testing.T) {
	for n, want := range map[int]int{4: 1, 1024: 128, 4096: 512, 32768: 4096, 1 << 20: 4096} {
		if got := mostConns(n, true); got != want {
			t.Errorf("of %d descriptors: got %d connections, want %d", n, got, want)
		}
	}
	if got := mostConns(0, false); got != maxConns {
		t.Errorf("without a limit: got %d connections, want %d", got, maxConns)
	}
}

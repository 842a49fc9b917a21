package admin

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// closer is a backend that reads the request's header and closes, by FIN or RST,
// without a word.
func closer(t *testing.T, seen *counter, reset bool) string {
	return raw(t, func(c *net.TCPConn, _ *bufio.Reader, req *http.Request) {
		seen.add(req.Header.Get("Unique"))
		if reset {
			c.SetLinger(0)
		}
	}).Addr
}

func TestWhatIsSentAgainElsewhere(t *testing.T) {
	for _, reset := range []bool{false, true} {
		for _, c := range []struct {
			method, body string
			status       int
		}{
			{"GET", "", 200}, {"HEAD", "", 200}, {"OPTIONS", "", 200}, {"PUT", "", 200}, {"DELETE", "", 200},
			{"POST", "", 502}, {"PATCH", "", 502}, {"POST", "x", 502}, {"PUT", "x", 502}, {"GET", "x", 502},
		} {
			t.Run(fmt.Sprint(c.method, " ", len(c.body), " reset ", reset), func(t *testing.T) {
				var seen counter
				r := start(t, proxying, newPool(t, "web", closer(t, &seen, reset), namedWeb(t, "b")))
				p := r.do(c.method, "/proxy/", c.body, "Unique: x")
				if p.StatusCode != c.status {
					t.Errorf("got %d %q; want %d", p.StatusCode, p.text, c.status)
				}
				if _, n := seen.most(); n != 1 {
					t.Errorf("the backend that closed saw the request %d times; want once", n)
				}
				if b := r.backend("a"); b.FailuresInRow != 1 || b.DialFailures != 1 || b.Total != 0 {
					t.Errorf("got %+v; want one failure and no session", b)
				}
				r.wantEnding(c.status == 200)
			})
		}
	}
}

// wantEnding checks the record of a request whose first backend, a, closed.
func (r *rig) wantEnding(retried bool) {
	r.t.Helper()
	rec := r.record()
	want, backend := session.BackendReset, "a"
	if retried {
		want, backend = session.BackendClosed, "b"
	}
	if rec.Cause != want || rec.Backend != backend || rec.Attempts[0].Error != "reset" {
		r.t.Errorf("got %+v; want %s at %s, first attempt reset", rec, want, backend)
	}
}

func TestPostIsSentElsewhereIfNothingOfItArrived(t *testing.T) {
	reads := web(t, func(w http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body)
		io.WriteString(w, "b")
	})
	r := start(t, proxying, newPool(t, "web", l4test.Refuse(t), reads))
	body := strings.Repeat("u", 100_003)
	for range 4 {
		r.do("POST", "/proxy/", body).want(t, 200, "b")
	}
	if b := r.backend("b"); b.Total != 4 || b.BytesToBack != 4*100_003 {
		t.Errorf("got %+v; want 4 sessions and their bodies once", b)
	}
	if b := r.backend("a"); b.DialFailures != 4 { // a failed dial does not lose the next one its turn
		t.Errorf("the dead backend has %d failures; want 4", b.DialFailures)
	}
	if rec := r.record(); len(rec.Attempts) != 2 || rec.Attempts[0].Error != "refused" || rec.Attempts[1].Error != "" {
		t.Errorf("got attempts %+v; want refused, then none", rec.Attempts)
	}
	s := newStatus(t, r)
	if f := s.Frontends[len(s.Frontends)-1]; f.Redials != 4 {
		t.Errorf("got %d redials; want 4", f.Redials)
	}
}

func TestAllDialsFailed(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", l4test.Refuse(t), l4test.Refuse(t)))
	for _, method := range []string{"GET", "POST"} {
		p := r.do(method, "/proxy/", "x").want(t, 503, `{"error":"no backend is available"}`)
		if p.Header.Get("Sluice-Backend") != "" {
			t.Errorf("nobody was reached, but %s is named", p.Header.Get("Sluice-Backend"))
		}
		if rec := r.record(); rec.Cause != session.ConnectFailed || rec.Code != "SC" || len(rec.Attempts) != 2 {
			t.Errorf("got %+v; want connect_failed, SC after 2 attempts", rec)
		}
	}
}

func TestDialThatHangsGivesWayToAnother(t *testing.T) {
	short := defaults
	short.ConnectTimeout = 50 * time.Millisecond
	r := startWith(t, short, proxying, newPool(t, "web", l4test.Hole(t), namedWeb(t, "b")))
	r.do("POST", "/proxy/", "x").want(t, 200, "b")
	if rec := r.record(); rec.Attempts[0].Error != "timeout" {
		t.Errorf("got attempts %+v; want timeout first", rec.Attempts)
	}
}

func TestEveryBackendClosedWithoutAWord(t *testing.T) {
	var seen counter
	r := start(t, proxying, newPool(t, "web", closer(t, &seen, false), closer(t, &seen, true), closer(t, &seen, false), namedWeb(t, "d")))
	p := r.do("GET", "/proxy/", "", "Unique: x").want(t, 502, "sent no response")
	if p.Header.Get("Sluice-Backend") != "c" {
		t.Errorf("got backend %q; want c, the last of 3 attempts", p.Header.Get("Sluice-Backend"))
	}
	if _, n := seen.most(); n != 3 {
		t.Errorf("%d backends were tried; want 3", n)
	}
	if rec := r.record(); rec.Cause != session.BackendReset || rec.Code != "SD" || len(rec.Attempts) != 3 {
		t.Errorf("got %+v; want backend_reset, SD", rec)
	}
}

func TestSilentBackendIsGivenUp(t *testing.T) {
	silent := raw(t, func(c *net.TCPConn, in *bufio.Reader, _ *http.Request) { io.Copy(io.Discard, in) })
	r := start(t, proxying, newPool(t, "web", silent.Addr, namedWeb(t, "b")))
	set := proxying
	set.Proxy.ResponseTimeout = 30 * time.Millisecond
	r.Use(set)
	p := r.do("GET", "/proxy/", "").want(t, 504, "no response header within 30ms")
	if p.Header.Get("Sluice-Backend") != "a" {
		t.Errorf("got backend %q; want a", p.Header.Get("Sluice-Backend"))
	}
	rec := r.record()
	if rec.Cause != session.Idle || rec.Code != "sD" || rec.Attempts[0].Error != "timeout" {
		t.Errorf("got %+v; want idle, sD, attempt timeout", rec)
	}
	if b := r.backend("a"); b.FailuresInRow != 1 {
		t.Errorf("got %d failures; want 1", b.FailuresInRow)
	}
}

// TestSlowUploadIsNotTheBackendsSilence needs more real time for the upload than
// the response timeout: three pieces, each sent when the timeout has passed.
func TestSlowUploadIsNotTheBackendsSilence(t *testing.T) {
	got := make(chan string, 3)
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, q *http.Request) {
		b := make([]byte, 2)
		for {
			n, err := io.ReadFull(q.Body, b)
			if n > 0 {
				got <- string(b[:n])
			}
			if err != nil {
				io.WriteString(w, "thanks")
				return
			}
		}
	})))
	const timeout = 50 * time.Millisecond
	set := proxying
	set.Proxy.ResponseTimeout = timeout
	r.Use(set)
	c := r.connect()
	io.WriteString(c, "POST /proxy/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, piece := range []string{"ab", "cd", "ef"} {
		<-time.After(timeout * 3 / 2)
		fmt.Fprintf(c, "2\r\n%s\r\n", piece)
	}
	<-time.After(timeout * 3 / 2)
	io.WriteString(c, "0\r\n\r\n")
	wantStatus(t, c, 200)
	if b := r.backend("a"); b.DialFailures != 0 {
		t.Errorf("got %d failures; want 0", b.DialFailures)
	}
}

func TestBackendThatStopsReadingAnUploadIsGivenUp(t *testing.T) {
	goOn := make(chan bool)
	stuck := raw(t, func(*net.TCPConn, *bufio.Reader, *http.Request) { <-goOn })
	r := start(t, proxying, newPool(t, "web", stuck.Addr))
	t.Cleanup(func() { close(goOn) })
	set := proxying
	set.Proxy.ResponseTimeout = 100 * time.Millisecond
	r.Use(set)
	q := r.request("POST", "/proxy/", "")
	q.Body, q.ContentLength = io.NopCloser(l4test.Pattern(64<<20)), 64<<20
	r.client.Transport.(*http.Transport).ExpectContinueTimeout = 0
	if res, err := r.client.Do(q); err == nil {
		res.Body.Close()
		if res.StatusCode != 504 {
			t.Errorf("got %d; want 504", res.StatusCode)
		}
	}
	if rec := r.record(); rec.Cause != session.Idle {
		t.Errorf("got cause %s; want idle", rec.Cause)
	}
}

// TestStaleConnectionsFailNoRequest uses a backend that closes each idle
// connection the moment after its response, so that every next request meets a
// connection that is closed or about to be.
func TestStaleConnectionsFailNoRequest(t *testing.T) {
	var seen counter
	stale := raw(t, func(c *net.TCPConn, _ *bufio.Reader, req *http.Request) {
		seen.add(req.Header.Get("Unique"))
		io.Copy(io.Discard, req.Body)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
	})
	r := start(t, proxying, newPool(t, "web", stale.Addr))
	for i := range 500 {
		method, body := "GET", ""
		if i%2 == 1 {
			method, body = "POST", strings.Repeat("u", i%7)
		}
		r.do(method, "/proxy/", body, fmt.Sprint("Unique: ", method, i)).want(t, 200, "x")
	}
	if key, n := seen.most(); n != 1 {
		t.Errorf("%s was executed %d times; want once", key, n)
	}
	if b := r.backend("a"); b.DialFailures != 0 || b.Total != 500 {
		t.Errorf("got %d failures, %d sessions; want 0 and 500", b.DialFailures, b.Total)
	}
}

func TestBrokenResponseHeaderCountsAsAFailure(t *testing.T) {
	garbage := raw(t, func(c *net.TCPConn, _ *bufio.Reader, _ *http.Request) { io.WriteString(c, "SSH-2.0-nope\r\n") })
	huge := raw(t, func(c *net.TCPConn, _ *bufio.Reader, _ *http.Request) {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX: %s\r\n\r\n", strings.Repeat("h", 1<<20))
	})
	r := start(t, proxying, newPool(t, "web", garbage.Addr, huge.Addr))
	r.do("POST", "/proxy/", "").want(t, 502, "backend a sent no response")
	r.do("POST", "/proxy/", "").want(t, 502, "backend b sent no response")
	for _, id := range []string{"a", "b"} {
		if b := r.backend(id); b.DialFailures != 1 {
			t.Errorf("backend %s has %d failures; want 1", id, b.DialFailures)
		}
	}
}

func TestErrorStatusIsNoFailure(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})))
	r.do("GET", "/proxy/", "").want(t, 503, "")
	if b := r.backend("a"); b.DialFailures != 0 || b.Total != 1 {
		t.Errorf("got %+v; want a session and no failure", b)
	}
}

func TestFailureTakesABackendOutAndSuccessEndsTheStreak(t *testing.T) {
	var seen counter
	p := newPool(t, "web", closer(t, &seen, true), namedWeb(t, "b"))
	c := configOf(t, p, 2)
	p.Apply(c)
	r := start(t, proxying, p)
	for range 8 {
		r.do("GET", "/proxy/", "").want(t, 200, "b")
	}
	if b := r.backend("a"); b.State != "down" || b.DialFailures != 2 {
		t.Errorf("got %s after %d failures; want down after 2", b.State, b.DialFailures)
	}
}

func TestFaultOfOurOwnIsHeldAgainstNobody(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", exhausted, namedWeb(t, "b")))
	r.do("GET", "/proxy/", "").want(t, 503, "no backend is available: this machine")
	rec := r.record()
	if rec.Cause != session.LocalFault || rec.Code != "RC" || len(rec.Attempts) != 1 || rec.Attempts[0].Error != "local" {
		t.Errorf("got %+v; want local_fault, RC after one attempt", rec)
	}
	if b := r.backend("a"); b.DialFailures != 0 {
		t.Errorf("got %d failures; want 0", b.DialFailures)
	}
}

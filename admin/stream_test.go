package admin

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// TestEachPieceOfAResponseArrivesBeforeTheNextIsMade lets the backend make a
// piece only when the client has the one before: a buffer would stop it.
func TestEachPieceOfAResponseArrivesBeforeTheNextIsMade(t *testing.T) {
	for _, c := range []struct{ kind, length string }{
		{"text/event-stream", ""}, {"application/json", ""}, {"application/json", "50"},
	} {
		t.Run(c.kind+" "+c.length, func(t *testing.T) {
			goOn := make(chan bool, 1)
			r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				if c.length != "" {
					w.Header().Set("Content-Length", c.length)
				}
				http.NewResponseController(w).Flush()
				for i := range 5 {
					<-goOn
					fmt.Fprintf(w, "piece %03d\n", i)
					http.NewResponseController(w).Flush()
				}
			})))
			ctx, cancel := context.WithTimeout(t.Context(), l4test.Patience)
			defer cancel()
			res, err := r.client.Do(r.request("GET", "/proxy/", "").WithContext(ctx))
			if err != nil { // the header came before the first piece
				t.Fatal(err)
			}
			defer res.Body.Close()
			for i := range 5 {
				goOn <- true
				wantBytes(t, res.Body, fmt.Sprintf("piece %03d\n", i))
			}
			if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
				t.Errorf("got %q, %v; want the end", rest, err)
			}
		})
	}
}

func TestBothDirectionsStreamAtOnce(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, q *http.Request) {
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex()
		rc.Flush()
		in := bufio.NewReader(q.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprintf(w, "got %s", line)
			rc.Flush()
		}
	})))
	body, send := io.Pipe()
	q := r.request("POST", "/proxy/", "")
	q.Body = body
	res, err := r.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for i := range 3 {
		fmt.Fprintf(send, "line %d\n", i)
		wantBytes(t, res.Body, fmt.Sprintf("got line %d\n", i))
	}
	send.Close()
	io.Copy(io.Discard, res.Body)
}

func TestTruncatedResponseIsNoSuccess(t *testing.T) {
	for name, head := range map[string]string{
		"by length":  "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
		"by chunks":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1f4\r\n",
		"by a reset": "HTTP/1.1 200 OK\r\n\r\n",
	} {
		end := 0 // of a chunk: whole chunks pass, what is missing is the last
		if name == "by chunks" {
			end = 2
		}
		for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
			t.Run(name+" to "+proto, func(t *testing.T) {
				goOn := make(chan bool, 1)
				b := raw(t, func(c *net.TCPConn, _ *bufio.Reader, _ *http.Request) {
					io.WriteString(c, head+strings.Repeat("d", 500)+"\r\n"[:end])
					<-goOn
					if strings.HasSuffix(name, "reset") {
						c.SetLinger(0)
					}
				})
				r := start(t, proxying, newPool(t, "web", b.Addr))
				c := r.connect()
				io.WriteString(c, strings.Replace(get("/proxy/"), "HTTP/1.1", proto, 1))
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				wantBytes(t, res.Body, strings.Repeat("d", 500))
				goOn <- true
				rest, err := io.ReadAll(res.Body)
				if err == nil || len(rest) > 0 {
					t.Errorf("got %q and %v; want an error and nothing more", rest, err)
				}
				if rec := r.record(); rec.Cause != session.BackendReset || rec.Code != "SD" || rec.ToClient != 500 {
					t.Errorf("got %+v; want backend_reset, SD, 500 bytes", rec)
				}
				if b := r.backend("a"); b.DialFailures != 0 {
					t.Errorf("a response that broke off counts as %d failures; want 0", b.DialFailures)
				}
			})
		}
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, q *http.Request) {
		io.WriteString(w, q.URL.Path)
	})))
	c := r.connect()
	io.WriteString(c, get("/proxy/1")+get("/proxy/22")+get("/status"))
	in := bufio.NewReader(c)
	for _, want := range []string{"/1", "/22"} {
		if got := wantNext(t, in, 200); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
	wantNext(t, in, 200)
}

func TestClientThatLeavesCancelsTheRequestAndIsNoFailure(t *testing.T) {
	here, gone := make(chan bool), make(chan bool)
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/begun" {
			io.WriteString(w, "begun")
			http.NewResponseController(w).Flush()
		}
		here <- true
		<-q.Context().Done()
		gone <- true
	})))
	for _, c := range []struct {
		path     string
		sessions int64
	}{{"/proxy/waits", 0}, {"/proxy/begun", 1}} {
		conn := r.connect()
		io.WriteString(conn, get(c.path))
		await(t, "the request", here)
		if c.sessions > 0 {
			if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
		await(t, "its cancellation", gone)
		if rec := r.record(); rec.Cause != session.ClientReset || rec.Code != "CD" {
			t.Errorf("%s: got %+v; want client_reset, CD", c.path, rec)
		}
		if b := r.backend("a"); b.DialFailures != 0 || b.Total != c.sessions {
			t.Errorf("%s: got %d failures and %d sessions; want 0 and %d", c.path, b.DialFailures, b.Total, c.sessions)
		}
	}
}

func TestClientThatLeavesWhileDialing(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", l4test.Hole(t)))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "the dial", func() bool { return r.backend("a").Active == 1 })
		cancel()
	}()
	if res, err := r.client.Do(r.request("GET", "/proxy/", "").WithContext(ctx)); err == nil {
		res.Body.Close()
		t.Errorf("got %d; want the cancellation", res.StatusCode)
	}
	rec := r.record()
	if rec.Cause != session.ClientLeft || rec.Code != "CC" || rec.Attempts[0].Error != "canceled" {
		t.Errorf("got %+v; want client_left, CC, canceled", rec)
	}
	if b := r.backend("a"); b.DialFailures != 0 {
		t.Errorf("got %d failures; want 0", b.DialFailures)
	}
}

func TestUploadThatBreaksOffIsTheClientsDoing(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", web(t, func(_ http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body)
	})))
	for _, text := range []string{
		"Content-Length: 100\r\n\r\nonly this",
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
	} {
		c := r.connect()
		io.WriteString(c, "POST /proxy/ HTTP/1.1\r\nHost: localhost\r\n"+text)
		c.CloseWrite()
		io.Copy(io.Discard, c)
		if rec := r.record(); rec.Cause != session.ClientReset {
			t.Errorf("got %+v; want client_reset", rec)
		}
	}
	if b := r.backend("a"); b.DialFailures != 0 {
		t.Errorf("got %d failures; want 0", b.DialFailures)
	}
}

// upload is a client that asks before it sends 5 MB, and returns what it gets:
// how many interim responses, and the status.
func (r *rig) uploadExpecting(size int64) (interim, status int) {
	r.t.Helper()
	c := r.connect()
	fmt.Fprintf(c, "POST /proxy/ HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", size)
	in := bufio.NewReader(c)
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			r.t.Fatalf("after %d interim responses: %v", interim, err)
		}
		if res.StatusCode != http.StatusContinue {
			io.Copy(io.Discard, res.Body)
			return interim, res.StatusCode
		}
		interim++
		go io.Copy(c, l4test.Pattern(size))
	}
}

func TestExpectContinue(t *testing.T) {
	const size = 5<<20 + 7
	var want bytes.Buffer
	io.Copy(&want, l4test.Pattern(size))
	takes := web(t, func(w http.ResponseWriter, q *http.Request) {
		if got, _ := io.ReadAll(q.Body); !bytes.Equal(got, want.Bytes()) {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	refuses := web(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	mute := raw(t, func(c *net.TCPConn, in *bufio.Reader, q *http.Request) {
		if n, _ := io.Copy(io.Discard, io.LimitReader(in, size)); n == size {
			io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
		}
	})
	for _, c := range []struct {
		name            string
		address         string
		interim, status int
	}{
		{"the backend takes it", takes, 1, 200},
		{"the backend refuses at once", refuses, 0, 413},
		{"the backend never says", mute.Addr, 1, 201},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, proxying, newPool(t, "web", c.address))
			if interim, status := r.uploadExpecting(size); interim != c.interim || status != c.status {
				t.Errorf("got %d interim responses and %d; want %d and %d", interim, status, c.interim, c.status)
			}
		})
	}
}

func TestEarlyRefusalOfAnUploadIsDelivered(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", raw(t, func(c *net.TCPConn, in *bufio.Reader, _ *http.Request) {
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
		c.CloseWrite()
		io.Copy(io.Discard, in)
	}).Addr))
	c := r.connect()
	fmt.Fprintf(c, "POST /proxy/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\nthe first bytes", 5<<20)
	if got := wantStatus(t, c, 413); got != "big" { // while the client still owes the rest
		t.Errorf("got %q; want big", got)
	}
	c.Close()
	if rec := r.record(); rec.Cause != session.BackendClosed {
		t.Errorf("got %+v; want backend_closed", rec)
	}
}

func TestInterimResponsesPass(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</x.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	})))
	c := r.connect()
	io.WriteString(c, get("/proxy/"))
	in := bufio.NewReader(c)
	wantNext(t, in, 103)
	wantNext(t, in, 204)
}

func TestHeadHasTheLengthAndNoBody(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "12345")
	})))
	if p := r.do("HEAD", "/proxy/", ""); p.ContentLength != 12345 || p.text != "" {
		t.Errorf("got length %d and %q; want 12345 and nothing", p.ContentLength, p.text)
	}
	if rec := r.record(); rec.Cause != session.BackendClosed {
		t.Errorf("got %+v; want backend_closed", rec)
	}
}

func TestResponseBodiesAreNotUnpacked(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", web(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		fmt.Fprintf(w, "not really %q", q.Header.Get("Accept-Encoding"))
	})))
	p := r.do("GET", "/proxy/", "").want(t, 200, `not really ""`)
	if p.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("got encoding %q; want gzip", p.Header.Get("Content-Encoding"))
	}
}

func TestClientConnectionIsKeptAfterARefusedBody(t *testing.T) {
	r := start(t, proxying, newPool(t, "web"))
	c := r.connect()
	in := bufio.NewReader(c)
	for range 3 {
		io.WriteString(c, "POST /proxy/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
		wantNext(t, in, 503)
	}
}

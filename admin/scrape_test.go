package admin

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/l4/l4test"
	"sluice/pool"
)

func TestMetricsAnswerHeadAndCompress(t *testing.T) {
	r := start(t, proxying, newPool(t, "web"))
	head := r.do("HEAD", "/metrics", "").want(t, http.StatusOK, "")
	if kind := head.Header.Get("Content-Type"); head.text != "" || !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("HEAD: got %q and type %q, want no body and text/plain", head.text, kind)
	}
	zipped := r.do("GET", "/metrics", "", "Accept-Encoding: gzip").want(t, http.StatusOK, "")
	if how := zipped.Header.Get("Content-Encoding"); how != "gzip" {
		t.Fatalf("got encoding %q, want gzip", how)
	}
	plain, err := gzip.NewReader(strings.NewReader(zipped.text))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(plain)
	if err != nil || !strings.Contains(string(text), "sluice_build_info") {
		t.Errorf("got %q, %v", text, err)
	}
}

// Requests through /proxy count under its name, and dials are measured for the
// backend: once for two requests on one connection.
func TestMetricsCountProxy(t *testing.T) {
	address := web(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	r := start(t, proxying, newPool(t, "web", address))
	for range 2 {
		r.do("GET", "/proxy/", "").want(t, http.StatusOK, "hello")
	}
	eventually(t, "both have ended", func() bool { return r.Active() == 0 })
	r.do("GET", "/pools/none/proxy/", "").want(t, http.StatusNotFound, "")
	got := r.do("GET", "/metrics", "").text
	for _, want := range []string{
		`sluice_frontend_sessions_total{cause="backend_closed",frontend="/proxy"} 2`,
		`sluice_session_seconds_count{frontend="/proxy"} 2`,
		`sluice_frontend_rejected_total{frontend="/proxy",reason="no_pool"} 1`,
		`sluice_backend_sessions_total{backend="a",pool="web"} 2`,
		`sluice_backend_dial_seconds_count{backend="a",pool="web"} 1`,
		`sluice_backend_bytes_total{backend="a",direction="to_client",pool="web"} 10`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("the scrape lacks %q:\n%s", want, got)
		}
	}
}

// A failed dial of a request is measured, and counts by its reason.
func TestMetricsCountFailedDialsOfProxy(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", l4test.Refuse(t)))
	r.do("GET", "/proxy/", "").want(t, http.StatusServiceUnavailable, "")
	got := r.do("GET", "/metrics", "").text
	for _, want := range []string{
		`sluice_backend_dial_failures_total{backend="a",pool="web",reason="refused"} 1`,
		`sluice_backend_dial_seconds_count{backend="a",pool="web"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("the scrape lacks %q:\n%s", want, got)
		}
	}
}

// A reload during a scrape can show a pool among those of the file and among
// those that leave: it is told of once.
func TestMetricsOfPoolThatMoves(t *testing.T) {
	p := newPool(t, "web", "127.0.0.1:1")
	r := start(t, proxying, p)
	r.leaving = []*pool.Pool{p}
	if n := strings.Count(r.do("GET", "/metrics", "").text, "sluice_backend_up{"); n != 1 {
		t.Errorf("got %d series of one backend, want 1", n)
	}
	if n := r.logs.Len(); n != 0 {
		t.Errorf("got %d log lines, want none: %v", n, r.logs.All())
	}
}

// The backends of a pool that was removed are told of until their last session
// has ended.
func TestMetricsOfRemovedPool(t *testing.T) {
	gone := newPool(t, "gone", "127.0.0.1:1", "127.0.0.1:2")
	r := start(t, proxying, newPool(t, "web"))
	r.leaving = []*pool.Pool{gone}
	var held pool.Lease
	if err := gone.Acquire(&held, pool.Query{}); err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, sessions := range []int{1, 0} {
		got := r.do("GET", "/metrics", "").text
		if n := strings.Count(got, `sluice_backend_sessions_active{backend="a",pool="gone"} 1`); n != sessions {
			t.Errorf("with %d sessions the backend is there %d times", sessions, n)
		}
		if strings.Contains(got, `backend="b"`) || sessions == 0 && strings.Contains(got, `"gone"`) {
			t.Errorf("with %d sessions: what is over is still there:\n%s", sessions, got)
		}
		held.Release()
	}
}

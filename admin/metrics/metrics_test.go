package metrics

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/l4"
	"sluice/l4/session"
	"sluice/pool"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

var discard = log.New(io.Discard, "", 0)

// sample is a state in which every number differs from its neighbors.
func sample() State {
	spans := pool.Durations{
		Bounds: []time.Duration{time.Millisecond, time.Second}, Counts: []int64{5, 2, 1}, Sum: 3500 * time.Millisecond,
	}
	return State{
		Process: Process{
			Version: "v1", Engine: "epoll", Generation: 7, Reloaded: time.UnixMilli(1_700_000_000_250), ReloadGood: true,
			Sessions: 11, SessionsMax: 100, LogDropped: 12, StateSaved: true, StateFailures: 13,
		},
		Frontends: []l4.Status{
			{
				Name: "web", Active: 21, AcceptErrors: 22, Redials: 23, HalfClosed: 24, Durations: spans,
				EndedBy:    map[session.Cause]int64{session.ClientClosed: 25, session.Idle: 0},
				RejectedBy: map[string]int64{"denied": 26},
			},
			{Name: "/proxy", Durations: spans, RejectedBy: map[string]int64{"off": 27}},
		},
		Pools: []pool.Status{{
			Name: "p", Eligible: 2, LookupFailures: 31, Queued: 32, Held: 27, HeldTotal: 28, HoldTimeouts: 29, Conflict: []string{"A", "B"}, Panic: true,
			Backends: []pool.BackendStatus{{
				ID: "A", Weight: 3, MaxSessions: 40, State: "up", Admin: "ready", Health: "up", Active: 41, Total: 42,
				ProbeFailures: 43, EarlyResets: 47, Empty: 48, Ejections: 49, EjectedUntil: time.UnixMilli(1), BytesToBack: 44, BytesToClient: 45, Dials: spans, FailuresBy: map[string]int64{"refused": 46},
			}},
		}},
	}
}

// text is one scrape of s, without what the process says of itself.
func text(t *testing.T, s State) string {
	t.Helper()
	w := httptest.NewRecorder()
	New(func() State { return s }, discard).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("got %d: %s", w.Code, w.Body)
	}
	var own []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "sluice_") {
			own = append(own, strings.TrimSpace(line))
		}
	}
	return strings.Join(own, "\n") + "\n"
}

func mustHave(t *testing.T, got string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("the scrape lacks %q:\n%s", want, got)
		}
	}
}

func TestEveryNumberIsWhereItBelongs(t *testing.T) {
	mustHave(t, text(t, sample()),
		`sluice_build_info{engine="epoll",version="v1"} 1`,
		`sluice_config_generation 7`,
		`sluice_config_last_reload_successful 1`,
		`sluice_config_last_reload_timestamp_seconds 1.70000000025e+09`,
		`sluice_process_sessions_active 11`,
		`sluice_process_sessions_limit 100`,
		`sluice_log_dropped_total 12`,
		`sluice_state_saved 1`,
		`sluice_state_write_failures_total 13`,
		`sluice_frontend_sessions_active{frontend="web"} 21`,
		`sluice_frontend_accept_errors_total{frontend="web"} 22`,
		`sluice_frontend_redials_total{frontend="web"} 23`,
		`sluice_frontend_half_closed{frontend="web"} 24`,
		`sluice_frontend_sessions_total{cause="client_closed",frontend="web"} 25`,
		`sluice_frontend_sessions_total{cause="idle",frontend="web"} 0`,
		`sluice_frontend_rejected_total{frontend="web",reason="denied"} 26`,
		`sluice_frontend_rejected_total{frontend="web",reason="client_rate"} 0`,
		`sluice_frontend_rejected_total{frontend="/proxy",reason="off"} 27`,
		`sluice_session_seconds_bucket{frontend="web",le="0.001"} 5`,
		`sluice_session_seconds_bucket{frontend="web",le="1"} 7`,
		`sluice_session_seconds_bucket{frontend="web",le="+Inf"} 8`,
		`sluice_session_seconds_sum{frontend="web"} 3.5`,
		`sluice_session_seconds_count{frontend="web"} 8`,
		`sluice_pool_backends_eligible{pool="p"} 2`,
		`sluice_resolve_failures_total{pool="p"} 31`,
		`sluice_pool_queue_length{pool="p"} 32`,
		`sluice_pool_held{pool="p"} 27`,
		`sluice_pool_held_total{pool="p"} 28`,
		`sluice_pool_hold_timeouts_total{pool="p"} 29`,
		`sluice_pool_conflict{pool="p"} 1`,
		`sluice_pool_panic{pool="p"} 1`,
		`sluice_backend_ejected{backend="A",pool="p"} 1`,
		`sluice_backend_ejections_total{backend="A",pool="p"} 49`,
		`sluice_backend_failed_sessions_total{backend="A",pool="p",reason="early_reset"} 47`,
		`sluice_backend_failed_sessions_total{backend="A",pool="p",reason="empty"} 48`,
		`sluice_backend_up{backend="A",pool="p"} 1`,
		`sluice_backend_draining{backend="A",pool="p"} 0`,
		`sluice_backend_weight{backend="A",pool="p"} 3`,
		`sluice_backend_sessions_limit{backend="A",pool="p"} 40`,
		`sluice_backend_sessions_active{backend="A",pool="p"} 41`,
		`sluice_backend_sessions_total{backend="A",pool="p"} 42`,
		`sluice_probe_failures_total{backend="A",pool="p"} 43`,
		`sluice_backend_bytes_total{backend="A",direction="to_backend",pool="p"} 44`,
		`sluice_backend_bytes_total{backend="A",direction="to_client",pool="p"} 45`,
		`sluice_backend_dial_failures_total{backend="A",pool="p",reason="refused"} 46`,
		`sluice_backend_dial_seconds_count{backend="A",pool="p"} 8`,
	)
}

func TestExpositionPassesTheLinter(t *testing.T) {
	problems, err := testutil.GatherAndLint(newRegistry(sample))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestUpIsAboutHealth(t *testing.T) {
	for _, c := range []struct {
		state, admin, health string
		up, draining         float64
	}{
		{"up", "ready", "up", 1, 0},
		{"up", "ready", "unknown", 1, 0},
		{"down", "ready", "down", 0, 0},
		{"down", "ready", "unknown", 0, 0}, // it waits for its first probe
		{"drain", "drain", "up", 1, 1},
		{"maint", "maint", "down", 0, 1},
		{"removing", "removing", "unknown", 1, 1},
	} {
		s := sample()
		b := &s.Pools[0].Backends[0]
		b.State, b.Admin, b.Health = c.state, c.admin, c.health
		mustHave(t, text(t, s),
			fmt.Sprintf(`sluice_backend_up{backend="A",pool="p"} %v`, c.up),
			fmt.Sprintf(`sluice_backend_draining{backend="A",pool="p"} %v`, c.draining))
	}
}

// An id that moved to another address while its old one drains would be two
// series of one name, and no scrape at all.
func TestNamesakeThatDrainsIsOneSeries(t *testing.T) {
	s := sample()
	old := s.Pools[0].Backends[0]
	old.State, old.Admin, old.Active, old.Total = "removing", "removing", 5, 1000
	s.Pools[0].Backends = append(s.Pools[0].Backends, old)
	got := text(t, s)
	mustHave(t, got,
		`sluice_backend_sessions_active{backend="A",pool="p"} 46`,
		`sluice_backend_sessions_total{backend="A",pool="p"} 42`,
		`sluice_backend_draining{backend="A",pool="p"} 0`)
	if n := strings.Count(got, "sluice_backend_sessions_active{"); n != 1 {
		t.Errorf("got %d series, want 1", n)
	}
}

func TestRemovedPoolShowsItsBackendsAlone(t *testing.T) {
	s := sample()
	s.Leaving, s.Pools = s.Pools, nil
	got := text(t, s)
	mustHave(t, got, `sluice_backend_sessions_active{backend="A",pool="p"} 41`)
	if strings.Contains(got, "sluice_pool_") {
		t.Errorf("a pool that was removed is still there:\n%s", got)
	}
}

// What one scrape reads is read once, so its numbers belong together.
func TestStateIsReadOnceAScrape(t *testing.T) {
	n := 0
	page := New(func() State { n++; return sample() }, discard)
	page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	if n != 1 {
		t.Errorf("the state was read %d times, want once", n)
	}
}

func TestScrapesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		page := New(func() State { <-hold; return sample() }, discard)
		scrape := func(codes chan<- int) {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			codes <- w.Code
		}
		slow, late := make(chan int, atOnce), make(chan int, 1)
		for range atOnce {
			go scrape(slow)
		}
		synctest.Wait()
		began := time.Now()
		go scrape(late)
		if code := <-late; code != http.StatusServiceUnavailable || time.Since(began) != patience+fairShare {
			t.Errorf("one too many got %d after %v, want 503 after %v", code, time.Since(began), patience+fairShare)
		}
		go scrape(late)
		synctest.Wait()
		close(hold)
		got := []int{<-slow, <-slow, <-late}
		if slices.Max(got) != http.StatusOK {
			t.Errorf("got %v, want 200 for all", got)
		}
	})
}

// stalled is the client of a scrape that takes nothing until its writes are to fail.
type stalled struct {
	*httptest.ResponseRecorder
	over chan struct{}
}

func (s stalled) Write([]byte) (int, error) {
	<-s.over
	return 0, os.ErrDeadlineExceeded
}

func (s stalled) SetWriteDeadline(time.Time) error {
	close(s.over)
	return nil
}

// Readers that take nothing, as many as there are turns, keep nobody out.
func TestStalledReadersDoNotKeepScrapesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := New(sample, discard)
		all := make([]stalled, atOnce)
		for i := range all {
			all[i] = stalled{httptest.NewRecorder(), make(chan struct{})}
			go page.ServeHTTP(all[i], httptest.NewRequest("GET", "/metrics", nil))
			synctest.Wait()
		}
		began, w := time.Now(), httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if took := time.Since(began); w.Code != http.StatusOK || took > patience {
			t.Errorf("got %d after %v, want 200 within %v", w.Code, took, patience)
		}
		close(all[1].over)
	})
}

// BenchmarkScrape is one scrape of a thousand backends in ten pools.
func BenchmarkScrape(b *testing.B) {
	s := sample()
	one := s.Pools[0].Backends[0]
	one.FailuresBy = map[string]int64{"refused": 1, "timeout": 2, "reset": 3, "unreachable": 4}
	one.Dials = pool.Durations{Bounds: make([]time.Duration, 15), Counts: make([]int64, 16)}
	for i := range one.Dials.Bounds {
		one.Dials.Bounds[i] = time.Duration(i+1) * time.Millisecond
	}
	s.Pools = nil
	for i := range 10 {
		p := pool.Status{Name: fmt.Sprintf("pool-%d", i)}
		for j := range 100 {
			one.ID = fmt.Sprintf("10.0.%d.%d:5432", i, j)
			p.Backends = append(p.Backends, one)
		}
		s.Pools = append(s.Pools, p)
	}
	page := New(func() State { return s }, discard)
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		size = w.Body.Len()
	}
	b.ReportMetric(float64(size), "bytes")
}

package admin

import (
	"context"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
	"sluice/pool"
)

// narrowPool is a pool of one backend for one session at a time, which another
// session holds; for one request to wait.
func narrowPool(t *testing.T, patience time.Duration) (*pool.Pool, *pool.Lease) {
	t.Helper()
	p := pool.New("web", pool.Config{
		Strategy: newStrategy(t, "round_robin"),
		Policy:   pool.Policy{QueueMax: 1, QueueFor: patience},
		Backends: []pool.Spec{{ID: "a", Address: namedWeb(t, "a"), Weight: 1, MaxSessions: 1}},
	}, pool.Hooks{})
	t.Cleanup(p.Close)
	held := new(pool.Lease)
	if err := p.Acquire(held, pool.Query{}); err != nil {
		t.Fatal(err)
	}
	return p, held
}

func awaitQueued(t *testing.T, p *pool.Pool, n int64) {
	t.Helper()
	for end := time.Now().Add(l4test.Patience); p.Status().Queued != n; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d requests are queued, want %d", p.Status().Queued, n)
		}
	}
}

// A request waits in the same queue as the sessions of its pool.
func TestRequestWaitsForAFullBackend(t *testing.T) {
	p, held := narrowPool(t, time.Hour)
	r := start(t, proxying, p)
	served := make(chan reply, 1)
	go func() { served <- r.do("GET", "/proxy/", "") }()
	awaitQueued(t, p, 1)
	r.do("GET", "/proxy/", "").want(t, 503, "every usable backend is at its session limit")
	if rec := r.record(); rec.Cause != session.BackendLimit || rec.Code != "SQ" || rec.Queue != 0 {
		t.Errorf("got %+v; want backend_limit at once", rec)
	}
	held.Release()
	(<-served).want(t, 200, "a")
	if rec := r.record(); rec.Queue <= 0 || rec.Dial < 0 || rec.Queue+rec.Dial > rec.Total || len(rec.Attempts) != 1 {
		t.Errorf("got %+v; want one that waited", rec)
	}
	if q := newStatus(t, r).Pools[0].QueuedTotal; q != 1 {
		t.Errorf("the status counts %d that waited; want 1", q)
	}
}

func TestRequestIsLateInTheQueue(t *testing.T) {
	p, held := narrowPool(t, 50*time.Millisecond)
	defer held.Release()
	r := start(t, proxying, p)
	r.do("GET", "/proxy/", "").want(t, 503, "no backend became free in time")
	if rec := r.record(); rec.Cause != session.QueueTimeout || rec.Code != "sQ" || rec.Queue < 50*time.Millisecond {
		t.Errorf("got %+v; want queue_timeout", rec)
	}
}

// A client that leaves frees its place.
func TestRequestLeavesTheQueue(t *testing.T) {
	p, held := narrowPool(t, time.Hour)
	defer held.Release()
	r := start(t, proxying, p)
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.client.Do(r.request("GET", "/proxy/", "").WithContext(ctx))
		done <- err
	}()
	awaitQueued(t, p, 1)
	leave()
	if err := <-done; err == nil {
		t.Error("the request was answered")
	}
	if rec := r.record(); rec.Cause != session.ClientLeft || rec.Code != "CQ" {
		t.Errorf("got %+v; want client_left, CQ", rec)
	}
	awaitQueued(t, p, 0)
}

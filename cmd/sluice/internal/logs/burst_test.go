package logs

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type count struct {
			n  int64
			by map[string]int64
		}
		told := make(chan count, 10)
		b := burst{lines: 3, more: func(n int64, by map[string]int64) { told <- count{n, by} }}
		allowed := 0
		storm := func(n int, key string) {
			for range n {
				if b.allow(key) {
					allowed++
				}
			}
		}
		storm(50, "web no_backend")
		storm(50, "db no_backend")
		if allowed != 3 || len(told) != 0 {
			t.Errorf("at once: got %d lines and %d counts, want 3 and none", allowed, len(told))
		}
		began := time.Now()
		c := <-told
		if took := time.Since(began); took != time.Second {
			t.Errorf("the count came after %v, want 1s", took)
		}
		if c.n != 97 || c.by["web no_backend"] != 47 || c.by["db no_backend"] != 50 {
			t.Errorf("got count %+v, want 97, of 47 and 50", c)
		}
		storm(1, "web no_backend")
		time.Sleep(time.Second)
		storm(3, "web no_backend")
		if allowed != 7 || len(told) != 0 {
			t.Errorf("a few a second: got %d lines and %d counts, want 7 and none", allowed, len(told))
		}
	})
}

func TestBurstFlush(t *testing.T) {
	var count int64
	b := burst{lines: 1, more: func(n int64, _ map[string]int64) { count = n }}
	b.flush()
	if count != 0 {
		t.Errorf("got a count of %d for nothing", count)
	}
	for range 5 {
		b.allow("x")
	}
	b.flush()
	if count != 4 {
		t.Errorf("got a count of %d, want 4", count)
	}
}

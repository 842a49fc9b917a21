package logs

import (
	"fmt"
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
		allowed := map[string]int{}
		storm := func(n int, key string) {
			for range n {
				if b.allow(key) {
					allowed[key]++
				}
			}
		}
		want := func(when string, web, db, counts int) {
			t.Helper()
			if allowed["web no_backend"] != web || allowed["db no_backend"] != db || len(told) != counts {
				t.Errorf("%s: got lines %v and %d counts, want %d, %d and %d", when, allowed, len(told), web, db, counts)
			}
			clear(allowed)
		}
		storm(50, "web no_backend")
		storm(1, "db no_backend")
		want("the first failure beside a storm", 3, 1, 0)
		storm(49, "db no_backend")
		want("two storms", 0, 2, 0)
		began := time.Now()
		c := <-told
		if took := time.Since(began); took != time.Second {
			t.Errorf("the count came after %v, want 1s", took)
		}
		if c.n != 94 || c.by["web no_backend"] != 47 || c.by["db no_backend"] != 47 {
			t.Errorf("got count %+v, want 94, of 47 and 47", c)
		}
		storm(1, "web no_backend")
		time.Sleep(time.Second)
		storm(3, "web no_backend")
		want("a few a second", 4, 0, 0)
	})
}

// What is remembered is of one second: names that are gone take no room.
func TestBurstForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := burst{lines: 3, more: func(int64, map[string]int64) {}}
		for i := range 100 {
			b.allow(fmt.Sprint(i))
		}
		time.Sleep(time.Second)
		b.allow("x")
		if len(b.sent) != 1 {
			t.Errorf("got %d keys remembered, want 1", len(b.sent))
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

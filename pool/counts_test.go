package pool_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"sluice/pool"
)

func TestFailuresAreCountedByReason(t *testing.T) {
	p := newPool(t, pool.Config{Strategy: strategy(t, "round_robin", ""), Backends: parse(t, "a")})
	for _, reason := range []string{"refused", "reset", "refused", "timeout", "unreachable", "no such word"} {
		var l pool.Lease
		if err := p.Acquire(&l, pool.Query{}); err != nil {
			t.Fatal(err)
		}
		l.Failed(reason, errors.New(reason))
	}
	b := p.Status().Backends[0]
	want := map[string]int64{"refused": 2, "reset": 1, "timeout": 1, "unreachable": 2}
	if !maps.Equal(b.FailuresBy, want) || b.DialFailures != 6 {
		t.Errorf("got %v, %d in all; want %v", b.FailuresBy, b.DialFailures, want)
	}
}

func TestDialsAreCountedByLength(t *testing.T) {
	p := newPool(t, pool.Config{Strategy: strategy(t, "round_robin", ""), Backends: parse(t, "a")})
	lease(t, p, func(l *pool.Lease) {
		l.Backend().Dialed(250 * time.Microsecond)
		l.Backend().Dialed(time.Minute)
	})
	b := p.Status().Backends[0]
	last := len(b.Dials.Bounds)
	if b.Dials.Counts[0] != 1 || b.Dials.Counts[last] != 1 || b.Dials.Sum != time.Minute+250*time.Microsecond {
		t.Errorf("got dials %+v, want one in the first and one in the last bucket", b.Dials)
	}
}

// A look-up counts in the pools that have its name, and in no other.
func TestLookupFailuresAreCountedByPool(t *testing.T) {
	p := newPool(t, pool.Config{Strategy: strategy(t, "round_robin", ""), Backends: parse(t, "a@db.test b@db.test c@10.0.0.1")})
	for _, host := range []string{"db.test", "b.test", "db", "db.test.test", "10.0.0.1"} {
		p.LookupFailed(host)
	}
	if n := p.Status().LookupFailures; n != 2 {
		t.Errorf("got %d, want 2: of db.test and 10.0.0.1", n)
	}
}

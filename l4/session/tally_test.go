package session_test

import (
	"testing"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

func TestTallyCountsCauseAndDurationAtOnce(t *testing.T) {
	var tally session.Tally
	for _, c := range []struct {
		cause session.Cause
		took  time.Duration
	}{
		{session.ClientClosed, 0},
		{session.ClientClosed, 10 * time.Millisecond}, // a bound is inclusive
		{session.Idle, 10*time.Millisecond + 1},
		{"no such word", time.Second},
		{session.Killed, 8 * 24 * time.Hour},
		{session.Denied, time.Second}, // was never a session
	} {
		tally.Add(c.cause, c.took)
	}
	want := map[session.Cause]int64{session.ClientClosed: 2, session.Idle: 1, session.LocalFault: 1, session.Killed: 1}
	by := tally.ByCause()
	for cause, n := range by {
		if n != want[cause] {
			t.Errorf("%s: got %d, want %d", cause, n, want[cause])
		}
	}
	if _, ok := by[session.Shutdown]; !ok {
		t.Error("a cause that never occurred is missing")
	}
	for _, none := range []session.Cause{"", session.Denied} {
		if _, ok := by[none]; ok {
			t.Errorf("%q is among the causes", none)
		}
	}
	d := tally.Durations()
	for i, want := range map[int]int64{0: 2, 1: 1, 4: 1, len(d.Bounds): 1} {
		if d.Counts[i] != want {
			t.Errorf("bucket %d: got %d, want %d", i, d.Counts[i], want)
		}
	}
	if want := 8*24*time.Hour + time.Second + 20*time.Millisecond + 1; d.Sum != want {
		t.Errorf("got a sum of %v, want %v", d.Sum, want)
	}
}

// A dial is measured once for each backend that answered or is to blame, and
// without the look-up before it.
func TestDialsAreMeasured(t *testing.T) {
	for _, c := range []struct {
		name, backends, network, names string
		a, b                           string // bounds of the buckets that a dial is in
	}{
		{"connected", "A B", "10.0.0.1=ok 3ms", "", "5ms", ""},
		{"refused, then connected", "A B", "10.0.0.1=refused 40ms; 10.0.0.2=ok 300us", "", "50ms", "500us"},
		{"timed out", "A B", "10.0.0.1=hang; 10.0.0.2=ok 1ms", "", "2.5s", "1ms"},
		{"looked up", "A@a.test B", "10.1.0.1=ok 3ms", "a.test=10.1.0.1 200ms", "5ms", ""},
		{"two addresses", "A@a.test B", "10.1.0.1=refused 3ms; 10.1.0.2=ok 4ms", "a.test=10.1.0.1 10.1.0.2", "10ms", ""},
		{"no address", "A@a.test B", "10.0.0.2=ok 1ms", "a.test=error", "", "1ms"},
		{"no descriptor", "A B", "10.0.0.1=nofiles", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.backends, pool0)
			fill(w.network, c.network)
			fill(w.names, c.names)
			w.start()
			w.connect()
			w.Close(w.now, source, 1)
			for i, want := range []string{c.a, c.b} {
				if got := filled(w.pool.Status().Backends[i].Dials); got != want {
					t.Errorf("backend %d: got a dial in %q, want %q", i, got, want)
				}
			}
		})
	}
}

func TestCanceledDialIsNotMeasured(t *testing.T) {
	w := newWorld(t, "A", pool0)
	w.start()
	w.Next(w.now)
	w.Gone(w.now)
	w.Close(w.now, source, 1)
	if got := filled(w.pool.Status().Backends[0].Dials); got != "" {
		t.Errorf("got a dial in %q, want none", got)
	}
}

// filled returns the bounds of the buckets that hold one; they hold no more.
func filled(d pool.Durations) (bounds string) {
	for i, n := range d.Counts {
		switch {
		case n == 1 && bounds == "":
			bounds = d.Bounds[i].String()
		case n > 0:
			bounds += " and more"
		}
	}
	if bounds == "500µs" {
		return "500us"
	}
	return bounds
}

package config

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	words := []string{"id", "name", "idle_timeout", "half_close_timeout", "max_sessions", "least_connections", "warn"}
	f := func(word, want string) {
		t.Helper()
		if got := nearest(word, words); got != want {
			t.Errorf("got %q for %q, want %q", got, word, want)
		}
	}
	f("nmae", "name")
	f("names", "name")
	f("Name", "name")
	f("idle-timeout", "idle_timeout")
	f("idletimeout", "idle_timeout")
	f("idle", "idle_timeout")
	f("halfclose_timout", "half_close_timeout")
	f("leastconn", "least_connections")
	f("warning", "warn")
	f("ip", "id")
	f("x", "")
	f("", "")
	f("interval", "")
	f(strings.Repeat("idle_timeout", 100), "")
}

func TestEdits(t *testing.T) {
	t.Parallel()
	f := func(a, b string, want int) {
		t.Helper()
		if x, y := edits(a, b), edits(b, a); x != want || y != want {
			t.Errorf("got %d and %d for %q and %q, want %d", x, y, a, b, want)
		}
	}
	f("", "", 0)
	f("", "abc", 3)
	f("abc", "abc", 0)
	f("abc", "acb", 1)
	f("abc", "abd", 1)
	f("abc", "ab", 1)
	f("kitten", "sitting", 3)
}

func TestShortDuration(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"1ms", "1s", "90ms", "1m", "1m30s", "1h", "1h30m", "8760h", "1h0m1s"} {
		d, err := parseDuration(want)
		if got := short(d); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

package health

import (
	"errors"
	"testing"

	"sluice/pool"
)

// TestJudge feeds results: "+" and "-", and U, D or ? for a health that somebody
// else sets. want has the health after each of them.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name       string
		rise, fall int
		in, want   string
	}{
		{"the first result decides", 3, 3, "+", "U"},
		{"the first failure decides", 3, 3, "-", "D"},
		{"fall", 2, 3, "U---", "UUUD"},
		{"rise", 2, 3, "D++", "DDU"},
		{"a pass ends a streak of failures", 2, 3, "U--+--+---", "UUUUUUUUUD"},
		{"a failure ends a streak of passes", 3, 3, "D++-+++", "DDDDDDU"},
		{"alternating never changes", 3, 3, "U-+-+-+-+-+", "UUUUUUUUUUU"},
		{"down again needs all of fall", 1, 2, "U--+--", "UUDUUD"},
		{"up again needs all of rise", 2, 1, "D++-++", "DDUDDU"},
		{"someone else took it out", 2, 3, "U--D++", "UUUDDU"},
		{"someone else brought it up", 2, 3, "D+U---", "DDUUUD"},
		{"passes while up do not count for later", 2, 3, "U+++++D+", "UUUUUUDD"},
		{"a zero policy is one of each", 0, 0, "+-+", "UDU"},
		{"unknown again", 3, 3, "U--?-", "UUU?D"},
	} {
		var s streak
		h, got := pool.Unknown, ""
		for _, r := range c.in {
			switch r {
			case 'U':
				h = pool.Up
			case 'D':
				h = pool.Down
			case '?':
				h = pool.Unknown
			default:
				s, h = judge(s, h, r == '+', Policy{Rise: c.rise, Fall: c.fall})
			}
			got += string("?UD"[h])
		}
		if got != c.want {
			t.Errorf("%s: %s: got %s, want %s", c.name, c.in, got, c.want)
		}
	}
}

func TestEvidence(t *testing.T) {
	err := errors.New("dial tcp a:1: connection refused")
	for _, c := range []struct {
		s    streak
		err  error
		want string
	}{
		{streak{pool.Unknown, true, 1}, nil, "first probe passed"},
		{streak{pool.Unknown, false, 1}, err, "first probe failed: dial tcp a:1: connection refused"},
		{streak{pool.Down, true, 1}, nil, "1 probe passed"},
		{streak{pool.Down, true, 2}, nil, "2 probes in a row passed"},
		{streak{pool.Up, false, 1}, err, "1 probe failed: dial tcp a:1: connection refused"},
		{streak{pool.Up, false, 3}, err, "3 probes in a row failed, the last: dial tcp a:1: connection refused"},
	} {
		if got := evidence(c.s, c.err); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

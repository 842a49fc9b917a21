package mysql

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/pool/health"
)

// logins returns when a prober that comes every second logs in, within so many
// seconds, if each login is refused in that way.
func logins(r *refusals, t health.Target, err error, within int) (at []int) {
	start := time.Unix(1_000_000, 0)
	for s := range within {
		now := start.Add(time.Duration(s) * time.Second)
		if r.recall(t, now) == nil {
			at = append(at, s)
			r.note(t, err, now)
		}
	}
	return at
}

func TestRefusals(t *testing.T) {
	target := health.Target{Address: "a:1"}
	denied := &refused{text: "denied", longest: longestDenied}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"denied":            {denied, "[0 1 2 4 8 16 32 64 124 184]"},
		"broken off":        {fmt.Errorf("log in: %w", &refused{text: "x", longest: longestBroken}), "[0 1 2 4 8 16 32 64 128]"},
		"full":              {&refused{text: "full"}, "every"},
		"a fault of no one": {errors.New("its end"), "every"},
		"good":              {nil, "every"},
	} {
		var r refusals
		got := logins(&r, target, c.err, 200)
		if c.want == "every" && len(got) == 200 {
			continue
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: got logins at %v, want %s", name, got, c.want)
		}
	}
}

// A day of a certificate that is not good stays below the default of
// max_connect_errors, and it is still looked at.
func TestRefusalsOfADay(t *testing.T) {
	var r refusals
	got := len(logins(&r, health.Target{}, &refused{longest: longestBroken}, 22*3600))
	if got < 80 || got >= 100 {
		t.Errorf("got %d logins", got)
	}
}

// What the server said is told again, and until when; a login that worked forgets
// it, and targets are apart.
func TestRefusalsAreRecalled(t *testing.T) {
	var r refusals
	a, b := health.Target{Address: "a:1"}, health.Target{Address: "b:1"}
	now := time.Unix(1_000_000, 0)
	denied := &refused{text: "denied", longest: longestDenied}
	for range unpaused {
		r.note(a, denied, now)
	}
	want := fmt.Sprintf("denied (not asked again before %s)", now.Add(firstPause).Format(time.TimeOnly))
	if got := r.recall(a, now); got == nil || got.Error() != want || !errors.Is(got, denied) {
		t.Errorf("got %v, want %s", got, want)
	}
	if got := r.recall(b, now); got != nil {
		t.Errorf("got %v for another", got)
	}
	r.note(a, errors.New("no answer"), now)
	if r.recall(a, now) == nil {
		t.Error("it is asked, though it did not let anybody in since")
	}
	r.note(a, nil, now)
	if got := r.recall(a, now); got != nil {
		t.Errorf("got %v after a good login", got)
	}
	r.note(a, denied, now)
	r.note(b, denied, now.Add(longestBroken+time.Second))
	if len(r.of) != 1 {
		t.Errorf("got %d, want those forgotten that nobody probes", len(r.of))
	}
}

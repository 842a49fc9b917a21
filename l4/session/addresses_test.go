package session_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"sluice/l4/session"
)

func TestAddressesShareTheTime(t *testing.T) {
	list := []string{"a", "b", "c", "d"}
	now := began
	end := now.Add(4 * time.Second)
	walk := session.NewAddresses(list, end)
	for _, c := range []struct {
		address string
		share   time.Duration // that it gets
		takes   time.Duration // until it fails
	}{
		{"a", time.Second, time.Second},
		{"b", time.Second, 0}, // fails at once: its second goes to the others
		{"c", 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"d", 1500 * time.Millisecond, 1500 * time.Millisecond},
	} {
		address, until, ok := walk.Next(now)
		if !ok || address != c.address || until != now.Add(c.share) {
			t.Fatalf("got %s for %v, %v; want %s for %v", address, until.Sub(now), ok, c.address, c.share)
		}
		if until.After(end) {
			t.Errorf("%s may take %v longer than there is", address, until.Sub(end))
		}
		now = now.Add(c.takes)
		if again := walk.Failed(faults["refused"]); again != (c.address != "d") {
			t.Errorf("after %s: again is %v", c.address, again)
		}
	}
	if _, _, ok := walk.Next(now); ok {
		t.Error("there is a fifth")
	}
	if !slices.Equal(list, []string{"a", "b", "c", "d"}) {
		t.Errorf("the list was changed: %v", list)
	}
}

// A walk that is out of time hands out deadlines that have passed, so that each
// dial fails at once: it must not wait for longer than the attempt has.
func TestAddressesAfterTheTime(t *testing.T) {
	walk := session.NewAddresses([]string{"a", "b"}, began)
	now := began.Add(time.Second)
	for range 2 {
		if _, until, ok := walk.Next(now); !ok || until != began {
			t.Errorf("got until %v, %v; want the end of the attempt", until, ok)
		}
	}
}

func TestTellingErrorOfAddresses(t *testing.T) {
	for _, c := range []struct {
		name   string
		errs   []string
		want   string
		walked int // addresses dialed
	}{
		{"the first that counts", []string{"timeout", "refused"}, "timeout", 2},
		{"one that counts behind one that does not", []string{"nonet", "refused"}, "refused", 2},
		{"one that counts before one that does not", []string{"refused", "nonet"}, "refused", 2},
		{"the last of those that do not count", []string{"nonet", "noport"}, "noport", 2},
		{"ours", []string{"refused", "nofiles", "refused"}, "nofiles", 2},
	} {
		walk := session.NewAddresses(c.errs, began.Add(time.Second))
		n := 0
		for {
			name, _, ok := walk.Next(began)
			if !ok {
				break
			}
			n++
			if !walk.Failed(faults[name]) {
				break
			}
		}
		if !errors.Is(walk.Err(), faults[c.want]) || n != c.walked {
			t.Errorf("%s: got %v after %d dials, want %s after %d", c.name, walk.Err(), n, c.want, c.walked)
		}
	}
}

func TestLiteral(t *testing.T) {
	for address, want := range map[string]bool{
		"10.0.0.1:80": true, "[2001:db8::1]:80": true, "[fe80::1%eth0]:80": true, "unix:/run/x.sock": true,
		"db.test:5432": false, "localhost:80": false, "10.0.0.1": false, "1.2.3:80": false, "1st.test:80": false, "[x]:80": false, "::1": false, "": false,
	} {
		if got := session.Literal(address); got != want {
			t.Errorf("%q: got %v, want %v", address, got, want)
		}
	}
}

package pool_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/pool"
)

func TestAddRefusesWhatExists(t *testing.T) {
	f := setup(t, "a b@x", pool.Policy{})
	for add, text := range map[string]string{
		"a":   `backend "a" is configured already`,
		"a@y": `backend "a" is configured already`,
		"c@x": `address x:1 (backend "b") is configured already`,
	} {
		err := f.operate("add " + add)
		if !errors.Is(err, pool.ErrExists) || err.Error() != text {
			t.Errorf("add %s: got %v, want %s", add, err, text)
		}
	}
	want(t, "table", f.table(), "a=1/0 b=1/0")
	want(t, "events", len(f.changes), 0)
}

func TestUnknownBackend(t *testing.T) {
	f := setup(t, "a", pool.Policy{})
	for _, call := range []string{"remove b", "weight b 3", "remove a; remove a", "remove a; drain a"} {
		if err := f.operate(call); !errors.Is(err, pool.ErrNotFound) || !strings.HasPrefix(err.Error(), `no such backend: "`) {
			t.Errorf("%s: got %v", call, err)
		}
	}
}

func TestPatchTakesEffectAtOnce(t *testing.T) {
	f := setup(t, "a b", pool.Policy{})
	for _, c := range []struct{ call, picks string }{
		{"drain a", "b b"},
		{"maint b; ready a", "a a"},
		{"ready b; weight a 0", "b b"},
		{"weight a 3; weight b 1", "a a b a"},
		{"weight b 3", "a b a b"},
	} {
		if err := f.operate(c.call); err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(picks(t, f.Pool, len(strings.Fields(c.picks))))
		for _, id := range []string{"a", "b"} {
			if strings.Count(c.picks, id) != strings.Count(strings.Join(got, ""), id) {
				t.Errorf("%s: got %v, want the shares of %s", c.call, got, c.picks)
			}
		}
	}
}

func TestRemovingBackendIsShownUntilItsLastSession(t *testing.T) {
	f := setup(t, "a b", pool.Policy{})
	held := hold(t, f.Pool, 3) // a b a
	f.operate("add c; remove a")
	want(t, "table", f.table(), "b=1/0 c=1/0+ a=1/0:removing")
	want(t, "state", row(t, f.Pool, "a").State, "removing")
	want(t, "picks", strings.Count(picks(t, f.Pool, 100), "a"), 0)
	held[0].Release()
	want(t, "active", row(t, f.Pool, "a").Active, 1)
	held[2].Release()
	want(t, "table", f.table(), "b=1/0 c=1/0+")
	want(t, "events", f.story("a"), "up->removing: removed by the API; removing->removed: its last session ended")
}

// B084: the counter of a backend that is removed and added again goes on.
func TestAddContinuesWhatIsDraining(t *testing.T) {
	f := setup(t, "b", pool.Policy{})
	f.operate("add a")
	var held []*pool.Lease
	for range 100 {
		held = append(held, leaseOf(t, f.Pool, "a"))
	}
	f.operate("remove a; add a")
	want(t, "active", row(t, f.Pool, "a").Active, 100)
	f.SetStrategy(strategy(t, "least_connections", "first"))
	want(t, "picks of the least busy", strings.Count(picks(t, f.Pool, 50), "b"), 50)
	for _, l := range held {
		l.Release()
	}
	want(t, "active", row(t, f.Pool, "a").Active, 0)
	want(t, "events", f.story("a"), "->up: added by the API; up->removing: removed by the API; removing->up: added by the API")
}

// What the API took out of the file is to be seen, and comes back by the API.
func TestDeletedEntriesOfTheFileAreShown(t *testing.T) {
	f := setup(t, "a b", pool.Policy{})
	f.operate("add c; remove c; remove b; remove a")
	want(t, "deleted", strings.Join(f.Status().DeletedByAPI, " "), "a b")
	f.operate("add a")
	want(t, "deleted", strings.Join(f.Status().DeletedByAPI, " "), "b")
}

func TestAddRefusesAnAddressHoweverItIsWritten(t *testing.T) {
	f := setup(t, "", pool.Policy{})
	if err := f.Add(pool.Spec{ID: "a", Address: "[::1]:3", Weight: 1}); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(pool.Spec{ID: "b", Address: "[0:0::1]:3", Weight: 1}); !errors.Is(err, pool.ErrExists) {
		t.Errorf("got %v, want %v", err, pool.ErrExists)
	}
}

// story returns the events of a backend.
func (f *fixture) story(id string) string {
	var lines []string
	for _, c := range f.changes {
		if c.Backend == id {
			lines = append(lines, fmt.Sprintf("%s->%s: %s", c.From, c.To, c.Reason))
		}
	}
	return strings.Join(lines, "; ")
}

func TestEventsOfAdminState(t *testing.T) {
	f := setup(t, "a b", pool.Policy{Probed: true})
	f.operate("drain a; drain a; maint a; ready a; remove a; add a")
	want(t, "events", f.story("a"), "up->drain: set to drain by the API; drain->maint: set to maint by the API; "+
		"maint->up: set to ready by the API; up->removed: removed by the API; ->up: added again by the API")
	want(t, "calls of Members", f.members, 4) // maint, ready, remove, add
	if c := f.changes[0]; c.Pool != "p" || c.Address != "a:1" || c.At.IsZero() || row(t, f.Pool, "a").LastChange.At.IsZero() {
		t.Errorf("got %+v", c)
	}
	want(t, "last change", row(t, f.Pool, "b").LastChange.Reason, "configured in the file")
}

func TestHealthIsKeptInMaint(t *testing.T) {
	f := setup(t, "a b", pool.Policy{Probed: true})
	a := backend(t, f.Pool, "a")
	f.SetHealth(a, pool.Down, "x")
	f.operate("maint a")
	want(t, "probed", len(f.Probed()), 1)
	r := row(t, f.Pool, "a")
	want(t, "state, admin, health", r.State+" "+r.Admin+" "+r.Health, "maint maint down")
	f.operate("ready a")
	want(t, "probed", len(f.Probed()), 2)
	want(t, "state", row(t, f.Pool, "a").State, "down")
}

func TestCloseRemovesAndForgets(t *testing.T) {
	f := setup(t, "a b", pool.Policy{Probed: true})
	l := leaseOf(t, f.Pool, "b")
	f.operate("remove a; add c")
	f.Close()
	want(t, "table", f.table(), "b=1/0:removing")
	want(t, "probed", len(f.Probed()), 0)
	want(t, "b", f.story("b"), "up->removing: the pool was removed")
	want(t, "c", f.story("c"), "->up: added by the API; up->removed: the pool was removed")
	var none pool.Lease
	if err := f.Acquire(&none, pool.Query{}); err != pool.ErrNoBackend {
		t.Errorf("got %v, want ErrNoBackend", err)
	}
	want(t, "changes", f.apply("a", pool.Policy{Probed: true}), "backend a added (a:1)")
	l.Release()
	want(t, "table", f.table(), "a=1/0")
}

// Hooks may call the pool, and hear of what they cause after it.
func TestHooksMayCallThePool(t *testing.T) {
	var p *pool.Pool
	var story []string
	p = pool.New("p", config(t, "a b", pool.Policy{}), pool.Hooks{Changed: func(c pool.Change) {
		story = append(story, c.Backend+" "+c.To)
		if c.Backend == "a" {
			p.Status()
			p.Remove("b")
			story = append(story, "b was removed")
		}
	}})
	t.Cleanup(p.Close)
	p.Remove("a")
	want(t, "story", strings.Join(story, "; "), "a removed; b was removed; b removed")
}

package pool_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pool"
)

// restart returns a pool of a new process that reads the file text, and what it
// says of the changes that do not stand.
func (f *fixture) restart(text string, pol pool.Policy) (reborn *fixture, lines string) {
	f.t.Helper()
	reborn = &fixture{t: f.t}
	var edits []pool.Edit
	reborn.Pool, edits = pool.Restore("p", config(f.t, text, pol), f.Overrides(), pool.Hooks{
		Changed: func(c pool.Change) { reborn.changes = append(reborn.changes, c) },
	})
	f.t.Cleanup(reborn.Close)
	return reborn, strings.ReplaceAll(words(edits), "pool p: ", "")
}

// B126: what an operator set stands after a restart as after a reload, until the
// file's own value changes.
func TestRestartIsAReload(t *testing.T) {
	for _, c := range []struct{ file, calls, now, table, lines string }{
		{"a b", "weight a 5; limit b 7; drain b", "a b", "a=5/0[weight] b=1/7:drain[max_sessions state]", ""},
		{"a b", "weight a 5", "a=2 b", "a=2/0 b=1/0", "backend a weight 5 (set by the API) -> 2"},
		{"a b", "weight a 5; limit a 3", "a=1/4 b", "a=5/4[weight] b=1/0", "backend a max_sessions 3 (set by the API) -> 4"},
		{"a b", "weight a 5", "a=5 b", "a=5/0 b=1/0", "backend a weight 5 (set by the API) -> 5"},
		{"a b", "maint a", "a=2 b", "a=2/0:maint[state] b=1/0", ""},
		{"a b", "weight a 5", "a=1/9 b", "a=5/9[weight] b=1/0", ""},
		{"a b", "remove a; add c=3", "a b", "b=1/0 c=3/0+", ""},
		{"a b", "remove a", "a=2 b", "b=1/0 a=2/0", "backend a added (a:1)"},
		{"a b", "remove a", "b", "b=1/0", "backend a removed (a:1), as the API had done already"},
		{"a b", "remove a; add a=2", "a b", "a=2/0[weight] b=1/0", ""},
		{"a b", "weight a 5", "b", "b=1/0", "backend a removed (a:1), and what the API had set of it is forgotten"},
		{"a b", "drain a", "a@x b", "a=1/0 b=1/0", "backend a removed (a:1), and what the API had set of it is forgotten"},
		{"a b", "add c; drain c", "a b", "a=1/0 b=1/0 c=1/0+:drain[state]", ""},
		{"a b", "add c=2; drain c", "a c=3 b", "a=1/0 c=3/0:drain[state] b=1/0",
			"backend c origin api -> config; backend c weight 2 -> 3"},
		{"a b", "add c", "a b d@c", "a=1/0 b=1/0 d=1/0", "backend c removed (c:1), since the file now has the id or address of what the API added"},
		{"a b", "add c", "a b c@d", "a=1/0 b=1/0 c=1/0", "backend c removed (c:1), since the file now has the id or address of what the API added"},
		{"a b", "remove a; add a@x", "a b", "b=1/0 a=1/0+", ""},
		{"a b", "remove a; add a@x", "a@x b", "b=1/0 a=1/0", "backend a origin api -> config"},
		{"a b", "remove a; add z@a", "a=2 b", "b=1/0 a=2/0",
			"backend z removed (a:1), since the file now has the id or address of what the API added; backend a added (a:1)"},
		{"a b", "", "b a c", "b=1/0 a=1/0 c=1/0", ""},
		{"a b", "add z; weight b 5", "c b a", "c=1/0 b=5/0[weight] a=1/0 z=1/0+", ""},
	} {
		f := setup(t, c.file, pool.Policy{})
		if c.calls != "" {
			f.operate(c.calls)
		}
		reborn, lines := f.restart(c.now, pool.Policy{})
		if table := reborn.table(); table != c.table || lines != c.lines {
			t.Errorf("%s, %q, restart with %s:\n got %s | %s\nwant %s | %s", c.file, c.calls, c.now, table, lines, c.table, c.lines)
		}
		want(t, "events of the start", len(reborn.changes), 0)
	}
}

func TestRestartKeepsTheStrategy(t *testing.T) {
	f := setup(t, "a", pool.Policy{})
	f.SetStrategy(strategy(t, "least_connections", "rotate"))
	reborn, lines := f.restart("a", pool.Policy{})
	want(t, "strategy", reborn.Status().Strategy+" "+reborn.Status().StrategyOrigin+lines, "least_connections api")

	c := config(t, "a", pool.Policy{})
	c.Strategy = strategy(t, "least_connections", "first")
	p, changes := pool.Restore("p", c, f.Overrides(), pool.Hooks{})
	t.Cleanup(p.Close)
	want(t, "strategy", p.Status().Strategy+" "+p.Status().StrategyOrigin, "least_connections config")
	want(t, "lines", words(changes),
		"pool p: strategy least_connections (ties rotate) (set by the API) -> least_connections (ties first)")
}

// A backend that is kept out takes no session of the new process, not even the
// first.
func TestRestartTakesEffectAtOnce(t *testing.T) {
	f := setup(t, "a b", pool.Policy{})
	f.operate("maint a; add c; weight b 0")
	reborn, _ := f.restart("a b", pool.Policy{Probed: true})
	want(t, "picks", picks(t, reborn.Pool, 3), "c c c")
	want(t, "probed", len(reborn.Probed()), 2)
	want(t, "reason", row(t, reborn.Pool, "a").LastChange.Reason, "set to maint by the API before a restart")
	want(t, "reason", row(t, reborn.Pool, "c").LastChange.Reason, "added by the API before a restart")
}

func TestForget(t *testing.T) {
	for _, c := range []struct{ calls, id, table, undone string }{
		{"weight a 5; limit a 3; drain b", "", "a=1/0 b=1/0", "backend a weight is 1 in the file, and runs as 5; backend a max_sessions is 0 in the file, and runs as 3; backend b state is ready in the file, and runs as drain"},
		{"weight a 5; drain b", "a", "a=1/0 b=1/0:drain[state]", "backend a weight is 1 in the file, and runs as 5"},
		{"weight a 5; drain b", "b", "a=5/0[weight] b=1/0", "backend b state is ready in the file, and runs as drain"},
		{"add c=2; drain c", "", "a=1/0 b=1/0", "backend c is not in the file, and runs (c:1, weight 2, max_sessions 0, drain)"},
		{"remove a", "a", "b=1/0 a=1/0", "backend a is in the file (a:1, weight 1, max_sessions 0), and was removed"},
		{"remove a; remove b", "", "a=1/0 b=1/0", "backend a is in the file (a:1, weight 1, max_sessions 0), and was removed; backend b is in the file (b:1, weight 1, max_sessions 0), and was removed"},
		{"remove a; add a@x", "a", "b=1/0 a=1/0", "backend a is not in the file, and runs (x:1, weight 1, max_sessions 0, ready); backend a is in the file (a:1, weight 1, max_sessions 0), and was removed"},
		{"remove a; add z@a", "a", "b=1/0 a=1/0", "backend a is in the file (a:1, weight 1, max_sessions 0), and was removed; backend z is not in the file, and runs (a:1, weight 1, max_sessions 0, ready)"},
		{"", "", "a=1/0 b=1/0", ""},
		{"", "a", "a=1/0 b=1/0", ""},
	} {
		f := setup(t, "a b", pool.Policy{})
		if c.calls != "" {
			f.operate(c.calls)
		}
		undone, err := f.Forget(c.id)
		if text := listed(undone); f.table() != c.table || text != c.undone || err != nil {
			t.Errorf("%q, forget %q:\n got %s | %s, %v\nwant %s | %s", c.calls, c.id, f.table(), text, err, c.table, c.undone)
		}
		if left := f.Differences(); c.id == "" && (len(left) > 0 || !f.Overrides().Empty()) {
			t.Errorf("%q: still differs by %s", c.calls, listed(left))
		}
	}
	f := setup(t, "a", pool.Policy{})
	f.SetStrategy(strategy(t, "least_connections", ""))
	undone, err := f.Forget("")
	want(t, "undone", listed(undone)+fmt.Sprint(err), "strategy is round_robin in the file, and runs as least_connections<nil>")
	want(t, "origin", f.Status().StrategyOrigin, "config")
	if _, err := f.Forget("b"); err == nil {
		t.Error("a backend that there is not was forgotten")
	}
}

// What is forgotten leaves as anything else that is removed.
func TestForgottenBackendKeepsItsSessions(t *testing.T) {
	f := setup(t, "a", pool.Policy{})
	f.operate("add b")
	l := leaseOf(t, f.Pool, "b")
	f.Forget("")
	want(t, "table", f.table(), "a=1/0 b=1/0+:removing")
	l.Release()
	want(t, "table", f.table(), "a=1/0")
	want(t, "events", f.story("b"), "->up: added by the API; up->removing: forgotten by the API; removing->removed: its last session ended")
}

func listed(ds []pool.Difference) string {
	var words []string
	for _, d := range ds {
		if d.Pool != "p" || d.Origin != "api" || d.Since.IsZero() {
			words = append(words, "INCOMPLETE")
		}
		words = append(words, d.String())
	}
	return strings.Join(words, "; ")
}

// The time of a change by the API is that of the change, across restarts, and a
// call that changes nothing is none.
func TestSinceIsKept(t *testing.T) {
	f := setup(t, "a b", pool.Policy{})
	f.operate("weight a 5; add c; remove b; drain a")
	before := f.Overrides()
	time.Sleep(2 * time.Millisecond) // so that a new time would be another
	f.operate("weight a 5; drain a")
	reborn, _ := f.restart("a b", pool.Policy{})
	if after := reborn.Overrides(); !reflect.DeepEqual(after, before) {
		t.Errorf("got  %+v\nwant %+v", after, before)
	}
}

// Random changes by the API, reloads and restarts end where they would have
// without the restarts; the files may change while the process is down.
func TestRestartsChangeNothing(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 7))
		lasting, reborn := setup(t, "a b", pool.Policy{}), setup(t, "a b", pool.Policy{})
		var story []string
		for range 20 {
			var what string
			c := config(t, randomFile(rng), pool.Policy{})
			c.Strategy = everyStrategy(t)[rng.IntN(len(everyStrategy(t)))]
			switch rng.IntN(8) {
			case 0, 1:
				what = fmt.Sprint("reload ", c.Backends, title(c.Strategy))
				lasting.Apply(c)
				reborn.Apply(c)
			case 2, 3:
				what = fmt.Sprint("restart ", c.Backends, title(c.Strategy))
				lasting.Apply(c)
				p, _ := pool.Restore("p", c, reborn.Overrides(), pool.Hooks{})
				t.Cleanup(p.Close)
				reborn.Pool = p
			case 4:
				what = "strategy " + title(c.Strategy)
				lasting.SetStrategy(c.Strategy)
				reborn.SetStrategy(c.Strategy)
			default:
				what = randomCall(rng)
				was, is := lasting.operate(what), reborn.operate(what)
				if fmt.Sprint(was) != fmt.Sprint(is) {
					what += fmt.Sprintf(": %v but %v", was, is)
				}
			}
			story = append(story, what)
			if a, b := essence(lasting.Pool), essence(reborn.Pool); a != b {
				t.Fatalf("seed %d:\n%s\nwithout restarts: %s\nwith restarts:    %s", seed, strings.Join(story, "\n"), a, b)
			}
		}
	}
}

// randomFile has each of four ids at times, mostly at its own address and with
// the values that it mostly has.
func randomFile(rng *rand.Rand) string {
	var entries []string
	hosts := []int{0, 1, 2, 3, 4}
	if rng.IntN(3) == 0 {
		hosts = rng.Perm(5)
	}
	for _, i := range rng.Perm(4) {
		if rng.IntN(4) == 0 {
			continue
		}
		weight, limit := 1, 0
		if rng.IntN(3) == 0 {
			weight, limit = rng.IntN(3), rng.IntN(2)
		}
		entries = append(entries, fmt.Sprintf("%c@%c=%d/%d", 'a'+i, 'a'+hosts[i], weight, limit))
	}
	return strings.Join(entries, " ")
}

func randomCall(rng *rand.Rand) string {
	id := 'a' + rng.IntN(5)
	switch rng.IntN(5) {
	case 0:
		return fmt.Sprintf("add %c@%c=%d", id, 'a'+rng.IntN(5), rng.IntN(3))
	case 1:
		return fmt.Sprintf("remove %c", id)
	case 2:
		return fmt.Sprintf("weight %c %d", id, rng.IntN(3))
	case 3:
		return fmt.Sprintf("limit %c %d", id, rng.IntN(2))
	}
	return fmt.Sprintf("%s %c", []string{"ready", "drain", "maint"}[rng.IntN(3)], id)
}

// essence is what a restart must not change, whatever the order of registration.
func essence(p *pool.Pool) string {
	s := p.Status()
	var lines []string
	for _, b := range s.Backends {
		lines = append(lines, fmt.Sprint(b.ID, "@", b.Address, "=", b.Weight, "/", b.MaxSessions, b.State, b.Origin, b.Overridden))
	}
	for _, d := range p.Differences() {
		lines = append(lines, fmt.Sprint(d.Backend, d.Key, d.File, d.Running))
	}
	o := p.Overrides()
	for _, d := range o.Deleted {
		lines = append(lines, fmt.Sprint("deleted ", d.Spec))
	}
	if o.Strategy != nil {
		lines = append(lines, title(o.Strategy.InForce)+" over "+title(o.Strategy.File))
	}
	slices.Sort(lines)
	return fmt.Sprint(s.Strategy, s.StrategyOrigin, s.DeletedByAPI, lines)
}

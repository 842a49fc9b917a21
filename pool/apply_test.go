package pool_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// apply makes text the file's backends and returns the changes, without their
// common prefix.
func (f *fixture) apply(text string, pol pool.Policy) string {
	f.t.Helper()
	c := config(f.t, text, pol)
	foreseen := words(f.Compare(c))
	changes := words(f.Apply(c))
	want(f.t, "what Compare foresaw", foreseen, changes)
	return strings.ReplaceAll(changes, "pool p: ", "")
}

// words joins the lines of edits.
func words(edits []pool.Edit) string {
	var lines []string
	for _, e := range edits {
		lines = append(lines, e.Lines()...)
	}
	return strings.Join(lines, "; ")
}

// table returns the membership: id, weight/limit and what is special about it.
func (f *fixture) table() string {
	var words []string
	for _, b := range f.Status().Backends {
		w := fmt.Sprintf("%s=%d/%d", b.ID, b.Weight, b.MaxSessions)
		if b.Origin == "api" {
			w += "+"
		}
		if b.Admin != "ready" {
			w += ":" + b.Admin
		}
		if len(b.Overridden) > 0 {
			w += fmt.Sprint(b.Overridden)
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

// operate runs API calls: "add b=2/5", "remove a", "weight a 3", "limit a 3",
// "drain a", "maint a", "ready a".
func (f *fixture) operate(calls string) (err error) {
	f.t.Helper()
	for call := range strings.SplitSeq(calls, "; ") {
		word := strings.Fields(call)
		n := 0
		if len(word) == 3 {
			fmt.Sscan(word[2], &n)
		}
		switch word[0] {
		case "add":
			err = f.Add(parse(f.t, word[1])[0])
		case "remove":
			err = f.Remove(word[1])
		case "weight":
			err = f.Patch(word[1], pool.Patch{Weight: &n})
		case "limit":
			err = f.Patch(word[1], pool.Patch{MaxSessions: &n})
		default:
			state := map[string]pool.Admin{"ready": pool.Ready, "drain": pool.Drain, "maint": pool.Maint}[word[0]]
			err = f.Patch(word[1], pool.Patch{Admin: &state})
		}
	}
	return err
}

// TestFileAgainstAPI is the table of the rules between the two: file, what the
// API does, the next file, and what becomes of it.
func TestFileAgainstAPI(t *testing.T) {
	for _, c := range []struct{ name, file, api, next, table, changes string }{
		{"nothing changed", "a b", "", "a b", "a=1/0 b=1/0", ""},
		{"only the order changed", "a b", "", "b a", "a=1/0 b=1/0", ""},
		{"added", "a", "", "b a c", "a=1/0 b=1/0 c=1/0", "backend b added (b:1); backend c added (c:1)"},
		{"removed", "a b", "", "b", "b=1/0", "backend a removed (a:1)"},
		{"weight", "a", "", "a=3", "a=3/0", "backend a weight 1 -> 3"},
		{"limit", "a", "", "a=1/9", "a=1/9", "backend a max_sessions 0 -> 9"},
		{"address", "a b", "", "a@x b", "b=1/0 a=1/0", "backend a removed (a:1); backend a added (x:1)"},
		{"renamed", "a", "", "b@a", "b=1/0", "backend a removed (a:1); backend b added (a:1)"},
		{"swapped", "a@x b@y", "", "a@y b@x", "a=1/0 b=1/0",
			"backend a removed (x:1); backend b removed (y:1); backend a added (y:1); backend b added (x:1)"},

		{"override stands", "a", "weight a 5; limit a 2", "a b", "a=5/2[weight max_sessions] b=1/0", "backend b added (b:1)"},
		{"override of another key stands", "a", "weight a 5", "a=1/9", "a=5/9[weight]", "backend a max_sessions 0 -> 9"},
		{"override ends", "a", "weight a 5", "a=3", "a=3/0", "backend a weight 5 (set by the API) -> 3"},
		{"override taken over", "a", "weight a 5", "a=5", "a=5/0", "backend a weight 5 (set by the API) -> 5"},
		{"override taken back", "a", "weight a 5; weight a 1", "a", "a=1/0", ""},
		{"state stands", "a b", "maint a; drain b", "a=3 b", "a=3/0:maint[state] b=1/0:drain[state]", "backend a weight 1 -> 3"},
		{"state ends with its backend", "a b", "maint a", "a@x b", "b=1/0 a=1/0", "backend a removed (a:1); backend a added (x:1)"},

		{"delete is remembered", "a b", "remove a", "a b", "b=1/0", ""},
		{"delete is remembered beside changes", "a b", "remove a", "a b c", "b=1/0 c=1/0", "backend c added (c:1)"},
		{"delete ends with a change", "a b", "remove a", "a=2 b", "b=1/0 a=2/0", "backend a added (a:1)"},
		{"delete ends with the entry", "a b", "remove a", "b", "b=1/0", "backend a removed (a:1), as the API had done already"},
		{"deleted and added again", "a b", "remove a; add a", "a b", "b=1/0 a=1/0", ""},
		{"deleted and added with a value", "a b", "remove a; add a=4", "a b", "b=1/0 a=4/0[weight]", ""},
		{"deleted, another in its place", "a b", "remove a; add a@x", "a b", "b=1/0 a=1/0+", ""},
		{"deleted, another in its place, changed", "a b", "remove a; add a@x", "a=2 b", "b=1/0 a=2/0",
			"backend a removed (x:1), since the file now has the id or address of what the API added; backend a added (a:1)"},

		{"added stays", "a", "add b=2/7", "a=3", "a=3/0 b=2/7+", "backend a weight 1 -> 3"},
		{"added and changed stays", "a", "add b; weight b 9; drain b", "a", "a=1/0 b=9/0+:drain[state]", ""},
		{"added and removed leaves nothing", "a", "add b; remove b", "a b", "a=1/0 b=1/0", "backend b added (b:1)"},
		{"adopted", "a", "add b", "a b", "a=1/0 b=1/0", "backend b origin api -> config"},
		{"adopted with the file's values", "a", "add b=2/7; drain b", "a b=3", "a=1/0 b=3/0:drain[state]",
			"backend b origin api -> config; backend b weight 2 -> 3; backend b max_sessions 7 -> 0"},
		{"same id, other address", "a", "add b@x", "a b", "a=1/0 b=1/0",
			"backend b removed (x:1), since the file now has the id or address of what the API added; backend b added (b:1)"},
		{"same address, other id", "a", "add c@b", "a b", "a=1/0 b=1/0",
			"backend c removed (b:1), since the file now has the id or address of what the API added; backend b added (b:1)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t, c.file, pool.Policy{})
			if c.api != "" {
				if err := f.operate(c.api); err != nil {
					t.Fatal(err)
				}
			}
			before := f.table()
			want(t, "changes", f.apply(c.next, pool.Policy{}), c.changes)
			want(t, "table", f.table(), c.table)
			want(t, "changes of a second time", f.apply(c.next, pool.Policy{}), "")
			want(t, "table of a second time", f.table(), c.table)
			if c.changes == "" {
				want(t, "table before and after no change", f.table(), before)
			}
		})
	}
}

func TestStrategyOfFileAndAPI(t *testing.T) {
	f := setup(t, "a", pool.Policy{})
	leastOf := func(ties string) pool.Strategy { return strategy(t, "least_connections", ties) }
	next := func(s pool.Strategy) string {
		return words(f.Apply(pool.Config{Strategy: s, Backends: parse(t, "a")}))
	}
	want(t, "the file's", next(leastOf("rotate")), "pool p: strategy round_robin -> least_connections (ties rotate)")
	f.SetStrategy(strategy(t, "round_robin", ""))
	want(t, "no change", next(leastOf("rotate")), "")
	want(t, "the API's stands", f.Status().Strategy, "round_robin")
	want(t, "another key", next(leastOf("first")), "pool p: ties rotate -> first")
	want(t, "the API's still stands", f.Status().Strategy, "round_robin")
	want(t, "the file's wins", next(strategy(t, "round_robin", "")), "pool p: strategy round_robin (set by the API) -> round_robin")
	want(t, "origin", f.Status().StrategyOrigin, "config")
}

func TestIdenticalFileChangesNothing(t *testing.T) {
	f := setup(t, "a=3 b=2", pool.Policy{MaxFailures: 3})
	for range 50 {
		want(t, "changes", f.apply("a=3 b=2", pool.Policy{MaxFailures: 3}), "")
	}
	want(t, "events", len(f.changes), 0)
	want(t, "calls of Members", f.members, 0)
}

func TestPolicyChangesAreNamed(t *testing.T) {
	f := setup(t, "", pool.Policy{})
	got := f.apply("", pool.Policy{MaxFailures: 3, RetryAfter: time.Minute, TryAll: true, Probed: true, Init: pool.InitDown})
	want(t, "changes", got, "max_failures 0 -> 3; retry_after 0s -> 1m0s; all_down refuse -> try; active probes off -> on; init up -> down")
	want(t, "changes", f.apply("", pool.Policy{}), "max_failures 3 -> 0; retry_after 1m0s -> 0s; all_down try -> refuse; active probes on -> off; init down -> up")
}

func TestIdentitySurvivesApply(t *testing.T) {
	f := setup(t, "a b", pool.Policy{MaxFailures: 1, RetryAfter: time.Hour})
	l := leaseOf(t, f.Pool, "a")
	a := l.Backend()
	l.Connected()
	defer l.Release()
	leaseOf(t, f.Pool, "b").Failed("refused", errDial)
	before := row(t, f.Pool, "b")
	f.apply("a=5 b=2/9 c", pool.Policy{MaxFailures: 1, RetryAfter: time.Hour})
	if b := backend(t, f.Pool, "a"); b != a {
		t.Errorf("a is another backend after Apply")
	}
	want(t, "active of a", row(t, f.Pool, "a").Active, 1)
	want(t, "total of a", row(t, f.Pool, "a").Total, 1)
	after := row(t, f.Pool, "b")
	want(t, "health of b", after.Health, "down")
	want(t, "last change of b", after.LastChange, before.LastChange)
	want(t, "picks", picks(t, f.Pool, 1) != "b", true)

	f.apply("a@x b c", pool.Policy{MaxFailures: 1, RetryAfter: time.Hour})
	if b := backend(t, f.Pool, "a"); b == a {
		t.Errorf("the same id with another address is the same backend")
	}
}

// Removing or losing a backend never skips or repeats another.
func TestRotationOverChanges(t *testing.T) {
	f := setup(t, "a b c d", pool.Policy{})
	got := picks(t, f.Pool, 2)
	f.operate("remove b")
	got += " " + picks(t, f.Pool, 2)
	f.operate("add e")
	got += " " + picks(t, f.Pool, 4)
	f.operate("drain c")
	got += " " + picks(t, f.Pool, 1)
	f.operate("ready c")
	got += " " + picks(t, f.Pool, 2)
	f.apply("d a b c", pool.Policy{}) // b was deleted by the API, so no change
	got += " " + picks(t, f.Pool, 1)
	want(t, "picks", got, "a b c d e a c d e a c d")
}

func TestRemovedIdentityIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "a b", pool.Policy{})
		total := func() int64 { return row(t, f.Pool, "a").Total }
		session := func() *pool.Lease {
			l := leaseOf(t, f.Pool, "a")
			l.Connected()
			return l
		}
		session().Release()
		f.apply("b", pool.Policy{})
		time.Sleep(9 * time.Minute)
		f.apply("a b", pool.Policy{})
		want(t, "total after 9 minutes", total(), 1)

		l := session()
		f.apply("b", pool.Policy{})
		time.Sleep(time.Hour)
		f.apply("b c", pool.Policy{})
		want(t, "total while draining for an hour", total(), 2)
		f.apply("a b c", pool.Policy{})
		want(t, "total after an hour with a session", total(), 2)
		want(t, "active after an hour with a session", row(t, f.Pool, "a").Active, 1)
		l.Release()

		f.apply("b", pool.Policy{})
		time.Sleep(11 * time.Minute)
		f.apply("b c", pool.Policy{})
		f.apply("a b c", pool.Policy{})
		want(t, "total after 11 minutes", total(), 0)
	})
}

// Compare says what Apply will do to whom, and does nothing itself.
func TestCompareChangesNothing(t *testing.T) {
	f := setup(t, "a b c", pool.Policy{})
	for _, id := range []string{"a", "b", "b"} {
		l := leaseOf(t, f.Pool, id)
		l.Connected()
		defer l.Release()
	}
	if err := f.operate("add d=2; remove c; weight a 7"); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(f.Status())
	for _, c := range []struct {
		policy pool.Policy
		fate   string
	}{
		{pool.Policy{}, "drain, as long as they last"},
		{pool.Policy{DrainFor: 3 * time.Second}, "drain, for 3s at most"},
		{pool.Policy{CloseGone: true, DrainFor: 3 * time.Second}, "are closed"},
	} {
		edits := f.Compare(config(t, "a=3 c@x d=2", c.policy))
		sessions := map[string]string{}
		for _, e := range edits {
			sessions[e.Kind+" "+e.Name+" "+e.Change] = fmt.Sprint(e.Sessions, ", ", e.Fate)
		}
		want(t, "a", sessions["backend a altered"], "1, stay")
		want(t, "b", sessions["backend b removed"], "2, "+c.fate)
		want(t, "c", sessions["backend c added"], "0, ")
		want(t, "d", sessions["backend d altered"], "0, ")
	}
	want(t, "edits", words(f.Compare(config(t, "a=3 c@x d=2", pool.Policy{}))),
		"pool p: backend b removed (b:1); pool p: backend a weight 7 (set by the API) -> 3; "+
			"pool p: backend c added (x:1); pool p: backend d origin api -> config")
	want(t, "status", fmt.Sprint(f.Status()), before)
	want(t, "a second comparison", len(f.Compare(config(t, "a b c", pool.Policy{}))), 0)
}

package pool_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// named gives a configuration what was found under n.test: backends whose id
// begins with "n/".
func named(t testing.TB, text string) pool.Config {
	c := config(t, text, pool.Policy{})
	c.Names = []string{"n.test"}
	for i, s := range c.Backends {
		if strings.HasPrefix(s.ID, "n/") {
			c.Backends[i].Name = "n.test"
		}
	}
	return c
}

// restartNamed is restart with what was found.
func (f *fixture) restartNamed(text string) *fixture {
	f.t.Helper()
	reborn := &fixture{t: f.t}
	reborn.Pool, _ = pool.Restore("p", named(f.t, text), f.Overrides(), pool.Hooks{})
	f.t.Cleanup(reborn.Close)
	return reborn
}

func setupNamed(t *testing.T, text string) *fixture {
	f := setup(t, "", pool.Policy{})
	f.Apply(named(t, text))
	return f
}

// What the API changed of a found backend stands when it comes back, for ten
// minutes; a value that the name changed meanwhile wins.
func TestFoundBackendComesBack(t *testing.T) {
	for _, c := range []struct {
		calls  string
		absent time.Duration
		back   string
		want   string
	}{
		{"weight n/a 5; drain n/a; limit n/a 3", 9 * time.Minute, "n/a b", "b=1/0 n/a=5/3:drain[weight max_sessions state]"},
		{"weight n/a 5; drain n/a", 11 * time.Minute, "n/a b", "b=1/0 n/a=1/0"},
		{"weight n/a 5; limit n/a 3", time.Minute, "n/a=2 b", "b=1/0 n/a=2/3[max_sessions]"},
		{"weight n/a 5; limit n/a 3", time.Minute, "n/a=1/9 b", "b=1/0 n/a=5/9[weight]"},
		{"drain n/a", time.Minute, "n/a@x b", "b=1/0 n/a=1/0"}, // another backend
		{"remove n/a", time.Minute, "n/a b", "b=1/0 n/a=1/0"},
		{"", time.Minute, "n/a b", "b=1/0 n/a=1/0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := setupNamed(t, "n/a b n/c")
			if c.calls != "" {
				f.operate(c.calls)
			}
			f.Apply(named(t, "b n/c"))
			time.Sleep(c.absent)
			f.Apply(named(t, "b n/c"))
			f.Apply(named(t, c.back))
			if got := f.table(); got != c.want {
				t.Errorf("%s, absent for %v: got %s, want %s", c.calls, c.absent, got, c.want)
			}
		})
	}
}

// The same over a restart: the ten minutes begin when the name answers.
func TestFoundBackendComesBackAfterARestart(t *testing.T) {
	for _, c := range []struct {
		silent, absent time.Duration
		want           string
	}{
		{time.Hour, 9 * time.Minute, "b=1/0 n/c=1/0 n/a=5/0:drain[weight state]"},
		{time.Hour, 11 * time.Minute, "b=1/0 n/c=1/0 n/a=1/0 n/d=1/0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := setupNamed(t, "n/a b n/c n/d")
			f.operate("weight n/a 5; drain n/a; remove n/d")
			f = f.restartNamed("b")
			time.Sleep(c.silent)
			f = f.restartNamed("b") // and again
			f.Apply(named(t, "b"))
			time.Sleep(c.silent)
			if o := f.Overrides(); len(o.Backends) != 1 || len(o.Deleted) != 1 {
				t.Errorf("got %+v to be kept", o)
			}
			f.Apply(named(t, "b n/c n/d"))
			time.Sleep(c.absent)
			if c.absent > 10*time.Minute {
				f.Apply(named(t, "b n/c")) // which ends the memory of what was deleted
			}
			f.Apply(named(t, "b n/c n/a n/d"))
			if got := f.table(); got != c.want {
				t.Errorf("%+v: got %s, want %s", c, got, c.want)
			}
		})
	}
}

// What is kept of the absent ends with their name, or by an order.
func TestFoundBackendIsForgotten(t *testing.T) {
	for what, end := range map[string]func(f *fixture){
		"the name left the file": func(f *fixture) { f.Apply(config(f.t, "b", pool.Policy{})) },
		"all was forgotten":      func(f *fixture) { f.Forget("") },
	} {
		f := setupNamed(t, "n/a b")
		f.operate("drain n/a")
		f.Apply(named(t, "n/c b"))
		if f.Overrides().Empty() {
			t.Errorf("%s: nothing was kept before", what)
		}
		end(f)
		if o := f.Overrides(); !o.Empty() {
			t.Errorf("%s: got %+v to be kept", what, o)
		}
		f.Apply(named(t, "n/a b"))
		if got := f.table(); strings.Contains(got, "drain") {
			t.Errorf("%s: got %s", what, got)
		}
	}
}

// Two of one id, as when the file moves a name to another port, are kept as one.
func TestOverridesHaveAnIDOnce(t *testing.T) {
	f := setupNamed(t, "n/a b")
	f.operate("drain n/a")
	f.Apply(named(t, "b n/c"))
	f.Apply(named(t, "n/a@x b n/c"))
	f.operate("weight n/a 3")
	if o := f.Overrides(); len(o.Backends) != 1 || o.Backends[0].Weight != 3 {
		t.Errorf("got %+v", o)
	}
	f.Apply(named(t, "b n/c"))
	if o := f.Overrides(); len(o.Backends) != 1 || o.Backends[0].Weight != 3 {
		t.Errorf("absent: got %+v", o)
	}
}

// The words for what comes and goes name the name, and for what the file takes
// away, the file.
func TestFoundBackendReasons(t *testing.T) {
	f := setup(t, "b", pool.Policy{})
	say := func(c pool.Config, want string) {
		t.Helper()
		f.changes = nil
		edits := words(f.Apply(c))
		got := edits
		for _, c := range f.changes {
			got += "; " + c.Backend + ": " + c.Reason
		}
		if got = strings.ReplaceAll(got, "pool p: ", ""); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	say(named(t, "b n/a"), "backend n/a added (n/a:1), found under n.test; n/a: found under n.test")
	say(named(t, "b n/c"), "backend n/a removed (n/a:1), n.test has it no longer; backend n/c added (n/c:1), found under n.test; "+
		"n/c: found under n.test; n/a: n.test has it no longer")
	say(config(t, "b", pool.Policy{}), "backend n/c removed (n/c:1); n/c: removed from the file")
}

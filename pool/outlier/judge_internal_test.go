package outlier

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pool"
)

// tallies turns words such as "a:100/40+10" into counts: 100 sessions, of which 40
// were reset early and 10 empty; "a:100@3ms" is 100 sessions with as many dials that
// took so long each.
func tallies(t testing.TB, text string) (list []pool.Tally) {
	t.Helper()
	var specs []pool.Spec
	for _, word := range strings.Fields(text) {
		id, _, _ := strings.Cut(word, ":")
		specs = append(specs, pool.Spec{ID: id, Address: id + ":1", Weight: 1})
	}
	p := pool.New("p", pool.Config{Strategy: nobody, Backends: specs}, pool.Hooks{})
	t.Cleanup(p.Close)
	for i, word := range strings.Fields(text) {
		c := p.Tallies()[i]
		_, counts, _ := strings.Cut(word, ":")
		counts, took, timed := strings.Cut(counts, "@")
		fmt.Sscanf(counts, "%d/%d+%d", &c.Sessions, &c.Early, &c.Empty)
		if d, err := time.ParseDuration(took); timed && err == nil {
			c.Dials, c.DialTime = c.Sessions, d*time.Duration(c.Sessions)
		}
		list = append(list, c)
	}
	return list
}

// nobody is a strategy for pools that nobody picks from.
var nobody = pool.Strategy{Name: "none", Build: func([]*pool.Member, pool.Picker) pool.Picker { return nil }}

var shipped = Policy{Interval: 10 * time.Second, MinSessions: 20, FailureShare: 50, DialFactor: 5}

func TestJudge(t *testing.T) {
	for _, c := range []struct{ what, counts, found string }{
		{"nobody", "", ""},
		{"all is well", "a:100/0+0 b:100/1+0 c:100/0+1", ""},
		{"early resets", "a:100/50+0 b:100/0+0 c:100/0+0", "a"},
		{"empty sessions", "a:100/0+0 b:100/0+50 c:100/0+0", "b"},
		{"both together", "a:100/25+25 b:100/0+0 c:100/0+0", "a"},
		{"just below the share", "a:1000/499+0 b:1000/0+0 c:100/0+0", ""},
		{"the worst first", "a:100/60+0 b:100/90+0 c:100/0+0 d:100/0+0 e:100/0+0", "b a"},

		{"two backends", "a:100/100+0 b:100/0+0", "a"},
		{"two backends, the other loses half as many", "a:100/100+0 b:100/50+0", "a"},
		{"two backends, the other loses a little more", "a:100/100+0 b:100/51+0", ""},
		{"one backend, which speaks for itself", "a:100/100+0", "a"},
		{"one backend that is well", "a:100/49+0", ""},
		{"the only one that had sessions", "a:100/100+0 b:0/0+0 c:0/0+0", "a"},

		{"all are bad", "a:100/100+0 b:100/100+0 c:100/100+0", ""},
		{"all are bad, one more", "a:100/90+0 b:100/60+0 c:100/60+0", ""},
		{"most are bad", "a:100/90+0 b:100/90+0 c:100/0+0 d:100/90+0", ""},
		{"two of four are bad", "a:100/90+0 b:100/90+0 c:100/0+0 d:100/0+0", "a b"},
		{"two of three are bad: of the others of each one is well", "a:100/90+0 b:100/90+0 c:100/0+0", "a b"},

		{"few sessions", "a:19/19+0 b:100/0+0 c:100/0+0", ""},
		{"just enough", "a:20/20+0 b:100/0+0 c:100/0+0", "a"},
		{"it takes nearly all: others with few are witnesses", "a:900/900+0 b:3/0+0 c:2/0+0", "a"},
		{"these say that all are bad", "a:900/900+0 b:3/3+0 c:2/2+0", ""},
		{"failed sessions of earlier intervals", "a:30/0+500 b:100/0+0 c:100/0+0", "a"},
		{"sessions that failed, and none that began", "a:0/0+500 b:100/0+0 c:100/0+0", ""},

		{"slow dials", "a:100@50ms b:100@10ms c:100@10ms", "a"},
		{"not slow enough", "a:100@49999us b:100@10ms c:100@10ms", ""},
		{"slow, but on loopback", "a:100@5ms b:100@10us c:100@10us", ""},
		{"slow by enough", "a:100@5010us b:100@10us c:100@10us", "a"},
		{"all are slow", "a:100@500ms b:100@400ms c:100@450ms", ""},
		{"slow, with few dials", "a:19@500ms b:100@1ms c:100@1ms", ""},
		{"slow, and nobody to compare with", "a:100@500ms", ""},
		{"the slowest first", "a:100@50ms b:100@90ms c:100@1ms d:100@1ms e:100@1ms", "b a"},
		{"slow, two backends", "a:100@500ms b:100@1ms", "a"},
		{"failed sessions weigh more than slow dials", "a:100/0+0@9s b:100/60+0@1ms c:100/0+0@1ms", "b a"},
	} {
		var found []string
		for _, f := range judge(tallies(t, c.counts), shipped) {
			found = append(found, f.backend.ID())
		}
		if got := strings.Join(found, " "); got != c.found {
			t.Errorf("%s (%s): got %q, want %q", c.what, c.counts, got, c.found)
		}
	}
}

// A sign whose key is 0 is not looked at.
func TestJudgeLooksAtWhatIsAskedFor(t *testing.T) {
	list := tallies(t, "a:100/100+0@1ms b:100/0+0@500ms c:100/0+0@1ms d:100/0+0@1ms")
	for _, c := range []struct {
		pol   Policy
		found string
	}{
		{Policy{MinSessions: 1, FailureShare: 1}, "a"},
		{Policy{MinSessions: 1, DialFactor: 1}, "b"},
		{Policy{MinSessions: 1}, ""},
	} {
		var found string
		for _, f := range judge(list, c.pol) {
			found += f.backend.ID()
		}
		if found != c.found {
			t.Errorf("%+v: got %q, want %q", c.pol, found, c.found)
		}
	}
}

func TestEvidence(t *testing.T) {
	for counts, reason := range map[string]string{
		"a:40/30+2 b:100/7+0 c:100/7+0": "32 sessions failed in 10s (30 reset early, 2 empty) where 40 began, usual among the others is 7%",
		"a:40/30+2":                     "32 sessions failed in 10s (30 reset early, 2 empty) where 40 began",
		"a:40@61ms b:30@612us":          "its 40 dials in 10s took 61ms on average, usual among the others is 610µs",
	} {
		found := judge(tallies(t, counts), shipped)
		if len(found) != 1 || found[0].reason != reason {
			t.Errorf("%s: got %+v, want %s", counts, found, reason)
		}
	}
}

// The median of the others is what it would be if they were sorted alone.
func FuzzMedianOfTheOthers(f *testing.F) {
	f.Add([]byte{1})
	f.Add([]byte{3, 1, 2})
	f.Add([]byte{7, 7, 0, 9})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		var all values
		for _, b := range bytes {
			all = append(all, int64(b))
		}
		slices.Sort(all)
		for i, v := range all {
			others := slices.Delete(slices.Clone(all), i, i+1)
			got, ok := all.without(v)
			if ok != (len(others) > 0) {
				t.Fatalf("%v without %d: got ok %v", all, v, ok)
			}
			if !ok {
				continue
			}
			n := len(others)
			if want := (others[(n-1)/2] + others[n/2]) / 2; got != want {
				t.Errorf("%v without %d: got %d, want %d", all, v, got, want)
			}
		}
	})
}

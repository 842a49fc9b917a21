package pool_test

import (
	"strings"
	"testing"

	"sluice/pool"
)

// alone is a policy under which one backend gets the sessions.
var alone = pool.Policy{Single: true, Probed: true, Init: pool.InitProbe, MaxFailures: 1}

// elections is a pool of several, and what it told of conflicts.
type elections struct {
	*pool.Pool
	t    *testing.T
	told []pool.Conflict
}

func newElections(t *testing.T, text string, pol pool.Policy) *elections {
	s := &elections{t: t}
	c := config(t, text, pol)
	s.Pool = pool.New("p", c, pool.Hooks{Conflicted: func(c pool.Conflict) { s.told = append(s.told, c) }})
	t.Cleanup(s.Close)
	return s
}

// found has a probe find the backends up or down: "a+ b-".
func (s *elections) found(text string) *elections {
	for word := range strings.FieldsSeq(text) {
		for _, b := range s.Probed() {
			if b.ID() == word[:1] {
				s.SetHealth(b, map[byte]pool.Health{'+': pool.Up, '-': pool.Down}[word[1]], "probe")
			}
		}
	}
	return s
}

// serves wants the pool to give sessions to that backend alone, "" for none, and
// to show who claims it.
func (s *elections) serves(id, conflict string) {
	s.t.Helper()
	for range 3 {
		var l pool.Lease
		got := ""
		if s.Acquire(&l, pool.Query{}) == nil {
			got = l.Backend().ID()
		}
		l.Release()
		want(s.t, "serves", got, id)
	}
	st := s.Status()
	want(s.t, "conflict", strings.Join(st.Conflict, " "), conflict)
	for _, b := range st.Backends {
		out := b.State == "up" && b.Weight > 0 && b.ID != id && b.Health == "up"
		want(s.t, b.ID+" is kept out", b.KeptOut != "", out)
	}
}

func TestSingle(t *testing.T) {
	for _, c := range []struct{ name, found, serves, conflict string }{
		{"nothing is known", "", "", ""},
		{"one is not yet known", "a+", "", ""},
		{"one claims it", "a+ b-", "a", ""},
		{"the other is first to be known", "b- a+", "a", ""},
		{"both at the start", "a+ b+", "", "a b"},
		{"the incumbent stays", "a+ b- b+", "a", "a b"},
		{"so does the other", "a- b+ a+", "b", "a b"},
		{"the rival goes", "a+ b- b+ b-", "a", ""},
		{"the incumbent goes", "a+ b- b+ a-", "b", ""},
		{"and comes back", "a+ b- b+ a- a+", "b", "a b"},
		{"none", "a+ b- a-", "", ""},
		{"the incumbent was gone", "a+ b- a- b+", "b", ""},
		{"a conflict without one is over", "a+ b+ a-", "b", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			newElections(t, "a b", alone).found(c.found).serves(c.serves, c.conflict)
		})
	}
}

// With three, nobody gets anything when the incumbent leaves two that claim it.
func TestSingleOfThree(t *testing.T) {
	s := newElections(t, "a b c", alone).found("a+ b- c- b+ c+")
	s.serves("a", "a b c")
	s.found("a-").serves("", "b c")
	s.found("b-").serves("c", "")
	want(t, "told", len(s.told), 4)
	want(t, "who was chosen first", s.told[0].Chosen, "a")
	want(t, "who then", s.told[2].Chosen, "")
	want(t, "it is over", len(s.told[3].IDs), 0)
}

// An operator resolves a conflict, and a reload leaves it as it is.
func TestSingleAndOrders(t *testing.T) {
	zero, drain, ready := 0, pool.Drain, pool.Ready
	s := newElections(t, "a b", alone).found("a+ b+")
	s.serves("", "a b")
	s.Patch("a", pool.Patch{Weight: &zero})
	s.serves("b", "")
	one := 1
	s.Patch("a", pool.Patch{Weight: &one})
	s.serves("b", "a b")
	s.Apply(config(t, "b a c", alone))
	s.serves("b", "a b")
	s.Patch("b", pool.Patch{Admin: &drain})
	s.serves("", "") // c is not known yet
	s.found("c-").serves("a", "")
	s.Patch("b", pool.Patch{Admin: &ready})
	s.serves("a", "a b")

	several := alone
	several.Single = false
	s.Apply(config(t, "a b", several))
	want(t, "eligible", s.Eligible(), 2)
	want(t, "it is over", len(s.told[len(s.told)-1].IDs), 0)
	s.Apply(config(t, "a b", alone))
	s.serves("", "a b") // none was it alone
}

// Failed dials choose nobody else.
func TestSingleIsNotForDialsToChange(t *testing.T) {
	s := newElections(t, "a b", alone).found("a+ b- b+")
	for range 5 {
		l := acquire(t, s.Pool)
		want(t, "who", l.Backend().ID(), "a")
		l.Failed("refused", errDial)
	}
	s.serves("a", "a b")
	b := s.Probed()[0]
	want(t, "ejected", s.Eject(b, pool.Ejection{For: 1, Most: 1, Budget: 100}), false)
}

// A conflict is told when it begins and when it ends, and not with each change of
// something else.
func TestConflictIsToldOnce(t *testing.T) {
	one, drain := 1, pool.Drain
	for start, chosen := range map[string]string{"a+ b- b+": "a", "a+ b+": ""} {
		s := newElections(t, "a b c", alone).found("c- " + start)
		s.Patch("a", pool.Patch{MaxSessions: &one})
		s.Patch("c", pool.Patch{Admin: &drain})
		s.Apply(config(t, "b a c d", alone))
		want(t, start+": told", len(s.told), 1)
		want(t, start+": the one", s.told[0].Chosen, chosen)
		s.found("b-")
		want(t, start+": told when it is over", len(s.told), 2)
		s.Patch("c", pool.Patch{Weight: &one})
		want(t, start+": told after that", len(s.told), 2)
	}
}

// The explanation says why.
func TestSingleIsExplained(t *testing.T) {
	s := newElections(t, "a b", alone).found("a+ b- b+")
	for _, r := range s.Explain(pool.Query{}, 50).Backends {
		if r.ID == "b" && (r.Word != pool.KeptOut || !strings.Contains(r.Text, "a and b claim")) {
			t.Errorf("got %+v", r)
		}
		if n := len(r.Events); !strings.Contains(r.Events[n-1].Text, "a and b claim") {
			t.Errorf("%s: events %+v", r.ID, r.Events)
		}
	}
}

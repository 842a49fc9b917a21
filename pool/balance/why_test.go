package balance_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
	"sluice/pool/balance"
)

// why returns what a pool says of a backend: a word, and a sentence.
func why(t *testing.T, p *pool.Pool, q pool.Query, id string) string {
	t.Helper()
	x := p.Explain(q, 0)
	i := slices.IndexFunc(x.Backends, func(r pool.Reason) bool { return r.ID == id })
	return string(x.Backends[i].Word) + ": " + x.Backends[i].Text
}

func byName(t *testing.T, name string) pool.Strategy {
	t.Helper()
	s, err := balance.ByName(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every strategy says why another comes first.
func TestEveryStrategySaysWhy(t *testing.T) {
	q := pool.Query{Client: client(7)}
	for _, name := range balance.Names() {
		p := running(byName(t, name), specs(3))
		for _, r := range p.Explain(q, 0).Backends {
			if r.Word != pool.Picked && (r.Text == "" || strings.HasPrefix(r.Text, "the strategy has")) {
				t.Errorf("%s: got %+v", name, r)
			}
		}
	}
}

func TestSourceHashSaysWhy(t *testing.T) {
	p := running(bounded(t, 125), specs(3))
	q := pool.Query{Client: client(7)}
	home, _ := p.Preview(q)
	x := p.Explain(q, 0)
	for ; x.Pick.ID == home.ID() && home.Active() < 50; x = p.Explain(q, 0) {
		if _, err := take(t, p, q); err != nil {
			t.Fatal(err)
		}
	}
	if x.Pick.ID == home.ID() {
		t.Fatal("the bound is not reached")
	}
	full := fmt.Sprintf("next_turns: the client's hash leads there, but it has %d sessions, all that the bound of 125 %% lets it have", home.Active())
	for _, r := range x.Backends {
		got := string(r.Word) + ": " + r.Text
		switch {
		case r.ID == x.Pick.ID:
		case r.ID == home.ID() && got != full:
			t.Errorf("of the client's own: got %s", got)
		case r.ID != home.ID() && !strings.HasPrefix(got, "next_turns: the client's hash leads "):
			t.Errorf("of another: got %s", got)
		}
	}
	free := running(bounded(t, 0), specs(2))
	home, _ = free.Preview(q)
	for _, s := range specs(2) {
		if got := why(t, free, q, s.ID); s.ID != home.ID() && got != "next_turns: the client's hash leads elsewhere" {
			t.Errorf("got %s", got)
		}
		if got := why(t, free, pool.Query{}, s.ID); got != "by_chance: a client without an address may get any" && !strings.HasPrefix(got, "pick: ") {
			t.Errorf("of no client: got %s", got)
		}
	}
}

// One that starts slowly and is passed over says so: its own clients wait for it.
func TestFirstAndSourceHashTellOfASlowStart(t *testing.T) {
	for name, want := range map[string]string{
		"first":       "starting: starts slowly, and sits this turn out",
		"source_hash": "starting: the client's hash leads there, but it starts slowly, and does not take that client yet",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := pool.Config{Strategy: byName(t, name), Policy: pool.Policy{SlowStart: 16 * time.Second}, Backends: specs(2)}
			p := pool.New("p", c, pool.Hooks{})
			defer p.Close()
			for _, a := range []pool.Admin{pool.Maint, pool.Ready} {
				p.Patch("node-0", pool.Patch{Admin: &a})
			}
			for i := range 50 {
				q := pool.Query{Client: client(i)}
				if got := why(t, p, q, "node-0"); got == want {
					return
				}
				l, _ := take(t, p, q)
				l.Release()
			}
			t.Errorf("%s: nobody was told: %s", name, want)
		})
	}
}

func TestFirstAndRandomTwoSayWhy(t *testing.T) {
	p := running(byName(t, "first"), specs(2))
	if got := why(t, p, pool.Query{}, "node-1"); got != "next_turns: comes after the pick, which has room" {
		t.Errorf("got %s", got)
	}
	p = running(byName(t, "random_two"), specs(3))
	x := p.Explain(pool.Query{}, 0)
	for _, r := range x.Backends {
		if r.ID != x.Pick.ID && string(r.Word)+": "+r.Text != "by_chance: has 0 sessions for weight 1; of two that are drawn the one with fewer is picked" {
			t.Errorf("got %+v", r)
		}
	}
	if x.Pick.Sure || x.Text != "a new session gets "+x.Pick.ID+", or another that the strategy draws" {
		t.Errorf("got %+v", x)
	}
}

package rebalance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/pool"
	"sluice/pool/balance"
)

// newPool returns a pool with the backends of text, each "weight" or
// "weight/max_sessions": A, B, C and so on.
func newPool(t *testing.T, strategy pool.Strategy, text string) *pool.Pool {
	t.Helper()
	c := pool.Config{Strategy: strategy}
	for i, word := range strings.Fields(text) {
		s := pool.Spec{ID: string(rune('A' + i)), Address: fmt.Sprintf("10.0.0.%d:80", i+1)}
		weight, most, _ := strings.Cut(word, "/")
		fmt.Sscan(weight, &s.Weight)
		fmt.Sscan(most, &s.MaxSessions)
		c.Backends = append(c.Backends, s)
	}
	p := pool.New("p", c, pool.Hooks{})
	t.Cleanup(p.Close)
	return p
}

func byName(t *testing.T, name string) pool.Strategy {
	t.Helper()
	s, err := balance.ByName(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// loadsOf gives the backends of a pool so many sessions each.
func loadsOf(p *pool.Pool, active []int64) []pool.Load {
	loads := p.Loads()
	for i := range loads {
		loads[i].Active = active[i]
	}
	return loads
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		backends string
		active   []int64
		target   int
		fair     string
		toClose  string
	}{
		{"1 1", []int64{10, 10}, 0, "[10 10]", "[0 0]"},
		{"1 1", []int64{20, 0}, 0, "[10 10]", "[10 0]"},
		{"1 1", []int64{20, 0}, 10, "[10 10]", "[9 0]"},
		{"1 1", []int64{20, 0}, 100, "[10 10]", "[0 0]"},
		{"1 1 1", []int64{1, 0, 0}, 0, "[0.33 0.33 0.33]", "[0 0 0]"}, // one is nobody's third
		{"1 1 1", []int64{2, 0, 0}, 0, "[0.67 0.67 0.67]", "[1 0 0]"},
		{"1 1 1", []int64{7, 7, 7}, 0, "[7 7 7]", "[0 0 0]"},
		{"3 1", []int64{20, 20}, 0, "[30 10]", "[0 10]"},
		{"3 1", []int64{20, 20}, 50, "[30 10]", "[0 5]"},
		{"1 0 1", []int64{30, 500, 0}, 0, "[15 0 15]", "[15 0 0]"}, // of weight 0: its own stay
		{"1", []int64{30}, 0, "[30]", "[0]"},
		{"", nil, 0, "[]", "[]"},
		{"0 0", []int64{3, 4}, 0, "[0 0]", "[0 0]"},
		{"1 1", []int64{0, 0}, 0, "[0 0]", "[0 0]"},
		{"1 1/10", []int64{60, 0}, 0, "[50 10]", "[10 0]"}, // what it may not hold is the others'
		{"1 1/10 1", []int64{60, 10, 0}, 0, "[30 10 30]", "[30 0 0]"},
		{"1/30 1/10", []int64{30, 10}, 0, "[30 10]", "[0 0]"}, // full, and nowhere to go
		{"1/10 1/10", []int64{20, 5}, 0, "[10 10]", "[5 0]"},  // a limit that was lowered
		{"1/10 1/10", []int64{20, 10}, 0, "[10 10]", "[0 0]"},
		{"1/40 1/40 1/100", []int64{40, 40, 0}, 0, "[26.67 26.67 26.67]", "[13 13 0]"},
	} {
		p := newPool(t, byName(t, "round_robin"), c.backends)
		var fair []float64
		var toClose []int64
		for i, s := range Shares(loadsOf(p, c.active), c.target) {
			fair, toClose = append(fair, s.Fair), append(toClose, s.ToClose)
			if s.Active != c.active[i] || s.ID != string(rune('A'+i)) {
				t.Errorf("%+v: got %+v", c, s)
			}
		}
		if got := fmt.Sprint(fair); got != c.fair {
			t.Errorf("%s with %v: fair shares %s, want %s", c.backends, c.active, got, c.fair)
		}
		if got := fmt.Sprint(toClose); got != c.toClose {
			t.Errorf("%s with %v and target %d: to close %s, want %s", c.backends, c.active, c.target, got, c.toClose)
		}
	}
}

// Whatever the weights and limits: shares are what there is, nobody's is above what
// it may hold, and what is to be closed finds room below the others' shares.
func TestSharesAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var words []string
		var active []int64
		for range 1 + r.IntN(6) {
			most := r.IntN(3) * r.IntN(40)
			words = append(words, fmt.Sprintf("%d/%d", r.IntN(5), most))
			active = append(active, int64(r.IntN(60)))
		}
		loads := loadsOf(newPool(t, byName(t, "round_robin"), strings.Join(words, " ")), active)
		target := r.IntN(3) * r.IntN(30)
		sum, all, bounded, missing := 0., int64(0), true, int64(0)
		fair := fairShares(loads, float64(sessions(loads)))
		for i, l := range loads {
			if l.Weight == 0 {
				continue
			}
			sum, all = sum+fair[i], all+l.Active
			bounded = bounded && l.Most > 0
			if l.Most > 0 && fair[i] > float64(l.Most) {
				t.Fatalf("%v with %v: fair shares %v, above a limit", words, active, fair)
			}
			missing += max(0, int64(math.Ceil(fair[i]))-l.Active)
		}
		if !bounded && math.Abs(sum-float64(all)) > 1e-6 || sum > float64(all)+1e-6 {
			t.Fatalf("%v with %v: fair shares %v are %v of %d", words, active, fair, sum, all)
		}
		n := int64(0)
		for i, s := range Shares(loads, target) {
			n += s.ToClose
			if s.ToClose < 0 || s.ToClose > 0 && float64(s.Active-s.ToClose) < fair[i]-1e-6 || s.Eligible != (loads[i].Weight > 0) {
				t.Fatalf("%v with %v: got %+v, fair is %v", words, active, s, fair[i])
			}
		}
		if n > missing {
			t.Fatalf("%v with %v: %d are to be closed, and %d find room below a fair share", words, active, n, missing)
		}
	}
}

package balance_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
	"sluice/pool/balance"
)

func TestFirstFillsInOrder(t *testing.T) {
	ms := []*pool.Member{member(1, 1, 2), member(2, 9, 3), member(3, 5, 0)}
	p := picker(t, "first", "", ms, nil)
	if got := letters(p, 7); got != "AABBBCC" {
		t.Errorf("got %s, want AABBBCC", got)
	}
	if got := letters(p, 2, ms[2].Backend); got != "--" {
		t.Errorf("with C avoided: got %s", got)
	}
}

// The first has its slots again as soon as they are free.
func TestFirstGoesBack(t *testing.T) {
	s, err := balance.ByName("first", "")
	if err != nil {
		t.Fatal(err)
	}
	ss := specs(3)
	ss[0].MaxSessions, ss[1].MaxSessions = 1, 1
	p := running(s, ss)
	first, _ := take(t, p, pool.Query{})
	second, _ := take(t, p, pool.Query{})
	first.Release()
	third, _ := take(t, p, pool.Query{})
	if a, b := second.Backend().ID(), third.Backend().ID(); a != "node-1" || b != "node-0" {
		t.Errorf("got %s and then %s, want node-1 and node-0", a, b)
	}
}

// While the first starts slowly, those behind it have the rest of its picks.
func TestFirstStartsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := balance.ByName("first", "")
		if err != nil {
			t.Fatal(err)
		}
		c := pool.Config{Strategy: s, Policy: pool.Policy{SlowStart: 16 * time.Second}, Backends: specs(2)}
		p := pool.New("p", c, pool.Hooks{})
		maint, ready := pool.Maint, pool.Ready
		p.Patch("node-0", pool.Patch{Admin: &maint})
		p.Patch("node-0", pool.Patch{Admin: &ready})
		time.Sleep(4 * time.Second)
		synctest.Wait()
		var got strings.Builder
		for range 16 {
			want, sure := p.Preview(pool.Query{})
			l, err := take(t, p, pool.Query{})
			if err != nil || !sure || want != l.Backend() {
				t.Fatalf("got %v and %v, want %v", l.Backend(), err, want)
			}
			got.WriteString(l.Backend().ID()[len("node-"):])
			l.Release()
		}
		if n := strings.Count(got.String(), "0"); n != 4 {
			t.Errorf("got %s, want the first 4 times", got.String())
		}
		p.Close()
	})
}

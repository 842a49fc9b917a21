package discover_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/discover"
)

func TestSRV(t *testing.T) {
	bubble(t, "_s.test=b.test./81/20/5 a.test./80/10/1 a.test./82/10/3; a.test.=10.0.0.1 2001:db8::1; b.test.=10.0.0.2", func(t *testing.T, r *rig) {
		s := r.use("_s.test", every)
		all := "10.0.0.1:80/10/1 10.0.0.1:82/10/3 [2001:db8::1]:80/10/1 [2001:db8::1]:82/10/3 10.0.0.2:81/20/5"
		r.mustFind(s, all)
		if got := r.asked("a.test."); got != "0s" {
			t.Errorf("a target of two records was looked up at %s", got)
		}
		for _, trouble := range []string{
			"_s.test=fail", "_s.test=none", "_s.test=", "_s.test=hang", "_s.test=./80/0/0", "_s.test=a.test./0/0/0",
		} {
			r.answer(trouble)
			time.Sleep(10 * time.Minute)
			r.mustFind(s, all)
		}
	})
}

// A target that cannot be looked up keeps its addresses while others change, and
// one that does not exist goes.
func TestSRVTargets(t *testing.T) {
	bubble(t, "_s.test=a.test./80/0/0 b.test./80/0/0; a.test.=10.0.0.1; b.test.=10.0.0.2", func(t *testing.T, r *rig) {
		s := r.use("_s.test", every)
		for _, c := range []struct{ answer, want string }{
			{"a.test.=fail; b.test.=10.0.0.3", "10.0.0.1:80/0/0 10.0.0.3:80/0/0"},
			{"_s.test=a.test./80/0/0 b.test./81/0/0", "10.0.0.1:80/0/0 10.0.0.3:81/0/0"},
			{"a.test.=none", "10.0.0.3:81/0/0"},
			{"b.test.=none", "10.0.0.3:81/0/0"}, // nothing is left that could be taken for an answer
			{"a.test.=10.0.0.7", "10.0.0.7:80/0/0"},
		} {
			r.answer(c.answer)
			time.Sleep(2 * time.Minute)
			r.mustFind(s, c.want)
		}
	})
}

// The same place in two records is one backend, of the better record; weights and
// priorities change at once.
func TestSRVRecordsOfOnePlace(t *testing.T) {
	bubble(t, "_s.test=a.test./80/5/1 b.test./80/1/1 b.test./80/1/9; a.test.=10.0.0.1; b.test.=10.0.0.1", func(t *testing.T, r *rig) {
		s := r.use("_s.test", every)
		r.mustFind(s, "10.0.0.1:80/1/9")
		r.answer("_s.test=a.test./80/7/3")
		time.Sleep(every + every/9)
		r.mustFind(s, "10.0.0.1:80/7/3")
	})
}

func TestSRVMany(t *testing.T) {
	bubble(t, "", func(t *testing.T, r *rig) {
		text := "_s.test="
		for i := range 600 {
			r.answer(fmt.Sprintf("t%d.test.=10.0.%d.%d", i, i/200, i%200))
			text += fmt.Sprintf(" t%d.test./80/%d/0", i, 600-i)
		}
		r.answer(text)
		s := r.use("_s.test", every)
		list, _ := r.Found(s)
		if len(list) != discover.MaxFound || list[0].Priority != 1 || list[0].Addr.String() != "10.0.2.199" {
			t.Errorf("got %d, the first %+v", len(list), list[0])
		}
	})
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		records string // priority/weight
		most    int
		want    string // tier/weight
	}{
		{"0/0", 1000, "0/1"},
		{"0/0 0/0", 1000, "0/1 0/1"},
		{"0/33 0/33 0/33", 1000, "0/1 0/1 0/1"},
		{"0/10 0/20", 1000, "0/1 0/2"},
		{"0/0 0/10", 1000, "0/1 0/10"},
		{"3/0 3/5 7/4 7/6 9/1", 1000, "0/1 0/5 1/2 1/3 2/1"},
		{"0/65535 0/1", 1000, "0/1000 0/1"},
		{"0/65535 0/32768 0/0", 1000, "0/1000 0/500 0/1"},
		{"0/6 0/9", 1, "0/1 0/1"},
		{"0/6 0/9", 2, "0/1 0/2"},
	} {
		var list []discover.Found
		for _, w := range strings.Fields(c.records) {
			var f discover.Found
			fmt.Sscanf(w, "%d/%d", &f.Priority, &f.Weight)
			list = append(list, f)
		}
		got := ""
		for _, s := range discover.Shares(list, c.most) {
			got += fmt.Sprintf(" %d/%d", s.Tier, s.Weight)
		}
		if got != " "+c.want {
			t.Errorf("%s at most %d: got%s, want %s", c.records, c.most, got, c.want)
		}
	}
}

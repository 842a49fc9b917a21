package balance_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/pool"
	"sluice/pool/balance"
)

// member returns a member that is its own backend, with the id in seq's place.
func member(seq uint64, weight, limit int) *pool.Member {
	return &pool.Member{Backend: new(pool.Backend), Seq: seq, Weight: weight, MaxSessions: limit}
}

// members returns one for each weight, registered in that order from 1 on.
func members(weights ...int) (ms []*pool.Member) {
	for i, w := range weights {
		ms = append(ms, member(uint64(i+1), w, 0))
	}
	return ms
}

func picker(t testing.TB, name, ties string, ms []*pool.Member, previous pool.Picker) pool.Picker {
	t.Helper()
	s, err := balance.ByName(name, ties)
	if err != nil {
		t.Fatal(err)
	}
	return s.Build(ms, previous)
}

// letters returns n picks, A for the member registered first.
func letters(p pool.Picker, n int, avoid ...*pool.Backend) string {
	var b strings.Builder
	for range n {
		if m := p.Pick(pool.Query{Avoid: avoid}); m != nil {
			b.WriteByte('@' + byte(m.Seq))
		} else {
			b.WriteByte('-')
		}
	}
	return b.String()
}

func TestByNameKnowsEveryName(t *testing.T) {
	for _, name := range balance.Names() {
		s, err := balance.ByName(name, "")
		if err != nil || s.Name != name || s.Build == nil {
			t.Errorf("ByName(%q): got %+v, %v", name, s, err)
		}
	}
}

func TestByNameDefaultsTies(t *testing.T) {
	for _, c := range []struct{ name, ties, want string }{
		{"round_robin", "", ""},
		{"round_robin", "rotate", ""},
		{"least_connections", "", "first"},
		{"least_connections", "first", "first"},
		{"least_connections", "rotate", "rotate"},
	} {
		if s, err := balance.ByName(c.name, c.ties); err != nil || s.Ties != c.want {
			t.Errorf("ByName(%q, %q): got ties %q and %v, want %q", c.name, c.ties, s.Ties, err, c.want)
		}
	}
}

func TestByNameListsTheKnownNames(t *testing.T) {
	_, err := balance.ByName("fastest", "")
	if err == nil {
		t.Fatal("got no error")
	}
	for _, part := range append(balance.Names(), `"fastest"`) {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
	if _, err := balance.ByName("round_robin", "last"); err == nil {
		t.Error("ties = last: got no error")
	}
}

// TestContract holds for every strategy: a handful of sizes, all free, one full,
// one avoided, all full.
func TestContract(t *testing.T) {
	for _, name := range balance.Names() {
		for _, ties := range []string{"first", "rotate"} {
			for _, n := range []int{1, 2, 3, 10} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, ties, n), func(t *testing.T) { contract(t, name, ties, n) })
			}
		}
	}
}

func contract(t *testing.T, name, ties string, n int) {
	ms := members()
	for i := range n {
		ms = append(ms, member(uint64(i+1), 1+i%3, 5))
	}
	p := picker(t, name, ties, ms, nil)
	for range 5 * (n - 1) {
		m := p.Pick(pool.Query{Avoid: []*pool.Backend{ms[0].Backend}})
		if m == nil || m == ms[0] {
			t.Fatalf("with the first avoided and room elsewhere: got %v", m)
		}
	}
	for range 5 {
		if m := p.Pick(pool.Query{}); m != ms[0] {
			t.Fatalf("with all but the first full: got %v", m)
		}
	}
	if m := p.Pick(pool.Query{}); m != nil {
		t.Fatalf("with all full: got %v", m.Seq)
	}
	for i, m := range ms {
		if m.Active() != 5 {
			t.Errorf("member %d: got %d sessions, want 5", i, m.Active())
		}
	}
}

func TestEmptyPickerPicksNothing(t *testing.T) {
	for _, name := range balance.Names() {
		empty := picker(t, name, "rotate", nil, nil)
		if m := empty.Pick(pool.Query{}); m != nil {
			t.Errorf("%s over nothing: got %v", name, m)
		}
		if got := letters(picker(t, name, "rotate", members(1, 1), empty), 2); len(got) != 2 || strings.Contains(got, "-") {
			t.Errorf("%s after nothing: got %s", name, got)
		}
	}
}

// FuzzPick checks that no picker returns a member that is avoided, full or
// unknown, that it finds one if there is one, and that it ends. Each byte is one
// member: weight in the upper five bits, limit, avoided.
func FuzzPick(f *testing.F) {
	f.Add([]byte{8, 8, 8}, uint8(10))
	f.Add([]byte{0xff, 9, 13, 3}, uint8(50))
	f.Add([]byte{0xf8, 0xf9, 1, 4}, uint8(200))
	f.Fuzz(func(t *testing.T, data []byte, n uint8) {
		if len(data) == 0 || len(data) > 64 {
			return
		}
		for _, name := range balance.Names() {
			fuzzOne(t, name, data, int(n))
		}
	})
}

func fuzzOne(t *testing.T, name string, data []byte, n int) {
	var ms []*pool.Member
	var q pool.Query
	for i, b := range data {
		m := member(uint64(i+1), 1+int(b>>3)*33, int(b>>1&3))
		ms = append(ms, m)
		if b&1 == 1 {
			q.Avoid = append(q.Avoid, m.Backend)
		}
	}
	p := picker(t, name, "rotate", ms, nil)
	for i := range n {
		if i == n/2 {
			p = picker(t, name, "rotate", ms[:1+len(ms)/2], p)
			ms = ms[:1+len(ms)/2]
		}
		usable := map[*pool.Member]bool{}
		for _, m := range ms {
			if m.Usable(q) {
				usable[m] = true
			}
		}
		if m := p.Pick(q); (m == nil) != (len(usable) == 0) || m != nil && !usable[m] {
			t.Fatalf("%s: pick %d returned %v of %d usable ones", name, i, m, len(usable))
		}
	}
}

package epoll_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"

	"sluice/l4/epoll"
)

// naive is what Timers should do, done by looking at all.
type naive map[*epoll.Timer]int64

// nearest returns the least deadline, if there is one.
func (n naive) nearest() (when int64, ok bool) {
	for _, w := range n {
		if !ok || w < when {
			when, ok = w, true
		}
	}
	return when, ok
}

// play does what ops say, three bytes a turn, to Timers and to the naive ones,
// and compares them after each. There are few times, so that ties are frequent.
func play(t *testing.T, ops []byte, timers int) {
	t.Helper()
	var h epoll.Timers
	all, model := make([]epoll.Timer, timers), naive{}
	for i := range all {
		all[i].Key = int32(i)
	}
	for turn := 0; len(ops) >= 3; turn++ {
		what, who, when := ops[0]%8, &all[int(ops[1])%timers], int64(ops[2])
		ops = ops[3:]
		switch {
		case what < 4:
			h.Set(who, when)
			model[who] = when
		case what < 6:
			h.Stop(who)
			delete(model, who)
		default:
			pop(t, &h, model, when)
		}
		compare(t, turn, &h, model, all)
	}
	for len(model) > 0 {
		pop(t, &h, model, 255)
	}
	compare(t, -1, &h, model, all)
}

// pop pops one timer of both and wants it to be due, and the first.
func pop(t *testing.T, h *epoll.Timers, model naive, now int64) {
	t.Helper()
	nearest, ok := model.nearest()
	got := h.Pop(now)
	if due := ok && nearest <= now; (got != nil) != due {
		t.Fatalf("Pop(%d) gave %v; the nearest is %d, %v", now, got, nearest, ok)
	}
	if got == nil {
		return
	}
	if w, set := model[got]; !set || w != nearest {
		t.Fatalf("Pop(%d) gave one of %d, %v; the nearest is %d", now, w, set, nearest)
	}
	delete(model, got)
}

func compare(t *testing.T, turn int, h *epoll.Timers, model naive, all []epoll.Timer) {
	t.Helper()
	if h.Len() != len(model) {
		t.Fatalf("turn %d: Len %d, want %d", turn, h.Len(), len(model))
	}
	want, wantOK := model.nearest()
	if got, ok := h.Next(); got != want || ok != wantOK {
		t.Fatalf("turn %d: Next %d, %v, want %d, %v", turn, got, ok, want, wantOK)
	}
	for i := range all {
		want, wantSet := model[&all[i]]
		if got, set := all[i].When(); got != want || set != wantSet || all[i].Key != int32(i) {
			t.Fatalf("turn %d: timer %d of %d at %d, %v, want %d, %v", turn, i, all[i].Key, got, set, want, wantSet)
		}
	}
}

func TestTimersDoWhatNaiveOnesDo(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		ops := make([]byte, 3*(1+r.IntN(600)))
		for i := range ops {
			ops[i] = byte(r.Uint32())
		}
		play(t, ops, 1+r.IntN(120))
	}
}

func FuzzTimers(f *testing.F) {
	f.Add([]byte{0, 0, 9, 0, 1, 3, 0, 0, 1, 4, 1, 0, 7, 0, 255}, byte(2))
	f.Add([]byte("set some, move some, stop some, pop some"), byte(30))
	f.Fuzz(func(t *testing.T, ops []byte, timers byte) {
		play(t, ops[:min(len(ops), 1500)], int(timers)+1) // each turn looks at all
	})
}

// What is due at once comes in the order of the deadlines.
func TestTimersComeInOrder(t *testing.T) {
	var h epoll.Timers
	all := make([]epoll.Timer, 5000)
	for i := range all {
		h.Set(&all[i], rand.Int64())
	}
	last := int64(-1)
	for range all {
		when, ok := h.Next()
		if h.Pop(when-1) != nil {
			t.Fatalf("popped before %d", when)
		}
		if h.Pop(when) == nil || !ok || when < last {
			t.Fatalf("%d, %v after %d", when, ok, last)
		}
		last = when
	}
	if h.Len() != 0 || h.Pop(1<<62) != nil {
		t.Errorf("%d are left", h.Len())
	}
}

// There is one in each session, or more.
func TestTimerIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(epoll.Timer{}); n != 16 {
		t.Errorf("a timer has %d bytes, want 16", n)
	}
}

func BenchmarkTimers(b *testing.B) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.Run("move", func(b *testing.B) { benchmarkMove(b, n) })
			b.Run("pop", func(b *testing.B) { benchmarkPop(b, n) })
		})
	}
}

// benchmarkMove puts off a timer that is set, as activity does.
func benchmarkMove(b *testing.B, n int) {
	h, all := filled(n)
	now := int64(n)
	for b.Loop() {
		now++
		h.Set(&all[int(now)%n], now+int64(n))
	}
}

// benchmarkPop takes the timer that is due and sets it again.
func benchmarkPop(b *testing.B, n int) {
	h, _ := filled(n)
	for b.Loop() {
		now, _ := h.Next()
		h.Set(h.Pop(now), now+int64(n))
	}
}

// filled returns n timers that are set, one at each time.
func filled(n int) (*epoll.Timers, []epoll.Timer) {
	h, all := new(epoll.Timers), make([]epoll.Timer, n)
	for i, when := range rand.Perm(n) {
		h.Set(&all[i], int64(when))
	}
	return h, all
}

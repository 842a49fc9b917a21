package l4

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// One write wakes a loop for all the orders that it finds then.
func TestOrdersWakeALoopOnce(t *testing.T) {
	t.Parallel()
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 64, set: patient()})
	l := tr.driver.loops[0]
	busy, free := make(chan struct{}), make(chan struct{})
	l.post(func() { close(busy); <-free })
	<-busy
	before := k.calledSoFar("write")
	var done atomic.Int32
	for range 1000 {
		l.post(func() { done.Add(1) })
	}
	if n := k.calledSoFar("write") - before; n != 1 {
		t.Errorf("1000 orders to a loop that is busy are %d writes, want 1", n)
	}
	close(free)
	tr.until("the orders are carried out", func() bool { return done.Load() == 1000 })
	go tr.listener.Serve()
	tr.close()
}

// A crowd that one loop takes in is shared out among all.
func TestCrowdIsSpreadOverTheLoops(t *testing.T) {
	t.Parallel()
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 4, buffer: 64, set: patient()})
	go tr.listener.Serve()
	const crowd = 200
	leave := tr.crowd(crowd)
	loads := make([]int, len(tr.driver.loops))
	tr.driver.onAll(func(i int, l *loop) { loads[i] = count(l) })
	sum := 0
	for _, n := range loads {
		sum += n
		if n < crowd/4-crowd/10 || n > crowd/4+crowd/10 {
			t.Errorf("the loops have %v sessions", loads)
		}
	}
	if sum != crowd {
		t.Errorf("%v sessions are %d, want %d", loads, sum, crowd)
	}
	leave()
	tr.until("they are gone", func() bool { return tr.front.Status().Active == 0 })
	tr.close()
}

// count returns how many sessions l has; on its own loop.
func count(l *loop) (n int) {
	for range sessionsOf(l) {
		n++
	}
	return n
}

// The memory of a crowd is used for the next, by sessions that tokens of the
// first do not find.
func TestSlotsOfACrowdAreUsedAgain(t *testing.T) {
	t.Parallel()
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 64, set: patient()})
	go tr.listener.Serve()
	var old []string
	for range 3 {
		leave := tr.crowd(100)
		var now []string
		tr.driver.onAll(func(_ int, l *loop) {
			if n := len(l.slots.blocks); n != 2 {
				t.Errorf("100 sessions take %d blocks of %d, want 2", n, slotsInBlock)
			}
			for d := range sessionsOf(l) {
				now = append(now, fmt.Sprint(d.token(0)))
			}
		})
		for _, token := range old {
			for _, other := range now {
				if token == other {
					t.Errorf("a session has the token %s of one before", token)
				}
			}
		}
		old = append(old, now...)
		leave()
		tr.until("they are gone", func() bool { return tr.front.Status().Active == 0 })
	}
	tr.driver.onAll(func(_ int, l *loop) {
		if len(l.slots.free) != 2*slotsInBlock {
			t.Errorf("%d slots are free, want %d", len(l.slots.free), 2*slotsInBlock)
		}
	})
	tr.close()
}

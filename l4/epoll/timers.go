package epoll

// Timer is one deadline. It lives in what it belongs to, which must not move in
// memory while the timer is set, and which stops it before it goes. The zero
// value is unset.
type Timer struct {
	when int64
	slot int32 // in the heap, from 1; 0 is unset

	Key int32 // whose it is, for who gets it from Pop; free for the owner to set
}

// When returns the deadline of t, if one is set.
func (t *Timer) When() (when int64, set bool) { return t.when, t.slot != 0 }

// Timers are deadlines in a heap, the nearest first. The zero value is empty.
// Not safe for concurrent use.
//
// Each entry has four children: the heap is half as deep as with two, and the
// four are compared side by side, because an entry holds the time itself.
type Timers struct {
	heap []deadline
}

type deadline struct {
	when  int64
	timer *Timer
}

// Set makes t due at when, in nanoseconds of whatever clock Pop is asked by. A
// timer that is set already moves there. O(log n).
func (h *Timers) Set(t *Timer, when int64) {
	if t.slot == 0 {
		h.heap = append(h.heap, deadline{})
		h.up(len(h.heap)-1, deadline{when, t})
		return
	}
	i, d := int(t.slot)-1, deadline{when, t}
	if when < t.when {
		h.up(i, d)
	} else if when > t.when {
		h.down(i, d)
	}
}

// Stop unsets t. It is harmless if t is unset. O(log n).
func (h *Timers) Stop(t *Timer) {
	if t.slot == 0 {
		return
	}
	i := int(t.slot) - 1
	last := len(h.heap) - 1
	moved := h.heap[last]
	h.heap[last] = deadline{}
	h.heap = h.heap[:last]
	if i != last {
		if moved.when < t.when {
			h.up(i, moved)
		} else {
			h.down(i, moved)
		}
	}
	t.when, t.slot = 0, 0
}

// Next returns the nearest deadline, if there is one.
func (h *Timers) Next() (when int64, ok bool) {
	if len(h.heap) == 0 {
		return 0, false
	}
	return h.heap[0].when, true
}

// Pop returns a timer that is due at now, the one due longest first, and unsets
// it; nil if none is.
func (h *Timers) Pop(now int64) *Timer {
	if len(h.heap) == 0 || h.heap[0].when > now {
		return nil
	}
	t := h.heap[0].timer
	h.Stop(t)
	return t
}

// Len returns how many timers are set.
func (h *Timers) Len() int { return len(h.heap) }

// up puts d at i, which is free, or where it belongs towards the root.
func (h *Timers) up(i int, d deadline) {
	for i > 0 {
		parent := (i - 1) / 4
		if h.heap[parent].when <= d.when {
			break
		}
		h.put(i, h.heap[parent])
		i = parent
	}
	h.put(i, d)
}

// down puts d at i, which is free, or where it belongs towards the leaves.
func (h *Timers) down(i int, d deadline) {
	for {
		child := h.nearest(4*i + 1)
		if child < 0 || h.heap[child].when >= d.when {
			break
		}
		h.put(i, h.heap[child])
		i = child
	}
	h.put(i, d)
}

// nearest returns which of the four siblings from first on is due first, -1 if
// there are none.
func (h *Timers) nearest(first int) int {
	end := min(first+4, len(h.heap))
	best := -1
	for i := first; i < end; i++ {
		if best < 0 || h.heap[i].when < h.heap[best].when {
			best = i
		}
	}
	return best
}

func (h *Timers) put(i int, d deadline) {
	h.heap[i] = d
	d.timer.when, d.timer.slot = d.when, int32(i+1)
}

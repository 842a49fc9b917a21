package session_test

import (
	"runtime"
	"testing"
	"unsafe"

	"sluice/l4/session"
)

// sizeOf64 is what a session takes on a 64-bit system. An engine holds thousands
// that are idle: what grows it has to be worth that.
const sizeOf64 = 176

func TestSizeOfASession(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the size is that on 64 bit")
	}
	if n := unsafe.Sizeof(session.Session{}); n > sizeOf64 {
		t.Errorf("a session takes %d bytes, want %d at most", n, sizeOf64)
	}
}

// A session that relays holds nothing on the heap, also if the engine looked its
// backend's name up for it alone; one that redialed holds its attempts.
func TestEstablishedSessionHoldsNothingElse(t *testing.T) {
	for _, c := range []struct {
		backends, network string
		most              int // objects that a session may hold
	}{
		{"A B C", "", 0},
		{"A@a.test", "", 0},
		{"A B", "10.0.0.1=refused", 2},
	} {
		const n = 500
		w := newWorld(t, c.backends, pool0)
		fill(w.network, c.network)
		fill(w.names, "a.test=10.1.0.1 10.1.0.2")
		sessions, o := make([]session.Session, n), w.origin()
		before := objects()
		for i := range sessions {
			w.Session, w.log = &sessions[i], nil
			w.Start(w.now, o, uint64(i), client)
			if step := w.connect(); step.Do != session.Relay {
				t.Fatalf("%s: got %+v, want relay", c.backends, step)
			}
			w.Moved(w.now, session.Client, 7)
		}
		if held := objects() - before; held > n*c.most+n/10 {
			t.Errorf("%s: %d sessions hold %d objects, want %d of each", c.backends, n, held, c.most)
		}
		for i := range sessions {
			sessions[i].Close(w.now, source, 1)
		}
	}
}

// objects returns how many there are on the heap.
func objects() int {
	runtime.GC()
	runtime.GC() // what a pool keeps lives through one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapObjects)
}

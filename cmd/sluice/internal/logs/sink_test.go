package logs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gated is a writer that stalls until it is opened.
type gated struct {
	open chan struct{}
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(p)
}

func TestSinkDropsWhileStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &gated{open: make(chan struct{})}
		var lost int64
		s := newSink(w, 100, func(n int64) { lost += n })
		line := []byte(strings.Repeat("x", 49) + "\n")
		s.Write(line) // taken by the writer, which stalls with it
		synctest.Wait()
		for range 5 {
			s.Write(line) // two of them fit, and fill the sink
		}
		if got := s.droppedTotal(); got != 3 {
			t.Errorf("got %d dropped, want 3", got)
		}
		close(w.open)
		synctest.Wait()
		if got := strings.Count(w.text.String(), "\n"); got != 3 || lost != 3 {
			t.Errorf("got %d lines written and %d reported as lost, want 3 and 3", got, lost)
		}
		s.close(time.Second)
	})
}

// full is a disk with room for some bytes, and then for more.
type full struct {
	room int
	text bytes.Buffer
}

func (f *full) Write(p []byte) (int, error) {
	n := min(len(p), f.room)
	f.room -= n
	f.text.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

func TestLineTornByAFullDiskDoesNotSpoilTheNext(t *testing.T) {
	w := &full{room: 8}
	s := &sink{w: w, size: 100, wake: make(chan struct{}, 1)}
	if s.write([]byte("one\ntwo and three\n"), 2) {
		t.Error("a write that failed counts as done")
	}
	if s.write([]byte("lost\n"), 1) {
		t.Error("a write on a full disk counts as done")
	}
	w.room = 100
	if !s.write([]byte("four\n"), 1) {
		t.Error("a write that worked counts as failed")
	}
	if got, want := w.text.String(), "one\ntwo \nfour\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := s.droppedTotal(); got != 2 {
		t.Errorf("got %d dropped, want 2", got)
	}
}

func TestSinkCloseFlushes(t *testing.T) {
	var w bytes.Buffer
	s := newSink(&w, sinkSize, func(int64) {})
	for i := range 1000 {
		fmt.Fprintf(s, "line %d\n", i)
	}
	s.close(10 * time.Second)
	if got := strings.Count(w.String(), "\n"); got != 1000 {
		t.Errorf("got %d lines, want 1000", got)
	}
	fmt.Fprintln(s, "too late")
	if got := s.droppedTotal(); got != 1 {
		t.Errorf("got %d dropped after the close, want 1", got)
	}
}

func TestSinkCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &gated{open: make(chan struct{})}
		s := newSink(w, sinkSize, func(int64) {})
		fmt.Fprintln(s, "stalls")
		began := time.Now()
		s.close(time.Second)
		if took := time.Since(began); took != time.Second {
			t.Errorf("close took %v, want 1s", took)
		}
		close(w.open)
	})
}

// broken is a writer that fails until it is mended.
type broken struct {
	bytes.Buffer
	mended bool
}

func (b *broken) Write(p []byte) (int, error) {
	if !b.mended {
		return 0, errors.New("broken")
	}
	return b.Buffer.Write(p)
}

// A log that is gone counts its lines, and is not told of them in a loop.
func TestSinkCountsFailedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &broken{}
		reports := 0
		s := newSink(w, sinkSize, func(n int64) {
			reports++
			fmt.Fprintf(w, "lost %d\n", n)
		})
		for range 3 {
			fmt.Fprintln(s, "gone")
			synctest.Wait()
		}
		if got := s.droppedTotal(); got != 3 || reports != 0 {
			t.Errorf("got %d dropped and %d reports, want 3 and none", got, reports)
		}
		w.mended = true
		fmt.Fprintln(s, "here")
		synctest.Wait()
		if got := w.String(); got != "here\nlost 3\n" || reports != 1 {
			t.Errorf("got %q after %d reports", got, reports)
		}
		s.close(time.Second)
	})
}

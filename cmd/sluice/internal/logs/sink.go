package logs

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// sinkSize bounds the bytes that wait for a stalled log: some 2,000 session
// lines. Chosen, not measured.
const sinkSize = 1 << 20

// sink hands log lines to a writer that may stall for as long as it likes. A
// line is copied into memory; one goroutine writes. What finds no room is
// dropped and counted. Safe for concurrent use.
type sink struct {
	w    io.Writer
	size int
	wake chan struct{} // of capacity 1: there is something to do
	done chan struct{} // closed when the writer has ended
	torn bool          // the last line written is incomplete; the writer's alone
	lost func(n int64) // told, by the writer, how many lines were dropped; writes to w itself

	// mu guards the fields below.
	mu      sync.Mutex
	pending []byte
	lines   int64 // in pending
	dropped int64 // not yet reported
	total   int64 // dropped ever
	closed  bool
}

func newSink(w io.Writer, size int, lost func(n int64)) *sink {
	s := &sink{
		w:    w,
		size: size,
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
		lost: lost,
	}
	go s.run()
	return s
}

// Write takes one line or drops it. It never blocks and never fails.
func (s *sink) Write(line []byte) (int, error) {
	s.mu.Lock()
	if s.closed || len(s.pending)+len(line) > s.size {
		s.dropped++
		s.total++
	} else {
		s.pending = append(s.pending, line...)
		s.lines++
	}
	s.mu.Unlock()
	s.signal()
	return len(line), nil
}

// Sync is what a zapcore.WriteSyncer has to have; close is what flushes.
func (s *sink) Sync() error { return nil }

func (s *sink) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run writes until the sink is closed and empty.
func (s *sink) run() {
	defer close(s.done)
	var batch []byte
	for range s.wake {
		closed := false
		for {
			var lines int64
			batch, lines, closed = s.take(batch[:0])
			if lines == 0 {
				break
			}
			if s.write(batch, lines) {
				s.report()
			}
		}
		if closed {
			return
		}
	}
}

// take swaps what is pending for an empty buffer.
func (s *sink) take(empty []byte) (batch []byte, lines int64, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch, s.pending = s.pending, empty
	lines, s.lines = s.lines, 0
	return batch, lines, s.closed
}

// write writes the batch and reports whether all of it was taken. It counts
// the lines that an error cut off; what is left of one is closed by a line end
// before the next, so that one loss does not cost two lines.
func (s *sink) write(batch []byte, lines int64) bool {
	n, err := 0, s.mend()
	if err == nil {
		n, err = s.w.Write(batch)
	}
	if err == nil {
		return true
	}
	s.torn = s.torn || n > 0 && batch[n-1] != '\n'
	lost := lines - int64(bytes.Count(batch[:n], []byte{'\n'}))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped += lost
	s.total += lost
	return false
}

// mend ends the line that an error left incomplete.
func (s *sink) mend() error {
	if !s.torn {
		return nil
	}
	_, err := s.w.Write([]byte{'\n'})
	s.torn = err != nil
	return err
}

// report tells of dropped lines. It comes after a write that worked, and its
// line takes no room among those that wait, so that it is not dropped itself.
func (s *sink) report() {
	s.mu.Lock()
	n := s.dropped
	s.dropped = 0
	s.mu.Unlock()
	if n > 0 {
		s.lost(n)
	}
}

// droppedTotal returns how many lines were dropped since the start.
func (s *sink) droppedTotal() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// close takes no more lines, and waits until those it has are written, but not
// longer than timeout: a stalled log does not hold up the exit.
func (s *sink) close(timeout time.Duration) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.signal()
	select {
	case <-s.done:
	case <-time.After(timeout):
	}
}

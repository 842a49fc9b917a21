//go:build unix

package main

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// writers is how many clients write at a time.
const writers = 4

// writes is a load of clients, each of which connects, writes once, and leaves.
type writes struct {
	once    func() error
	quit    chan struct{}
	running sync.WaitGroup

	mu   sync.Mutex // guards the rest until all have ended
	all  []write
	good int
}

// write is how one of the clients fared.
type write struct {
	begun, over time.Time
	err         error
}

// startWrites starts a load, and waits until some of it was good.
func startWrites(t *testing.T, once func() error) *writes {
	t.Helper()
	l := &writes{once: once, quit: make(chan struct{})}
	for range writers {
		l.running.Go(l.run)
	}
	t.Cleanup(l.stop)
	eventually(t, "some writes are good", func() bool { return l.succeeded() > 50 })
	return l
}

func (l *writes) run() {
	for {
		select {
		case <-l.quit:
			return
		default:
		}
		w := write{begun: time.Now()}
		w.err = l.once()
		w.over = time.Now()
		l.mu.Lock()
		l.all = append(l.all, w)
		if w.err == nil {
			l.good++
		}
		l.mu.Unlock()
	}
}

func (l *writes) succeeded() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.good
}

// stop ends the load and waits for it.
func (l *writes) stop() {
	select {
	case <-l.quit:
	default:
		close(l.quit)
	}
	l.running.Wait()
}

// failover ends a primary under load, and has another promoted. Who came after the
// end must be served. It tells of the time from there to the end of the first
// write of one of those, how much of it was after the promotion, and how many
// failed that had come before.
func (l *writes) failover(t *testing.T, kill, promote func()) (figures string) {
	t.Helper()
	kill()
	gone := time.Now()
	promote()
	promoted := time.Now()
	before := l.succeeded()
	eventually(t, "clients write again", func() bool { return l.succeeded() > before+50 })
	l.stop()
	first, broken := time.Time{}, 0
	for _, w := range l.all {
		switch {
		case w.err == nil && w.begun.After(gone) && (first.IsZero() || w.over.Before(first)):
			first = w.over
		case w.err == nil:
		case w.begun.Before(gone):
			broken++
		default:
			t.Errorf("a client that came %v after the end of the primary: %v", w.begun.Sub(gone), w.err)
		}
	}
	return fmt.Sprintf("first write %v after the end of the primary, %v after the promotion; %d clients were broken off",
		first.Sub(gone).Round(time.Millisecond), first.Sub(promoted).Round(time.Millisecond), broken)
}

package logs

import (
	"sync"
	"time"
)

// burst lets a few lines a second of each key through and counts the others, so
// that a storm of failures costs neither the disk nor the reader, and hides no
// failure of another kind. Its keys are made of names of the configuration, and
// are remembered for a second. Safe for concurrent use.
type burst struct {
	lines int                                    // let through a second, of each key
	more  func(count int64, by map[string]int64) // told once a second what was held back

	// mu guards the fields below.
	mu    sync.Mutex
	start time.Time      // of the second under way
	sent  map[string]int // in it, by key
	held  map[string]int64
}

// allow reports whether a line about key may be written. One that may not is
// counted, and the count is told at the end of the second.
func (b *burst) allow(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.sent == nil || b.held == nil && now.Sub(b.start) >= time.Second {
		b.start, b.sent = now, make(map[string]int)
	}
	if b.sent[key] < b.lines {
		b.sent[key]++
		return true
	}
	if b.held == nil {
		b.held = make(map[string]int64)
		time.AfterFunc(b.start.Add(time.Second).Sub(now), b.flush)
	}
	b.held[key]++
	return false
}

// flush tells what was held back so far and begins a new second.
func (b *burst) flush() {
	b.mu.Lock()
	held := b.held
	b.held, b.sent = nil, nil
	b.mu.Unlock()
	var count int64
	for _, n := range held {
		count += n
	}
	if count > 0 {
		b.more(count, held)
	}
}

//go:build unix

package main

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// terse is head for a test with load: to read a log of every session takes longer
// than what is tested.
var terse = strings.Replace(head, "[log]\n", "[log]\naccess = \"failed\"\n", 1)

// load is clients that visit an address again and again.
type load struct {
	all     sync.WaitGroup
	over    atomic.Bool
	visits  atomic.Int64
	slowest atomic.Int64 // of all visits, failed ones included; nanoseconds

	mu       sync.Mutex // guards failures
	failures []error
}

// startLoad starts n clients, one visit after the other each.
func startLoad(address string, n int) *load {
	l := &load{}
	for range n {
		l.all.Go(func() {
			for !l.over.Load() {
				l.visit(address)
			}
		})
	}
	return l
}

func (l *load) visit(address string) {
	began := time.Now()
	_, err := visit(address)
	took := int64(time.Since(began))
	for old := l.slowest.Load(); took > old && !l.slowest.CompareAndSwap(old, took); old = l.slowest.Load() {
	}
	l.visits.Add(1)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failures = append(l.failures, err)
	}
}

// end ends the clients and returns their failures.
func (l *load) end() []error {
	l.over.Store(true)
	l.all.Wait()
	return l.failures
}

// stop ends the clients and fails the test if one of them failed.
func (l *load) stop(t *testing.T) {
	t.Helper()
	failures := l.end()
	if len(failures) > 0 {
		t.Errorf("%d of %d visits failed, the first: %v", len(failures), l.visits.Load(), failures[0])
	}
	if l.visits.Load() == 0 {
		t.Error("there was no load")
	}
}

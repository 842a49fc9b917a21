package l4

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"sluice/l4/session"
)

// recordsMax bounds the records of one loop that wait to be handed over: as many
// sessions as a loop may well have to end at once, some 20 MB. Chosen.
const recordsMax = 1 << 16

// records hands finished sessions over to their frontends, from a goroutine of
// its own: who takes them may be slow, and then some are dropped and counted.
type records struct {
	dropped atomic.Int64
	over    chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // guards what follows
	some    sync.Cond  // waiting or closed has changed
	waiting []finished
	closed  bool
}

// finished is a session that left, and whose it was.
type finished struct {
	frontend *Frontend
	config   *Config
	record   session.Record
}

func newRecords() *records {
	r := &records{over: make(chan struct{})}
	r.some.L = &r.mu
	go r.run()
	return r
}

// put queues records. It never waits for who takes them.
func (r *records) put(fs []finished) {
	r.mu.Lock()
	room := min(len(fs), max(0, recordsMax-len(r.waiting)))
	r.waiting = append(r.waiting, fs[:room]...)
	r.mu.Unlock()
	r.some.Signal()
	for _, f := range fs[room:] {
		r.dropped.Add(1)
		f.frontend.running.leave()
	}
}

func (r *records) run() {
	defer close(r.over)
	var batch []finished
	for {
		batch = r.take(batch[:0])
		if len(batch) == 0 {
			return
		}
		for i := range batch {
			batch[i].report()
			batch[i] = finished{}
		}
	}
}

// report survives a defect of who takes the record.
func (f *finished) report() {
	defer func() {
		if p := recover(); p != nil {
			f.frontend.fault(fmt.Errorf("the record of a session of %s panicked: %v\n%s", f.frontend.name, p, debug.Stack()))
		}
	}()
	f.frontend.report(f.config, f.record)
}

// take returns everything that waits, in the place of spare; nothing means that
// r is closed.
func (r *records) take(spare []finished) []finished {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.waiting) == 0 && !r.closed {
		r.some.Wait()
	}
	batch := r.waiting
	r.waiting = spare
	return batch
}

// close returns when everything that was put has been handed over.
func (r *records) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.some.Signal()
	<-r.over
}

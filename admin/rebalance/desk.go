package rebalance

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

var (
	// ErrRunning means that one rebalance of the pool has not ended yet.
	ErrRunning = errors.New("a rebalance of the pool runs already")
	// ErrClosed means that the desk was closed.
	ErrClosed = errors.New("the process is about to end")
)

// Desk runs rebalances in the background, one at a time for each pool, and knows
// how the last of each went. Its zero value is ready to use; the caller closes it.
// Safe for concurrent use.
type Desk struct {
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows, jobs included
	jobs   map[string]*job
	closed bool
}

// job is one rebalance.
type job struct {
	progress Progress
	cancel   context.CancelFunc
	done     chan struct{} // closed at its end
}

func (j *job) runs() bool { return j.progress.Ended.IsZero() }

// Start begins a rebalance of the pool of that name, and returns what it is going
// to do. by is who asked for it. ended is told how it ended, unless it is nil.
func (d *Desk) Start(name, by string, o Order, w Work, ended func(Progress)) (Progress, error) {
	now := time.Now()
	r := newRun(now, o, w) // without the mutex: it asks w
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return Progress{}, ErrClosed
	}
	if j := d.jobs[name]; j != nil && j.runs() {
		return j.progress, ErrRunning
	}
	ctx, cancel := context.WithCancel(context.Background())
	j := &job{progress: Foresee(name, nil, o), cancel: cancel, done: make(chan struct{})}
	j.progress.By, j.progress.Started = by, now
	r.progress(&j.progress)
	if d.jobs == nil {
		d.jobs = map[string]*job{}
	}
	d.jobs[name] = j
	d.running.Go(func() {
		defer cancel()
		defer close(j.done)
		d.drive(ctx, r, j)
		if ended != nil {
			ended(j.progress) // nobody changes it any more
		}
	})
	return j.progress, nil
}

// drive gives r its turns until one is the last. The first comes after a step, so
// that who began it hears of that before the end.
func (d *Desk) drive(ctx context.Context, r *run, j *job) {
	t := time.NewTimer(r.step)
	defer t.Stop()
	for r.finished == "" {
		select {
		case <-t.C:
			began := time.Now()
			r.turn(began)
			r.pace(time.Since(began))
			t.Reset(r.step)
		case <-ctx.Done():
			r.finish(cmp.Or(r.work.Over(), Stopped), "it was stopped")
		}
		d.note(r, j)
	}
}

// note makes the progress of r that of its job.
func (d *Desk) note(r *run, j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.progress(&j.progress)
	if r.finished != "" {
		j.progress.Ended = time.Now()
	}
}

// Progress returns how the last rebalance of the pool of that name goes, or went;
// ok is false if there was none.
func (d *Desk) Progress(name string) (p Progress, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.jobs[name]
	if j == nil {
		return Progress{}, false
	}
	return j.progress, true
}

// Stop stops the rebalance of the pool of that name and waits for its end; ok is
// false if none runs.
func (d *Desk) Stop(name string) (p Progress, ok bool) {
	d.mu.Lock()
	j := d.jobs[name]
	ok = j != nil && j.runs()
	d.mu.Unlock()
	if !ok {
		return Progress{}, false
	}
	j.cancel()
	<-j.done
	return d.Progress(name)
}

// Close stops what runs, waits for it, and lets nothing begin any more.
func (d *Desk) Close() {
	d.mu.Lock()
	d.closed = true
	for _, j := range d.jobs {
		j.cancel()
	}
	d.mu.Unlock()
	d.running.Wait()
}

// Package watch notices that the configuration has new content, and says so once
// it is at rest.
//
// It compares content, not times: what is read again and again is a hash of the
// file and of the files that it names. Events of the kernel (package
// fsnotify) only say when to look; a slow poll looks anyway, for file systems
// that tell nothing and where the kernel's limits leave no watch. It applies
// nothing and keeps no configuration: whoever runs it says what has been dealt
// with, and gets every other content until then.
//
//	event, or poll --> Read --> dealt with: nothing
//	                        --> moves: look again when it has settled
//	                        --> missing or empty: told once, after a quiet time
//	                        --> Apply, which may want the quiet time as well:
//	                            what is half written is most likely broken
package watch

import (
	"context"
	"time"
)

const (
	// settleTime is how long the content must stay the same before it counts:
	// longer than an editor pauses between two writes of one save. Chosen.
	settleTime = 200 * time.Millisecond
	// quietTime is how long it must stay the same before it is called broken or
	// missing: a program that writes a file in parts, or that deletes it first,
	// takes a moment. Chosen.
	quietTime = 2 * time.Second
	// pollTime is how often it is read without an event. Chosen: what a person
	// waits, and next to no work for a file of some KB.
	pollTime = 3 * time.Second
)

// Options are what a watch is made of. All are required, and called from the
// goroutine of Run alone.
type Options struct {
	Files func() []string    // absolute paths of what Read reads
	Read  func() Reading     // what they hold now
	Dealt func(Reading) bool // whether that was applied, or refused and told
	// Apply deals with the content of the files. It reports false if it has not,
	// because the content moved or, unless quiet is set, because it is broken.
	Apply func(ctx context.Context, quiet bool) bool
	// Missing tells that there is no content to apply, and why; with "" that the
	// content that was dealt with is back.
	Missing func(why string)
	Blind   func(err error) // the kernel gives no events; told once
}

// Run watches until ctx ends.
func Run(ctx context.Context, o Options) {
	w := &watcher{Options: o, settle: time.NewTimer(0)}
	defer w.settle.Stop()
	w.events.open = openNotify
	w.run(ctx)
}

// watcher is one Run.
type watcher struct {
	Options
	events  events
	settle  *time.Timer // when to look again without an event
	reading Reading     // the newest
	moved   time.Time   // when it last was another one, or an event said so
	told    Reading     // missing content that was told of
}

func (w *watcher) run(ctx context.Context) {
	defer w.events.close()
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.events.some():
			if !ok {
				w.events.close()
			} else if w.events.concern(e) {
				w.moved = time.Now()
				w.settle.Reset(settleTime)
			}
			continue
		case <-w.events.lost():
			w.settle.Reset(settleTime)
			continue
		case <-poll.C:
		case <-w.settle.C:
		}
		w.look(ctx)
	}
}

// look reads the files and decides.
func (w *watcher) look(ctx context.Context) {
	if err := w.events.follow(w.Files()); err != nil {
		w.Blind(err)
	}
	now, r := time.Now(), w.Read()
	if r != w.reading {
		w.reading, w.moved = r, now
	}
	if w.Dealt(r) {
		w.back()
		return
	}
	still := now.Sub(w.moved)
	switch {
	case r == w.told:
	case still < settleTime:
		w.settle.Reset(settleTime - still)
	case r.Missing != "" && still < quietTime:
		w.settle.Reset(quietTime - still)
	case r.Missing != "":
		w.told = r
		w.Missing(r.Missing)
	case w.Apply(ctx, still >= quietTime):
		w.told = Reading{}
	default:
		w.settle.Reset(max(settleTime, quietTime-still))
	}
}

// back ends what was told of missing content.
func (w *watcher) back() {
	if w.told != (Reading{}) {
		w.told = Reading{}
		w.Missing("")
	}
}

package watch

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/fsnotify/fsnotify"
)

// events are what the kernel tells about some files. The zero value, with open
// set, is ready: it is blind until follow.
type events struct {
	open  func() (*fsnotify.Watcher, error)
	fs    *fsnotify.Watcher // nil: blind
	seen  map[string]fs.FileInfo
	names map[string]bool // whose events matter
	blind bool            // that was told
}

func openNotify() (*fsnotify.Watcher, error) { return fsnotify.NewWatcher() }

// some is the channel of events; nil while blind.
func (e *events) some() <-chan fsnotify.Event {
	if e.fs == nil {
		return nil
	}
	return e.fs.Events
}

// lost is the channel of errors: events that found no room, mostly.
func (e *events) lost() <-chan error {
	if e.fs == nil {
		return nil
	}
	return e.fs.Errors
}

// concern reports whether an event may mean new content.
func (e *events) concern(v fsnotify.Event) bool { return v.Op != fsnotify.Chmod && e.names[v.Name] }

func (e *events) close() {
	if e.fs != nil {
		e.fs.Close()
		e.fs = nil
	}
}

// follow watches everything that leads to the files, as it is now. The first
// error in a row is returned: then polling has to do.
func (e *events) follow(files []string) error {
	err := e.watch(files)
	if err == nil {
		e.blind = false
		return nil
	}
	if e.blind {
		return nil
	}
	e.blind = true
	return err
}

func (e *events) watch(files []string) error {
	if e.fs == nil {
		w, err := e.open()
		if err != nil {
			return err
		}
		e.fs, e.seen = w, make(map[string]fs.FileInfo)
	}
	var all trail
	for _, f := range files {
		all.trace(f)
	}
	e.names = all.names
	var errs []error
	for path := range all.watched {
		errs = append(errs, e.add(path))
	}
	for _, path := range e.fs.WatchList() {
		if !all.watched[path] {
			e.drop(path)
		}
	}
	return errors.Join(errs...)
}

// add watches what is at path now. The kernel watches what a path led to once,
// so that a replaced file needs a new watch.
func (e *events) add(path string) error {
	now, err := os.Stat(path)
	if err != nil {
		return nil // it is gone again, which its directory tells
	}
	if slices.Contains(e.fs.WatchList(), path) {
		if was := e.seen[path]; was != nil && os.SameFile(was, now) {
			return nil
		}
		e.drop(path)
	}
	e.seen[path] = now
	if err := e.fs.Add(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (e *events) drop(path string) {
	delete(e.seen, path)
	_ = e.fs.Remove(path) // the kernel may have done it
}

// Package state keeps what the API changed in a file, so that a restart, or a
// crash, has it again.
//
// A [Keeper] is told that something changed, asks what is to be kept now, and
// writes it whole: to a file beside, fsync, rename, fsync of the directory. What
// a call of Save returned from is on disk. Changes that come while it writes are
// written together. It decides nothing about the values; package pool has the
// rules.
//
//	Open    read what an earlier process kept
//	Save    write what is to be kept now; nothing if the file has it already
//	Use     move to another place
//
// Invariants:
//
//   - A place that cannot be written fails no change and stops nothing: it is a
//     warning, shown in the status, and tried again.
//   - A file that is not known to be this configuration's own is never written
//     over: another's is left alone, a broken one is set aside.
//   - One goroutine at a time uses the disk, and nobody waits for it without a
//     bound.
package state

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/admin"
	"sluice/pool"

	"go.uber.org/zap"
)

// patience is how long Save waits for a disk. Chosen.
const patience = 5 * time.Second

// None is the state_file that keeps nothing.
const None = "none"

// Options are what a keeper is made of. All are required.
type Options struct {
	Config string                           // absolute path of the configuration that the state belongs to
	Source func() map[string]pool.Overrides // what is to be kept now, by pool, without empty ones
	Log    *zap.Logger
}

// Keeper keeps one state. Safe for concurrent use.
type Keeper struct {
	options Options
	due     atomic.Bool   // something may differ from the file
	turn    chan struct{} // held by whoever uses the disk

	// These belong to the holder of turn.
	path    string // where written is
	written []byte // what the file is known to hold; nil: there is none, or it is not ours

	mu     sync.Mutex // guards what follows
	place  string     // where it is to be; empty: nowhere
	status admin.StateFile
	warned time.Time
	retry  *time.Timer // nil: none is due
	closed bool
}

// Place returns where the state is kept that belongs to the configuration at
// the absolute path config, if state_file in it is key; empty: nowhere.
func Place(key, config string) string {
	switch key {
	case None:
		return ""
	case "":
	default:
		if abs, err := filepath.Abs(key); err == nil {
			return abs
		}
		return key
	}
	// Where a unit has several, systemd separates them by colons.
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); dir != "" {
		return filepath.Join(dir, "state.json")
	}
	return filepath.Join(filepath.Dir(config), "state.json")
}

// Open returns a keeper for the file at path, and what that holds. What is wrong
// with it goes to the log: a start goes on without.
func Open(o Options, path string) (*Keeper, map[string]pool.Overrides) {
	k := &Keeper{options: o, turn: make(chan struct{}, 1), path: path, place: path}
	k.status = admin.StateFile{Path: path, Saved: true}
	if path == "" {
		return k, nil
	}
	text, err := k.owned(path)
	var kept map[string]pool.Overrides
	if err == nil {
		kept, err = decode(text)
	}
	switch {
	case err == nil:
		k.written = text
	case errors.Is(err, fs.ErrNotExist):
	case errors.As(err, new(broken)):
		_, err = setAside(path, err)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.status.Error = err.Error()
		k.warn("state file not used", err)
	}
	return k, kept
}

// Use moves the state to path, if it is elsewhere, and saves it.
func (k *Keeper) Use(path string) {
	k.mu.Lock()
	k.place = path
	k.mu.Unlock()
	k.Save()
}

// Save returns once everything is on disk that was changed before the call, or
// once that has failed, which the status and the log tell.
func (k *Keeper) Save() {
	k.due.Store(true)
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case k.turn <- struct{}{}:
	case <-late.C:
		k.failed(errSlow)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { <-k.turn }()
		for k.due.Swap(false) {
			k.save()
		}
	}()
	select {
	case <-done:
	case <-late.C:
		k.failed(errSlow)
	}
}

// save writes what is to be kept, where it is to be, unless it is there. It needs
// the turn.
func (k *Keeper) save() {
	k.mu.Lock()
	place := k.place
	k.mu.Unlock()
	var text []byte
	if place != "" {
		text = encode(k.options.Config, k.options.Source())
	}
	if place == k.path && bytes.Equal(text, k.written) {
		k.saved(false)
		return
	}
	before := k.path
	if place != "" {
		if err := k.put(place, text); err != nil {
			k.failed(err)
			return
		}
	}
	k.path, k.written = place, text
	k.saved(text != nil && place != "")
	if before != "" && before != place {
		k.leave(before)
	}
}

// leave removes the file at a place that is no longer the state's. If it cannot,
// nothing is lost.
func (k *Keeper) leave(path string) {
	if err := k.put(path, nil); err != nil {
		k.warn("former state file not removed", err)
	}
}

// Close tries a last time to write what could not be written, and ends the
// attempts.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	if k.retry != nil {
		k.retry.Stop()
	}
	lost := !k.status.Saved
	k.mu.Unlock()
	if lost {
		k.Save()
	}
}

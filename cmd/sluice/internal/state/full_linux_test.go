package state

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"sluice/pool"
)

// A disk that is full leaves the file whole that was there.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	done := make(chan error)
	go func() {
		defer close(done)
		// The thread has mounts of its own from here on, and ends with the goroutine.
		runtime.LockOSThread()
		if err := mount(dir); err != nil {
			done <- err
			return
		}
		path := filepath.Join(dir, "state.json")
		k := &Keeper{options: Options{Config: "/c"}}
		few := encode("/c", map[string]pool.Overrides{"p": {Deleted: make([]pool.Deletion, 1)}})
		many := encode("/c", map[string]pool.Overrides{"p": {Deleted: make([]pool.Deletion, 1000)}})
		if err := k.put(path, few); err != nil {
			t.Error(err)
		}
		if err := k.put(path, many); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v, want that the disk is full", err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != string(few) {
			t.Errorf("got %q, %v, want what was there", text, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("got %v, %v, want one file", entries, err)
		}
		if err := k.put(path, []byte(strings.ToUpper(string(few)))); err != nil {
			t.Errorf("a small file after a large one: %v", err)
		}
	}()
	if err := <-done; err != nil {
		t.Skipf("no file system of its own: %v", err)
	}
}

// mount gives this thread a small file system at dir.
func mount(dir string) error {
	if err := syscall.Unshare(syscall.CLONE_FS | syscall.CLONE_NEWNS); err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k")
}

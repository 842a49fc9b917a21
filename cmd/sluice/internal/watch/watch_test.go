package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// good is a content that the fake below takes; others are broken.
const good = "good "

// rig is a watch of one file, or of two, by somebody who applies what begins
// with good.
type rig struct {
	t    *testing.T
	path string
	more []string // further files

	mu      sync.Mutex // guards what follows
	dealt   Reading
	applied []string // contents
	broken  []string // contents that were called broken
	missing []string
	blind   []error
}

// watchFile begins to watch path, whose content counts as dealt with.
func watchFile(t *testing.T, path string, more []string, open func() (*fsnotify.Watcher, error)) *rig {
	t.Helper()
	r := &rig{t: t, path: path, more: more, dealt: Read(path, more)}
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{Options: r.options(), settle: time.NewTimer(0)}
	w.events.open = open
	ended := make(chan bool)
	go func() {
		defer close(ended)
		w.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return r
}

func (r *rig) options() Options {
	return Options{
		Files: func() []string { return append([]string{r.path}, r.more...) },
		Read:  func() Reading { return Read(r.path, r.more) },
		Dealt: func(now Reading) bool { return r.with(func() {}) && now == r.dealt },
		Apply: func(_ context.Context, quiet bool) bool { return r.apply(quiet) },
		Missing: func(why string) {
			r.with(func() { r.missing = append(r.missing, why) })
		},
		Blind: func(err error) { r.with(func() { r.blind = append(r.blind, err) }) },
	}
}

// with calls f with the mutex held, and returns true.
func (r *rig) with(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	return true
}

func (r *rig) apply(quiet bool) bool {
	text, _ := os.ReadFile(r.path)
	fine := len(text) > len(good) && string(text[:len(good)]) == good && text[len(text)-1] == '\n'
	if !fine && !quiet {
		return false
	}
	return r.with(func() {
		r.dealt = Read(r.path, r.more)
		if fine {
			r.applied = append(r.applied, string(text))
		} else {
			r.broken = append(r.broken, string(text))
		}
	})
}

// counts returns how often each thing happened.
func (r *rig) counts() (applied, broken, missing, blind int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.applied), len(r.broken), len(r.missing), len(r.blind)
}

// awaitApplied waits until n contents were applied, and wants no more.
func (r *rig) awaitApplied(n int) {
	r.t.Helper()
	r.await("applied", func() bool { applied, _, _, _ := r.counts(); return applied >= n })
	if applied, broken, missing, _ := r.counts(); applied != n || broken != 0 || missing != 0 {
		r.t.Fatalf("got %d applied, %d broken, %d missing; want %d, 0, 0", applied, broken, missing, n)
	}
}

func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// blindly is a kernel that has no watch left.
func blindly() (*fsnotify.Watcher, error) { return nil, errors.New("no space left on device") }

// synced runs f on a virtual clock, without events: then polls alone look.
func synced(t *testing.T, f func(t *testing.T, path string, r *rig)) {
	path := filepath.Join(t.TempDir(), "c")
	write(t, path, good+"0\n")
	synctest.Test(t, func(t *testing.T) {
		r := watchFile(t, path, nil, blindly)
		synctest.Wait()
		f(t, path, r)
	})
}

// Without events a poll notices, and one that moves is left to settle.
func TestPollAlone(t *testing.T) {
	synced(t, func(t *testing.T, path string, r *rig) {
		for i := range 3 {
			write(t, path, good+string(rune('1'+i))+"\n")
			time.Sleep(pollTime + settleTime + time.Millisecond)
			synctest.Wait()
			r.awaitApplied(i + 1)
		}
		time.Sleep(time.Hour)
		if _, _, _, blind := r.counts(); blind != 1 {
			t.Errorf("said %d times that there are no events, want once", blind)
		}
		r.awaitApplied(3)
	})
}

// A content that is broken is said to be so once, and not before it has been
// quiet; one that is broken for a moment never is.
func TestBrokenIsToldOnceAndLate(t *testing.T) {
	synced(t, func(t *testing.T, path string, r *rig) {
		write(t, path, "brok")
		time.Sleep(pollTime + quietTime/2)
		write(t, path, good+"1\n")
		time.Sleep(pollTime + settleTime)
		synctest.Wait()
		r.awaitApplied(1)

		write(t, path, "broken")
		time.Sleep(quietTime - time.Millisecond)
		synctest.Wait()
		if _, broken, _, _ := r.counts(); broken != 0 {
			t.Errorf("called broken after less than %v", quietTime)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if applied, broken, _, _ := r.counts(); applied != 1 || broken != 1 {
			t.Errorf("after an hour: got %d applied, %d broken; want 1, 1", applied, broken)
		}
		write(t, path, "broken in another way")
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, broken, _, _ := r.counts(); broken != 2 {
			t.Errorf("got %d broken, want 2", broken)
		}
	})
}

// A file that is gone or empty is never applied and told of once, until it is
// back.
func TestMissingIsToldOnce(t *testing.T) {
	synced(t, func(t *testing.T, path string, r *rig) {
		want := []string{}
		for _, c := range []struct {
			why  string
			take func()
		}{
			{"is gone", func() { must(t, os.Remove(path)) }},
			{"is empty", func() { write(t, path, "") }},
			{"is empty", func() { write(t, path, " \n\t\n") }},
		} {
			c.take()
			time.Sleep(time.Hour)
			write(t, path, good+"0\n")
			time.Sleep(time.Minute)
			want = append(want, c.why, "")
		}
		synctest.Wait()
		if applied, broken, _, _ := r.counts(); applied != 0 || broken != 0 {
			t.Errorf("got %d applied, %d broken; want none", applied, broken)
		}
		var missing []string
		r.with(func() { missing = slices.Clone(r.missing) })
		if !slices.Equal(missing, want) {
			t.Fatalf("got %q, want %q", missing, want)
		}
		must(t, os.Remove(path))
		time.Sleep(time.Minute)
		write(t, path, good+"1\n")
		time.Sleep(time.Minute)
		synctest.Wait()
		if applied, _, missing, _ := r.counts(); applied != 1 || missing != len(want)+1 {
			t.Errorf("back with another content: got %d applied, %d missing; want 1, %d", applied, missing, len(want)+1)
		}
	})
}

// B127: the same content again, or another mode, is nothing.
func TestSameContentIsNothing(t *testing.T) {
	synced(t, func(t *testing.T, path string, r *rig) {
		for i := range 50 {
			write(t, path, good+"0\n")
			must(t, os.Chmod(path, 0o600|os.FileMode(i%2)*0o044))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.awaitApplied(0)
	})
}

// The files that the configuration names belong to its content, each at its place.
func TestNamedFilesCount(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	path, first, second := filepath.Join(dir, "c"), filepath.Join(dir, "tokens"), filepath.Join(other, "password")
	write(t, path, good+"0\n")
	write(t, first, "one")
	write(t, second, "one")
	r := watchFile(t, path, []string{first, second}, openNotify)
	for i, c := range []struct{ file, text string }{{first, "two"}, {second, "three"}, {second, "four"}} {
		write(t, c.file, c.text)
		r.awaitApplied(i + 1)
	}
	must(t, os.Remove(second))
	r.awaitApplied(4) // whether that is a mistake is not for the watch to say
	if a, b := Read(path, []string{first, path}), Read(path, []string{path, first}); a == b {
		t.Error("files that change places are the same content")
	}
}

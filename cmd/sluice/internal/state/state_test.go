package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// rig is a keeper of one pool's deletions, which stand for all changes.
type rig struct {
	*Keeper
	t    *testing.T
	kept map[string]pool.Overrides // as Open returned it
	logs *observer.ObservedLogs

	mu      sync.Mutex
	deleted []pool.Deletion
	asked   func() // if it is set, called once when the keeper has asked
}

func open(t *testing.T, config, path string) *rig {
	t.Helper()
	core, seen := observer.New(zapcore.InfoLevel)
	r := &rig{t: t, logs: seen}
	r.Keeper, r.kept = Open(Options{Config: config, Source: r.source, Log: zap.New(core)}, path)
	r.deleted = r.kept["p"].Deleted
	t.Cleanup(r.Close)
	return r
}

func (r *rig) source() map[string]pool.Overrides {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked != nil {
		defer r.asked()
		r.asked = nil
	}
	if len(r.deleted) == 0 {
		return nil
	}
	return map[string]pool.Overrides{"p": {Deleted: append([]pool.Deletion(nil), r.deleted...)}}
}

// remove is a change by the API.
func (r *rig) remove(id string) {
	r.mu.Lock()
	r.deleted = append(r.deleted, pool.Deletion{Spec: pool.Spec{ID: id, Address: "a:1"}})
	r.mu.Unlock()
	r.Save()
}

// forget takes all changes back.
func (r *rig) forget() {
	r.mu.Lock()
	r.deleted = nil
	r.mu.Unlock()
	r.Save()
}

// want wants the file to hold these changes for the next process; none is no
// file.
func want(t *testing.T, config, path string, ids ...string) {
	t.Helper()
	var got []string
	for _, d := range open(t, config, path).kept["p"].Deleted {
		got = append(got, d.Spec.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("%s holds %v, want %v", path, got, ids)
	}
	if _, err := os.Stat(path); len(ids) == 0 && !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", path, err)
	}
	if _, err := os.Stat(path + ".new"); !os.IsNotExist(err) {
		t.Errorf("%s.new is there: %v", path, err)
	}
}

func (r *rig) wantStatus(saved bool, failures int64, problem string) {
	r.t.Helper()
	s := r.Status()
	if s.Saved != saved || s.Failures != failures || !strings.Contains(s.Error, problem) || (problem == "") != (s.Error == "") {
		r.t.Errorf("got %+v, want saved %v, %d failures, error %q", s, saved, failures, problem)
	}
}

func TestWhatIsSavedIsThereForTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	r := open(t, "/c", path)
	r.Save()
	want(t, "/c", path)
	r.remove("a")
	want(t, "/c", path, "a")
	r.remove("b")
	want(t, "/c", path, "a", "b")
	r.wantStatus(true, 0, "")
	if s := r.Status(); s.Path != path || time.Since(s.LastWritten) > time.Minute {
		t.Errorf("got %+v", s)
	}
	if info, err := os.Stat(path); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o600) {
		t.Errorf("got %v, %v, want mode 0600", info.Mode(), err)
	}
	r.forget()
	want(t, "/c", path)
	if n := r.logs.Len(); n != 0 {
		t.Errorf("got log lines %v", r.logs.All())
	}
}

// A file that has it already is not written.
func TestNoChangeIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	open(t, "/c", path).remove("a")
	r := open(t, "/c", path)
	before, _ := os.Stat(path)
	r.Save()
	r.Use(path)
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) || !r.Status().LastWritten.IsZero() {
		t.Errorf("it was written again: %v, %+v", err, r.Status())
	}
}

// Each change is on disk when its Save returns, and many at once share writes.
func TestChangesAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	r := open(t, "/c", path)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			id := fmt.Sprint("b", i)
			r.remove(id)
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), `"`+id+`"`) {
				t.Errorf("%s is not in the file: %v", id, err)
			}
		})
	}
	all.Wait()
	r.wantStatus(true, 0, "")
}

// B126: two processes whose configurations lie in one directory.
func TestStateOfAnotherIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	first, second := open(t, "/first.toml", path), open(t, "/second.toml", path)
	first.remove("a")
	second.remove("b")
	second.wantStatus(false, 1, "belongs to the configuration /first.toml")
	want(t, "/first.toml", path, "a")

	third := open(t, "/third.toml", path)
	if len(third.kept) != 0 {
		t.Errorf("got %v of another configuration", third.kept)
	}
	third.wantStatus(true, 0, "set state_file")
	third.remove("c")
	third.forget()
	third.wantStatus(true, 1, "")
	want(t, "/first.toml", path, "a")

	other := path + ".second"
	second.Use(other)
	second.wantStatus(true, 1, "")
	want(t, "/second.toml", other, "b")
	want(t, "/first.toml", path, "a")
}

// Of two that find no file only one makes one.
func TestTwoWithoutAFile(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "state.json")
		a, b := open(t, "/a", path), open(t, "/b", path)
		var both sync.WaitGroup
		both.Go(func() { a.remove("a") })
		both.Go(func() { b.remove("b") })
		both.Wait()
		if a.Status().Saved && b.Status().Saved {
			t.Fatal("both are said to be saved in one file")
		}
	}
}

// Of two that have found no file the second one gets to know whose it is now.
func TestClaimTakesNothingAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	open(t, "/a", path).remove("a")
	b := open(t, "/b", path)
	if err := os.WriteFile(path+".new", []byte("of b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.claim(path+".new", path); !errors.As(err, new(foreign)) {
		t.Errorf("got %v, want that it belongs to /a", err)
	}
	os.Remove(path + ".new")
	want(t, "/a", path, "a")
}

// What changes after the keeper has asked is written as well, although nobody
// waits for it any more.
func TestChangeDuringAWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	r := open(t, "/c", path)
	r.asked = func() {
		r.deleted = append(r.deleted, pool.Deletion{Spec: pool.Spec{ID: "b", Address: "b:1"}})
		r.due.Store(true)
	}
	r.remove("a")
	want(t, "/c", path, "a", "b")
}

func TestBrokenFileIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	open(t, "/c", path).remove("a")
	good, _ := os.ReadFile(path)
	texts := map[string]string{
		"cut":     string(good[:len(good)/2]),
		"empty":   "",
		"zeros":   strings.Repeat("\x00", 100),
		"newer":   strings.Replace(string(good), `"version": 1`, `"version": 2`, 1),
		"unknown": strings.Replace(string(good), `"version": 1,`, `"version": 1, "more": 2,`, 1),
	}
	var kept []string
	for name, text := range texts {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := open(t, "/c", path)
		lines := r.logs.FilterMessage("state file not used").All()
		if len(r.kept) != 0 || len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()), path+".bad") {
			t.Errorf("%s: got %v and lines %v, want nothing and the new name", name, r.kept, lines)
		}
		kept = append(kept, text)
		for i, text := range kept {
			aside := path + ".bad"
			if i > 0 {
				aside += fmt.Sprint(".", i+1)
			}
			if got, err := os.ReadFile(aside); err != nil || string(got) != text {
				t.Errorf("%s: %s: got %q, %v, want %q", name, aside, got, err, text)
			}
		}
		r.remove("b")
		want(t, "/c", path, "b")
		r.forget()
	}
}

// A slip in the path must not cost another file.
func TestOtherFilesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(file, []byte("[process]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, problem := range map[string]string{
		file: "is no state file and is left alone", dir: "not a regular file", os.DevNull: "not a regular file",
	} {
		if path == os.DevNull && runtime.GOOS == "windows" {
			continue
		}
		r := open(t, "/c", path)
		r.remove("a")
		r.wantStatus(false, 1, problem)
		r.forget()
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "[process]\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

// A place that cannot be written is one warning, and is tried again.
func TestUnwritablePlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "state.json")
	r := open(t, "/c", path)
	r.wantStatus(true, 0, "")
	r.remove("a")
	r.remove("b")
	r.wantStatus(false, 2, "no such file")
	if n := r.logs.FilterLevelExact(zapcore.WarnLevel).Len(); n != 1 {
		t.Errorf("got %d warnings of 2 failures, want 1: %v", n, r.logs.All())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.tryAgain()
	r.wantStatus(true, 2, "")
	if n := r.logs.FilterMessage("state file written again").Len(); n != 1 {
		t.Errorf("got %v, want one line of the recovery", r.logs.All())
	}
	want(t, "/c", path, "a", "b")
}

// What could not be written is tried a last time at the stop.
func TestCloseTriesAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "state.json")
	r := open(t, "/c", path)
	r.remove("a")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.Close()
	want(t, "/c", path, "a")
}

// A disk that does not answer holds nobody up for good, and what came meanwhile
// is written when it does.
func TestDiskThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	synctest.Test(t, func(t *testing.T) {
		r := open(t, "/c", path)
		r.turn <- struct{}{} // as a write that hangs
		began := time.Now()
		r.remove("a")
		if took := time.Since(began); took != patience {
			t.Errorf("gave up after %v, want %v", took, patience)
		}
		r.wantStatus(false, 1, "does not answer")
		<-r.turn
		time.Sleep(again)
		synctest.Wait()
		r.wantStatus(true, 1, "")
	})
	want(t, "/c", path, "a")
}

// Nobody has to change anything for the next attempt.
func TestTriesAgainByItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "state.json")
	synctest.Test(t, func(t *testing.T) {
		r := open(t, "/c", path)
		r.remove("a")
		time.Sleep(repeated + again)
		synctest.Wait()
		r.wantStatus(false, 1+int64((repeated+again)/again), "no such file")
		if n := r.logs.Len(); n != 2 {
			t.Errorf("got %d lines in %v, want 2", n, repeated+again)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(again)
		synctest.Wait()
		if s := r.Status(); !s.Saved {
			t.Errorf("got %+v", s)
		}
	})
	want(t, "/c", path, "a")
}

func TestMove(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from.json"), filepath.Join(dir, "to.json")
	r := open(t, "/c", from)
	r.remove("a")
	r.Use(to)
	want(t, "/c", from)
	want(t, "/c", to, "a")

	nowhere := filepath.Join(dir, "nowhere", "state.json")
	r.Use(nowhere)
	r.wantStatus(false, 1, "no such file")
	want(t, "/c", to, "a") // it is not lost

	r.Use("")
	r.wantStatus(true, 1, "")
	want(t, "/c", to)
	r.remove("b")
	if s := r.Status(); s.Path != "" {
		t.Errorf("got %+v, want off", s)
	}
	r.Use(from)
	want(t, "/c", from, "a", "b")
}

// A link to a file elsewhere stays one.
func TestLink(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.json"), filepath.Join(dir, "state.json")
	open(t, "/c", real).remove("a")
	if err := os.Symlink(real, link); err != nil {
		t.Skip(err)
	}
	r := open(t, "/c", link)
	r.remove("b")
	want(t, "/c", real, "a", "b")
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("got %v, %v, want a link", info, err)
	}
}

// What a process that was killed while writing leaves behind does no harm.
func TestLeftoverOfACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	open(t, "/c", path).remove("a")
	if err := os.WriteFile(path+".new", []byte(`{"version": 1, "conf`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, "/c", path)
	r.remove("b")
	want(t, "/c", path, "a", "b")
}

func TestPlace(t *testing.T) {
	here, _ := os.Getwd()
	for _, c := range []struct{ key, dirs, want string }{
		{"", "", "/etc/sluice/state.json"},
		{"", "/var/lib/sluice", "/var/lib/sluice/state.json"},
		{"", "/var/lib/sluice:/var/lib/other", "/var/lib/sluice/state.json"},
		{"none", "/var/lib/sluice", ""},
		{"/run/x.json", "/var/lib/sluice", "/run/x.json"},
		{"x.json", "", filepath.Join(here, "x.json")},
	} {
		t.Setenv("STATE_DIRECTORY", c.dirs)
		if got := Place(c.key, "/etc/sluice/config.toml"); got != c.want {
			t.Errorf("state_file %q, $STATE_DIRECTORY %q: got %q, want %q", c.key, c.dirs, got, c.want)
		}
	}
}

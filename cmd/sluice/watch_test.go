//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// watched is a balancer that watches its file, and a text that differs by a
// number.
func watched(t *testing.T) (d *daemon, text func(i int) string) {
	t.Helper()
	a := l4test.Serve(t, l4test.Tag("A"))
	text = func(i int) string {
		return "[process]\nwatch = true\n" + terse + frontendText("web", free, "p", fmt.Sprintf("attempts = %d", i+1)) +
			poolText("p", "", "A="+a.Addr)
	}
	return startDaemon(t, text(0)), text
}

// awaitWatch waits for n lines of reloads by the watch.
func (d *daemon) awaitWatch(msg string, n int) (lines []map[string]any) {
	d.t.Helper()
	eventually(d.t, fmt.Sprint(n, " lines ", msg, " by the watch"), func() bool {
		lines = slices.DeleteFunc(d.lines(msg), func(line map[string]any) bool { return line["by"] != "watch" })
		return len(lines) >= n
	})
	return lines
}

// B116, B127: what is saved applies by itself; the same content is nothing; what
// is broken is told once, and the next good content applies.
func TestWatchReloads(t *testing.T) {
	t.Parallel()
	d, text := watched(t)
	for i := 1; i <= 3; i++ {
		d.write(text(i))
		d.awaitWatch(reloaded, i)
	}
	for range 50 {
		d.write(text(3))
	}
	d.write(text(3) + "colour = 1\n")
	line := d.awaitWatch(refused, 1)[0]
	if errors := fmt.Sprint(line["errors"]); line["level"] != "error" || !strings.Contains(errors, "colour") {
		t.Errorf("got %v", line)
	}
	if last := d.view().LastReload; last.Successful || last.By != "watch" {
		t.Errorf("got %+v of a broken file", last)
	}
	d.write(text(4))
	d.awaitWatch(reloaded, 4)
	d.write("")
	eventually(t, "the empty file is told of", func() bool { return len(d.lines("configuration file is empty; the configuration in force stays")) == 1 })
	if v := d.view(); v.Generation != 5 || v.LastReload.Successful {
		t.Errorf("got generation %d and %+v, want 5 and that the file has nothing", v.Generation, v.LastReload)
	}
	d.write(text(4))
	d.await("the return", "configuration file is back, unchanged")
	if v := d.view(); v.Generation != 5 || !v.LastReload.Successful {
		t.Errorf("got generation %d and %+v, want 5 and success", v.Generation, v.LastReload)
	}
	for msg, n := range map[string]int{reloaded: 4, refused: 1, unchanged: 0} {
		if got := len(d.lines(msg)); got != n {
			t.Errorf("got %d lines %q, want %d", got, msg, n)
		}
	}
}

// What a signal or the API has loaded is no news to the watch.
func TestWatchKnowsWhatWasLoaded(t *testing.T) {
	t.Parallel()
	d, text := watched(t)
	d.reload(text(1)) // or the watch was faster
	d.write(text(1) + "colour = 1\n")
	d.hangUp(refused)
	d.write(text(2))
	d.awaitWatch(reloaded, 1)
	if n := len(d.lines(refused)); n != 1 {
		t.Errorf("got %d lines of one broken content, want 1", n)
	}
	if v := d.view(); v.Generation != 3 {
		t.Errorf("got generation %d, want 3", v.Generation)
	}
}

// The key itself is live, both ways.
func TestWatchIsSwitched(t *testing.T) {
	t.Parallel()
	d, text := watched(t)
	off := func(i int) string { return strings.Replace(text(i), "watch = true", "watch = false", 1) }
	d.write(off(0))
	d.awaitWatch(reloaded, 1)
	d.write(off(1))
	d.hangUp(reloaded) // had the watch seen it before, nothing would have changed
	d.write(text(1))
	d.hangUp(reloaded)
	d.write(text(2))
	d.awaitWatch(reloaded, 2)
	if v := d.view(); v.Generation != 5 {
		t.Errorf("got generation %d, want 5", v.Generation)
	}
}

// A token is replaced by writing the same file again.
func TestWatchTokenFile(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	give := func(token string) {
		t.Helper()
		if err := os.WriteFile(tokens, []byte("operate "+token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	give("the-first-of-the-tokens")
	d := startDaemon(t, "[process]\nwatch = true\n"+strings.Replace(head, "[admin]\n", "[admin]\ntoken_file = \""+tokens+"\"\n", 1)+
		frontendText("web", free, "p")+"[[pool]]\nname = \"p\"\n")
	patch := func(token string) int {
		r, err := http.NewRequest("PATCH", "http://"+d.admin+"/pools/p", strings.NewReader(`{"strategy": "round_robin"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := adminClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	give("the-second-of-the-tokens")
	line := d.awaitWatch(reloaded, 1)[0]
	if got := fmt.Sprint(line["changes"]); got != "[admin: tokens changed]" {
		t.Errorf("got changes %s", got)
	}
	if first, second := patch("the-first-of-the-tokens"), patch("the-second-of-the-tokens"); first != 401 || second != 200 {
		t.Errorf("the old token got %d, the new one %d; want 401, 200", first, second)
	}
}

// A token file that comes only after the configuration that names it was refused
// is noticed all the same.
func TestWatchTokenFileThatComesLate(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	text := "[process]\nwatch = true\n" + head + frontendText("web", free, "p") + poolText("p", "", "A=127.0.0.1:9")
	d := startDaemon(t, text)
	d.write(strings.Replace(text, "[admin]\n", "[admin]\ntoken_file = \""+tokens+"\"\n", 1))
	d.awaitWatch(refused, 1)
	if err := os.WriteFile(tokens, []byte("operate the-first-of-the-tokens\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.awaitWatch(reloaded, 1)
}

// B111: a file that is written in parts is one reload, and no client notices.
func TestWatchOfHalfWrittenSaves(t *testing.T) {
	t.Parallel()
	d, text := watched(t)
	load := startLoad(d.frontend("web").Listen, 2)
	const saves = 15
	for i := 1; i <= saves; i++ {
		whole := text(i)
		for _, part := range []string{"", whole[:len(whole)/2], whole} {
			if err := os.WriteFile(d.file, []byte(part), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond) // as the editor pauses
		}
		d.awaitWatch(reloaded, i)
	}
	load.stop(t)
	if v := d.view(); v.Generation != saves+1 {
		t.Errorf("got generation %d after %d saves", v.Generation, saves)
	}
	if lines := d.lines(refused); len(lines) != 0 {
		t.Errorf("half a file was called broken: %v", lines[0])
	}
}

// B114: a single file that is mounted into a container, and written through the
// path that it came from.
func TestWatchOfBindMountedFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("SKIPPED: a bind mount needs Linux and root")
	}
	if out, err := exec.Command("unshare", "-m", "true").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no mount namespace: %v: %s", err, out)
	}
	a := l4test.Serve(t, l4test.Tag("A"))
	text := func(i int) string {
		return head + frontendText("web", free, "p", fmt.Sprintf("attempts = %d", i+1)) + poolText("p", "", "A="+a.Addr)
	}
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from.toml"), filepath.Join(dir, "inside", "to.toml")
	if err := os.Mkdir(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{from, to} {
		if err := os.WriteFile(path, []byte(text(0)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := command("run", "-c", to)
	cmd.Args = []string{"unshare", "-m", "sh", "-c", `mount --bind "$0" "$1" && exec "$2" run -c "$1"`, from, to, cmd.Path}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = unshare
	d := &daemon{t: t, file: from, process: startProcess(t, cmd)}
	d.await("the start", "started")
	for i := 1; i <= 3; i++ {
		if err := os.WriteFile(from, []byte(text(i)), 0o600); err != nil {
			t.Fatal(err)
		}
		d.awaitWatch(reloaded, i)
	}
}

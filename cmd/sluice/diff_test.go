//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/pool"
)

// diff runs "sluice diff" against the daemon.
func (d *daemon) diff(args ...string) (status int, stdout, stderr string) {
	d.t.Helper()
	return sluiceRun(d.t, append([]string{"diff", "--admin", d.admin}, args...)...)
}

func TestDiff(t *testing.T) {
	t.Parallel()
	text, c := three(t)
	d := startDaemon(t, text(""))
	if status, out, errs := d.diff(); status != 0 || out != "" || errs != "" {
		t.Errorf("without a difference: got %d %q %q", status, out, errs)
	}
	b := d.backend("p", "B").Address
	d.must("PATCH", "/backends/A", `{"state": "maint", "max_sessions": 1000000}`)
	d.must("POST", "/backends", fmt.Sprintf(`{"id": "C", "address": %q, "weight": 3}`, c.Addr))
	d.must("DELETE", "/backends/B", "")
	d.must("PATCH", "/pools/p", `{"strategy": "least_connections"}`)
	d.mustReload("[process]\nloops = 3\n" + text(""))

	status, out, errs := d.diff()
	want := []string{
		"process.loops is 3 in the file, and runs as ",
		"pool p: strategy is round_robin in the file, and runs as least_connections (by the API, 2",
		"pool p: backend A max_sessions is 0 in the file, and runs as 1000000 (by the API, 2",
		"pool p: backend A state is ready in the file, and runs as maint (by the API, 2",
		"pool p: backend C is not in the file, and runs (" + c.Addr + ", weight 3, max_sessions 0, ready) (by the API, 2",
		"pool p: backend B is in the file (" + b + ", weight 1, max_sessions 0), and was removed (by the API, 2",
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != 1 || errs != "" || len(lines) != len(want) {
		t.Fatalf("got status %d, %q and\n%s\nwant 1 and %d lines", status, errs, out, len(want))
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("got  %s\nwant %s", lines[i], want[i])
		}
	}

	status, out, _ = d.diff("--json", "--pool", "p", "--backend", "A")
	var list struct{ Differences []pool.Difference }
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != 1 || len(list.Differences) != 2 || list.Differences[0].Since.IsZero() {
		t.Errorf("got %d, %v, %s", status, err, out)
	}
	if status, out, _ := d.diff("--backend", "B"); status != 1 || strings.Count(out, "\n") != 1 {
		t.Errorf("of a backend that was removed: got %d %q", status, out)
	}
}

// A typo is no answer.
func TestDiffOfWhatThereIsNot(t *testing.T) {
	t.Parallel()
	text, _ := three(t)
	d := startDaemon(t, text(""))
	for _, c := range []struct{ flags, want string }{
		{"--pool q", `no such pool: "q"`},
		{"--pool q --backend A", `no such pool: "q"`},
		{"--backend X", `no such backend: "X"`},
		{"--pool p --backend X", `no such backend: "X"`},
	} {
		if status, out, errs := d.diff(strings.Fields(c.flags)...); status != 2 || out != "" || strings.TrimSpace(errs) != c.want {
			t.Errorf("%s: got %d %q %q, want 2 and %s", c.flags, status, out, errs, c.want)
		}
	}
	if status, out, _ := d.diff("--pool", "p", "--backend", "A"); status != 0 || out != "" {
		t.Errorf("without a difference: got %d %q", status, out)
	}
}

func TestDiffForgets(t *testing.T) {
	t.Parallel()
	text, c := three(t)
	d := startDaemon(t, text(""))
	original := d.view().essence()
	d.must("PATCH", "/backends/A", `{"weight": 5}`)
	d.must("DELETE", "/backends/B", "")
	d.must("POST", "/backends", fmt.Sprintf(`{"id": "C", "address": %q}`, c.Addr))
	if status, out, _ := d.diff("--forget", "--backend", "A"); status != 0 ||
		!strings.HasPrefix(out, "forgotten: pool p: backend A weight is 1 in the file, and runs as 5") || strings.Count(out, "\n") != 1 {
		t.Errorf("got %d %q", status, out)
	}
	if status, _, errs := d.diff("--forget", "--backend", "X"); status != 2 || !strings.Contains(errs, "no such backend") {
		t.Errorf("an unknown backend: got %d %q", status, errs)
	}
	if status, out, _ := d.diff("--forget", "--json"); status != 0 || strings.Count(out, `"key": "backend"`) != 2 {
		t.Errorf("got %d %q", status, out)
	}
	if status, out, _ := d.diff(); status != 0 || out != "" {
		t.Errorf("after all was forgotten: got %d %q", status, out)
	}
	if _, err := os.Stat(d.stateFile()); !os.IsNotExist(err) {
		t.Errorf("the state file is left: %v", err)
	}
	d.crash()
	if got := d.view().essence(); got != original {
		t.Errorf("got\n%s\nwant\n%s", got, original)
	}
}

// The token comes from the file that the configuration names, or from another.
func TestDiffByToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tokens, eyes := filepath.Join(dir, "tokens"), filepath.Join(dir, "eyes")
	for path, text := range map[string]string{tokens: "read 0123456789abcdef\noperate fedcba9876543210\n", eyes: "read 0123456789abcdef\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "s")
	text, _ := three(t)
	d := &daemon{t: t, file: filepath.Join(dir, "config.toml")}
	d.write(strings.Replace(text(""), freeAdmin, fmt.Sprintf("[admin]\nlisten = \"unix:%s\"\ntoken_file = %q\n", socket, tokens), 1))
	d.start()
	for _, c := range []struct {
		args, stderr string
		status       int
	}{
		{"-c " + d.file, "", 0},
		{"-c " + d.file + " --forget", "", 0},
		{"-c " + d.file + " --forget --token-file " + eyes, "the token may read only", 2},
		{"--admin unix:" + socket + " --forget", "a token is needed", 2},
		{"--admin unix:" + socket + " --forget --token-file " + tokens, "", 0},
		{"--admin unix:" + socket + ".not", "no answer of the admin side", 2},
		{"-c " + d.file + ".not", "no such file", 2},
		{"--pol p", "unknown flag", 2},
	} {
		status, _, stderr := sluiceRun(t, append([]string{"diff"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(stderr, c.stderr) || (c.stderr == "") != (stderr == "") {
			t.Errorf("diff %s: got %d %q, want %d %q", c.args, status, stderr, c.status, c.stderr)
		}
	}
}

// A list of differences says when it tells less than it seems to.
func TestDiffWarns(t *testing.T) {
	t.Parallel()
	text, _ := three(t)
	d := startDaemon(t, "[process]\nstate_file = \"/does/not/exist/state.json\"\n"+text(""))
	d.must("PATCH", "/backends/A", `{"weight": 5}`)
	d.reload("colour = 3\n" + text(""))
	status, _, errs := d.diff()
	for _, want := range []string{"the newest was refused", "colour", "a restart would lose", "no such file"} {
		if status != 1 || !strings.Contains(errs, want) {
			t.Errorf("got %d %q, want %q in it", status, errs, want)
		}
	}
}

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/scripts/internal/bench/report"
)

// patient bounds every wait of these tests. Chosen, not measured: a smoke run
// takes some seconds on a machine with nothing else to do.
const patient = 3 * time.Minute

// programs builds this program and the balancer where an ordinary user can run
// them, and returns the directory.
func programs(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice-smoke-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{"bench": ".", "sluice": "../../../cmd/sluice"} {
		out, err := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), source).CombinedOutput()
		if err != nil {
			t.Fatalf("go build %s: %v\n%s", source, err, out)
		}
	}
	return dir
}

// bench is the program, told to keep its files below dir.
func benchIn(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(dir, "bench"), append([]string{"-sluice", filepath.Join(dir, "sluice")}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Dir = "../../.."
	return cmd
}

// left returns the command lines of processes that name dir.
func left(t *testing.T, dir string) (all []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		// A process may end while it is being looked at.
		text, _ := os.ReadFile(file)
		if bytes.Contains(text, []byte(dir)) {
			all = append(all, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return all
}

// Every kind of scenario runs for a moment, against whatever is installed.
func TestSmoke(t *testing.T) {
	dir := programs(t)
	file, chart := filepath.Join(dir, "out.json"), filepath.Join(dir, "out.svg")
	names := []string{
		"small-50", "pipelined", "web", "short", "bulk-to-client-2", "bulk-to-backend-2-user", "idle", "beside-bulk",
		"open-loop", "slow-reader", "cost-access-log", "cost-scraped",
	}
	cmd := benchIn(dir, append([]string{"-smoke", "-json", file, "-svg", chart}, names...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range left(t, dir) {
		t.Errorf("still runs: %s", line)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Scenarios) != len(names) {
		t.Errorf("got %d scenarios, want %d", len(r.Scenarios), len(names))
	}
	for _, s := range r.Scenarios {
		t.Run(s.Name, func(t *testing.T) { checkScenario(t, s) })
	}
	if text, err := os.ReadFile(chart); err != nil || !bytes.Contains(text, []byte("</svg>")) {
		t.Errorf("the chart: %v, %d bytes", err, len(text))
	}
}

// checkScenario wants figures of the subject, and of every opponent or the
// reason why there are none.
func checkScenario(t *testing.T, s *report.Scenario) {
	if why, ok := s.Skipped[""]; ok {
		t.Skipf("SKIPPED: %s", why)
	}
	if len(s.Figures[s.Subject]) == 0 || len(s.Comparisons) == 0 {
		t.Errorf("got %d figures and %d comparisons", len(s.Figures[s.Subject]), len(s.Comparisons))
	}
	for name, measures := range s.Figures {
		for measure, v := range measures {
			// What a session holds may be nothing that shows in so few of them.
			if v <= 0 && measure != "memory" {
				t.Errorf("%s of %s is %v", measure, name, v)
			}
		}
	}
	for name, why := range s.Skipped {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(why, "not installed") {
				t.Fatalf("it did not run: %s", why)
			}
			t.Skipf("SKIPPED: %s", why)
		})
	}
}

// However the benchmark ends, nothing that it has started goes on.
func TestNothingOutlivesIt(t *testing.T) {
	dir := programs(t)
	for name, signal := range map[string]syscall.Signal{"interrupted": syscall.SIGINT, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			cmd := benchIn(dir, "short")
			progress, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			lines := bufio.NewScanner(progress)
			for lines.Scan() && !strings.Contains(lines.Text(), " rounds of ") {
			}
			if len(left(t, dir)) < 3 {
				t.Errorf("while it measures, only these run: %q", left(t, dir))
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(progress)
			var status *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &status) {
				t.Errorf("it ended with %v\n%s", err, rest)
			}
			late := time.After(patient)
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for len(left(t, dir)) > 0 {
				select {
				case <-tick.C:
				case <-late:
					t.Fatalf("still run: %q", left(t, dir))
				}
			}
		})
	}
}

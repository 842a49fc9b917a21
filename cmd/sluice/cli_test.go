//go:build unix

package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/l4/l4test"

	"go.uber.org/goleak"
)

// sluiceRun calls run in this process.
func sluiceRun(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	defer signal.Reset()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// textFile writes a configuration and returns its path.
func textFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		stdout string
		stderr string
	}{
		{"", 0, "Available Commands", ""},
		{"help", 0, "Available Commands", ""},
		{"run --help", 0, "--config file", ""},
		{"version", 0, fullVersion() + "\n", ""},
		{"sing", 2, "", `unknown command "sing"`},
		{"rnu", 2, "", "did you mean run?"},
		{"run --port 1", 2, "", "unknown flag: --port"},
		{"--version", 0, fullVersion() + "\n", ""},
		{"-v", 0, fullVersion() + "\n", ""},
		{"run config.toml", 2, "", `unexpected argument "config.toml"; to name a configuration file: sluice run -c config.toml`},
		{"check a.toml b.toml", 2, "", `unexpected argument "a.toml"; to name a configuration file: sluice check -c a.toml`},
		{"demo config.toml", 2, "", `unexpected argument "config.toml"`},
		{"run -f a.toml", 2, "", "-c names the configuration file\nSee 'sluice run --help'.\n"},
		{"completion", 2, "", "name one shell: bash, zsh, fish"},
		{"completion ksh", 2, "", "name one shell: bash, zsh, fish"},
		{"version 1", 2, "", `unexpected argument "1"`},
		{"run -c /does/not/exist.toml", 1, "", "/does/not/exist.toml"},
		{"check -c /does/not/exist.toml", 1, "", "/does/not/exist.toml"},
	} {
		status, stdout, stderr := sluiceRun(t, strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("sluice %s: got status %d, stdout %q, stderr %q; want %d, %q, %q",
				c.args, status, stdout, stderr, c.status, c.stdout, c.stderr)
		}
		if c.status != 0 && strings.Contains(stderr, "Usage:") {
			t.Errorf("sluice %s: the error drowns in the usage:\n%s", c.args, stderr)
		}
	}
}

func TestCheck(t *testing.T) {
	good := head + frontendText("web", free, "p") + poolText("p", "", "A=127.0.0.1:9")
	unwise := good + poolText("spare", "", "A=127.0.0.1:9")
	broken := "colour = 1\n" + head + frontendText("web", free, "none", "atempts = 3") + poolText("p", "", "A=127.0.0.1")
	for _, c := range []struct {
		name, text string
		status     int
		stdout     string
		stderr     []string
	}{
		{"good", good, 0, "is valid", nil},
		{"unwise", unwise, 0, "is valid", []string{"warning: ", "no frontend uses it"}},
		{"broken", broken, 1, "", []string{":1: ", "colour", "attempts", `"none"`, "no port"}},
	} {
		path := textFile(t, c.text)
		status, stdout, stderr := sluiceRun(t, "check", "-c", path)
		if status != c.status || !strings.Contains(stdout, c.stdout) {
			t.Errorf("%s: got status %d, stdout %q, stderr %q; want %d, %q", c.name, status, stdout, stderr, c.status, c.stdout)
		}
		for _, want := range c.stderr {
			if strings.Count(stderr, want) < 1 || !strings.Contains(stderr, path) {
				t.Errorf("%s: stderr does not name %q and the file:\n%s", c.name, want, stderr)
			}
		}
	}
}

func TestRunRefusesBrokenFile(t *testing.T) {
	status, stdout, stderr := sluiceRun(t, "run", "-c", textFile(t, "[proces]\n"))
	if status != 1 || stdout != "" || !strings.Contains(stderr, "proces") {
		t.Errorf("got status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

func TestRunRefusesBusyAddress(t *testing.T) {
	busy, err := net.Listen("tcp", free)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	at := busy.Addr().String()
	for name, text := range map[string]string{
		"frontend": head + frontendText("web", at, "p") + poolText("p", "", "A=127.0.0.1:9"),
		"admin":    "[admin]\nlisten = \"" + at + "\"\n" + frontendText("web", free, "p") + poolText("p", "", "A=127.0.0.1:9"),
	} {
		status, _, stderr := sluiceRun(t, "run", "-c", textFile(t, text))
		if status != 1 || !strings.Contains(stderr, at) || strings.Count(stderr, "address already in use") != 1 {
			t.Errorf("%s: got status %d and %q, want 1 and the address, once", name, status, stderr)
		}
	}
}

// Nothing stays behind of a balancer that served and stopped.
func TestRunLeavesNothing(t *testing.T) {
	defer signal.Reset()
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out output
	ended := make(chan int)
	path := textFile(t, head+frontendText("web", free, "p")+poolText("p", "", "A="+l4test.Refuse(t)))
	go func() { ended <- run(ctx, []string{"run", "-c", path}, &out, &out) }()
	eventually(t, "the start", func() bool { return len(logLines(out.String(), "started")) > 0 })
	cancel()
	if status := <-ended; status != 0 {
		t.Errorf("got status %d, want 0; the log:\n%s", status, out.String())
	}
	goleak.VerifyNone(t, before)
}

func TestSignalsEndTheDemo(t *testing.T) {
	t.Parallel()
	p := startProcess(t, command("demo"))
	eventually(t, "the first act", func() bool { return strings.Contains(p.out.String(), "client 1: hello from A") })
	if err := p.end(syscall.SIGINT); err != nil {
		t.Errorf("got %v, want status 0", err)
	}
}

func TestDemoShows(t *testing.T) {
	t.Parallel()
	p := startProcess(t, command("demo", "--once"))
	<-p.done
	if p.err != nil {
		t.Fatalf("got %v, want status 0", p.err)
	}
	at := 0
	for _, want := range []string{
		"client 1: hello from A", "client 2: hello from B", "client 3: hello from C", "client 4: hello from A",
		"Failure: backend B of demo-tcp", "client 6: hello from", "B: down",
		"Recovery: backend B of demo-tcp", "B: up", "hello from B",
		"client 1: hello from A", "client 2: hello from B", "client 3: hello from C", "client 4: hello from A",
		"Failure: backend B of demo-http", "client 6: hello from", "B: down",
		"Recovery: backend B of demo-http", "B: up", "hello from B",
		"no client noticed",
	} {
		i := strings.Index(p.out.String()[at:], want)
		if i < 0 {
			t.Fatalf("the show lacks %q, or it is not in its place", want)
		}
		at += i + len(want)
	}
}

package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// everyCommand calls f for the commands below c that users see.
func everyCommand(c *cobra.Command, f func(*cobra.Command)) {
	for _, below := range c.Commands() {
		if !below.Hidden && below.Name() != "help" {
			f(below)
			everyCommand(below, f)
		}
	}
}

// Every command, and every flag where its command is, stands in the page.
func TestManualIsWhole(t *testing.T) {
	t.Parallel()
	status, page, stderr := sluiceRun(t, "man")
	if status != 0 || stderr != "" {
		t.Fatalf("got status %d, %q", status, stderr)
	}
	flag := regexp.MustCompile(`--[a-z][a-z-]*`)
	seen := 0
	everyCommand(newRoot(), func(c *cobra.Command) {
		if !c.Runnable() {
			return
		}
		_, section, ok := strings.Cut(page, ".SS "+roff(c.UseLine())+"\n")
		if !ok {
			t.Errorf("no section %q", c.UseLine())
		}
		section, _, _ = strings.Cut(section, "\n.S")
		for _, name := range flag.FindAllString(c.Flags().FlagUsages(), -1) {
			seen++
			if !strings.Contains(section, roff(name)) {
				t.Errorf("%s: no flag %s", c.UseLine(), name)
			}
		}
	})
	if seen < 3 {
		t.Errorf("got %d flags in all: the test does not see them", seen)
	}
	for _, want := range []string{"SIGHUP", "EXIT STATUS", roff(version())} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// man shows the page and complains of nothing.
func TestManualIsRoff(t *testing.T) {
	t.Parallel()
	man, err := exec.LookPath("man")
	if err != nil {
		t.Skip("SKIPPED: man is not installed")
	}
	cmd := exec.Command(man, "--warnings", "-l", "-")
	cmd.Stdin = strings.NewReader(manual(newRoot()))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && strings.Contains(errs.String(), "minimized") {
		t.Skip("SKIPPED: man does not show pages here")
	}
	if errs.Len() > 0 || !strings.Contains(out.String(), "sluice run") {
		t.Errorf("got %s\n%s", errs.String(), out.String())
	}
}

func TestRoffEscapes(t *testing.T) {
	t.Parallel()
	if got, want := roff(".a\\b\n'c -d"), "\\&.a\\eb\n\\&'c \\-d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each shell gets a script that it can read, and that asks the program.
func TestCompletion(t *testing.T) {
	for shell, check := range map[string][]string{"bash": {"bash", "-n"}, "zsh": {"zsh", "-n"}, "fish": {"fish", "-n"}} {
		status, script, _ := sluiceRun(t, "completion", shell)
		if status != 0 || !strings.Contains(script, "__complete") {
			t.Errorf("%s: got status %d and %d bytes", shell, status, len(script))
		}
		if _, err := exec.LookPath(check[0]); err != nil {
			continue
		}
		cmd := exec.Command(check[0], check[1:]...)
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
	for _, args := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "zsh"}} {
		if status, _, _ := sluiceRun(t, args...); status != 2 {
			t.Errorf("%q: got status %d, want 2", args, status)
		}
	}
	if _, out, _ := sluiceRun(t, "__complete", "ch"); !strings.Contains(out, "check") {
		t.Errorf("completion of ch: got %q", out)
	}
}

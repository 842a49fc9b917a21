package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/cmd/internal/config"
)

func unitFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../scripts/systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unitKey returns the values of a key of a unit.
func unitKey(unit, key string) (values []string) {
	for _, m := range regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(unit, -1) {
		values = append(values, m[1])
	}
	return values
}

// What the unit runs are commands that there are, and it leaves time to drain.
func TestUnitFitsTheProgram(t *testing.T) {
	t.Parallel()
	unit := unitFile(t, "sluice.service")
	for _, key := range []string{"ExecStartPre", "ExecStart"} {
		for _, line := range unitKey(unit, key) {
			words := strings.Fields(line)
			cmd, rest, err := newRoot().Find(words[1:])
			if err != nil || cmd.Name() == "sluice" || cmd.ParseFlags(rest) != nil {
				t.Errorf("%s=%s: got command %q, %v", key, line, cmd.Name(), err)
			}
		}
	}
	if got := unitKey(unit, "ExecReload"); len(got) != 1 || got[0] != "/bin/kill -HUP $MAINPID" {
		t.Errorf("got ExecReload %q", got)
	}
	for _, key := range strings.Fields("Type NotifyAccess WatchdogSec LimitNOFILE DynamicUser StateDirectory RuntimeDirectory " +
		"CapabilityBoundingSet NoNewPrivileges ProtectSystem SystemCallFilter TimeoutStopSec") {
		if len(unitKey(unit, key)) != 1 {
			t.Errorf("the unit has %q for %s, want one", unitKey(unit, key), key)
		}
	}
	c, err := config.Parse("test", []byte(frontendText("web", free, "p")+poolText("p", "", "A=127.0.0.1:9")))
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.Atoi(unitKey(unit, "TimeoutStopSec")[0])
	if least := c.Process.PreDrainDelay + c.Process.DrainTimeout; err != nil || time.Duration(seconds)*time.Second <= least {
		t.Errorf("got TimeoutStopSec %d, %v; want more than %s", seconds, err, least)
	}
}

// systemd knows every key of the units.
func TestUnitsAreValid(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: systemd-analyze is not installed")
	}
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	verify := func(more string) string {
		t.Helper()
		dir := t.TempDir()
		for _, name := range []string{"sluice.service", "sluice.socket"} {
			text := strings.ReplaceAll(unitFile(t, name), "/usr/bin/sluice", program) + more
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command(analyze, "verify", "--man=no", filepath.Join(dir, "sluice.service"), filepath.Join(dir, "sluice.socket")).CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return string(out)
	}
	if out := verify(""); out != "" {
		t.Errorf("got %s", out)
	}
	if verify("NoSuchKey=1\n") == "" {
		t.Error("a key that there is not goes unseen: this test cannot fail")
	}
}

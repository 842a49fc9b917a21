//go:build linux

package proc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// start starts a shell command in a group of its own.
func start(t *testing.T, script string) *Process {
	t.Helper()
	g := NewGroup()
	t.Cleanup(func() { g.End() })
	p, err := g.Start(Command{Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// meter begins to count what p uses.
func meter(t *testing.T, p *Process) *Meter {
	t.Helper()
	m, err := p.Meter()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// used reads a meter.
func used(t *testing.T, m *Meter) time.Duration {
	t.Helper()
	d, err := m.Used()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// eventually waits until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	late := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s has not come true", what)
		}
	}
}

// The time of a busy grandchild counts, by both readings alike.
func TestMeterOfABusyTree(t *testing.T) {
	t.Parallel()
	p := start(t, "sh -c 'while :; do :; done' & wait")
	var m *Meter
	eventually(t, "the shell has a child", func() bool { m = meter(t, p); return len(m.pids) == 2 })
	eventually(t, "300 ms of CPU time", func() bool { return used(t, m) >= 300*time.Millisecond })
	if err := m.Verify(); err != nil {
		t.Error(err)
	}
	clock, threads, err := m.read()
	if err != nil {
		t.Fatal(err)
	}
	if off := (clock - m.clock) - (threads - m.threads); off.Abs() > m.slack {
		t.Errorf("the clock tells of %v, the threads of %v", clock-m.clock, threads-m.threads)
	}
}

// An idle process uses nothing, however long one waits.
func TestMeterOfAnIdleProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "exec sleep 60")
	eventually(t, "the CPU time stands still", func() bool {
		m := meter(t, p)
		runtime.Gosched()
		return used(t, m) == 0 && m.Verify() == nil
	})
}

func TestMeterRefusesWhatCannotBeCompared(t *testing.T) {
	t.Parallel()
	p := start(t, "exec sleep 60")
	m := meter(t, p)
	m.pids = append(m.pids, os.Getpid())
	if err := m.Verify(); err == nil || !strings.Contains(err.Error(), "were") {
		t.Errorf("a worker went: got %v", err)
	}
	if err := agree(time.Second, 1200*time.Millisecond, 40*time.Millisecond); err == nil {
		t.Error("threads used more than the clock told")
	}
	if err := agree(2*time.Second, 500*time.Millisecond, 40*time.Millisecond); err != nil {
		t.Errorf("a thread that ended: got %v", err)
	}
}

func TestParseSchedstat(t *testing.T) {
	t.Parallel()
	if got, err := parseSchedstat("4178219043 91827 3380\n"); got != 4178219043 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	for _, text := range []string{"", "1 2", "a 2 3"} {
		if got, err := parseSchedstat(text); err == nil {
			t.Errorf("%q: got %d", text, got)
		}
	}
}

const rollup = `55d0c8a4e000-7ffd0c1f1000 ---p 00000000 00:00 0                          [rollup]
Rss:                2032 kB
Pss:                 701 kB
Pss_Dirty:           124 kB
Pss_Anon:            120 kB
SwapPss:               0 kB
Locked:                0 kB
`

func TestParsePSS(t *testing.T) {
	t.Parallel()
	if got, err := parsePSS(rollup); got != 701<<10 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	if got, err := parsePSS(strings.Replace(rollup, "Pss:  ", "Other: ", 1)); err == nil {
		t.Errorf("without the line: got %d", got)
	}
}

// What the test was started with may be inherited, so two processes are
// compared.
func TestHolding(t *testing.T) {
	t.Parallel()
	few := holding(t, "exec sleep 60")
	more := holding(t, "exec 7</dev/null 8</dev/null sleep 60")
	if got := more.Descriptors - few.Descriptors; got != 2 {
		t.Errorf("two descriptors more are %d", got)
	}
	if few.PSS < 4<<10 || few.PSS > 64<<20 {
		t.Errorf("got %d bytes of memory", few.PSS)
	}
}

// holding returns what a shell holds once it has become sleep.
func holding(t *testing.T, script string) Holding {
	t.Helper()
	p := start(t, script)
	eventually(t, "the shell has become sleep, which sleeps", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		return strings.Contains(string(stat), "(sleep) S") // before that it opens its libraries
	})
	h, err := p.Holding()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A process that takes no notice of SIGTERM is killed, with what it started.
func TestEndKills(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: it waits for seconds")
	}
	p := start(t, "trap '' TERM; sleep 60 & echo ready; while :; do wait; done")
	eventually(t, "the trap is set", func() bool { return strings.Contains(p.Printed(600), "ready") })
	pids := meter(t, p).pids
	if err := p.End(); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf("got %v", err)
	}
	for _, pid := range pids {
		eventually(t, "it is gone", func() bool { return !running(pid) })
	}
	if err := p.End(); err != nil {
		t.Errorf("a second end: %v", err)
	}
}

// running says whether pid is a process that is no zombie.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func TestGroupEndsAll(t *testing.T) {
	t.Parallel()
	g := NewGroup()
	var all []*Process
	for range 3 {
		p, err := g.Start(Command{Path: "/bin/sleep", Args: []string{"60"}, Log: filepath.Join(t.TempDir(), "log")})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := g.End(); err != nil {
		t.Error(err)
	}
	for _, p := range all {
		if p.Alive() == nil {
			t.Errorf("%d still runs", p.PID())
		}
	}
	if _, err := g.Start(Command{Path: "/nonexistent", Log: filepath.Join(t.TempDir(), "log")}); err == nil {
		t.Error("a program that is not there was started")
	}
}

func TestAliveTellsWhatWasPrinted(t *testing.T) {
	t.Parallel()
	p := start(t, "echo cannot bind; exit 3")
	if err := p.Wait(t.Context()); err == nil {
		t.Error("status 3 is no error")
	}
	if err := p.Alive(); err == nil || !strings.Contains(err.Error(), "cannot bind") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := start(t, "exec sleep 60").Wait(ctx); err != context.Canceled {
		t.Errorf("got %v, want the end of the context", err)
	}
}

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/scripts/internal/bench/report"
)

// machine says where this runs, and what.
func (b *bench) machine(ctx context.Context) report.Machine {
	m := report.Machine{
		Cores:    b.cores,
		CPU:      field("/proc/cpuinfo", "model name"),
		User:     (&stage{}).user(),
		Versions: map[string]string{"go": runtime.Version()},
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	if kb, err := strconv.ParseFloat(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 64); err == nil {
		m.MemoryGB = kb / (1 << 20)
	}
	for name, command := range map[string][]string{
		"sluice":       {b.paths.Sluice, "version"},
		"haproxy":      {b.paths.HAProxy, "-v"},
		"nginx":        {b.paths.Nginx, "-v"},
		"redis-server": {b.redisServer, "--version"},
	} {
		if v := version(ctx, command); v != "" {
			m.Versions[name] = v
		}
	}
	return m
}

// field returns the first value of a key in a file of /proc.
func field(file, key string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// version returns the first line that a program prints of itself.
func version(ctx context.Context, command []string) string {
	if command[0] == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("unknown (%v)", err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	line, _, _ = strings.Cut(line, " - ") // HAProxy's address
	return strings.TrimSpace(strings.TrimPrefix(line, "nginx version: "))
}

//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice/scripts/internal/bench/proc"
	"sluice/scripts/internal/bench/report"
	"sluice/scripts/internal/bench/stats"
)

// The bars of a pick, in nanoseconds by the number of backends.
var pickBars = map[int]float64{10: 60, 100: 250, 1000: 2500}

const (
	allocationsBar = 0
	parallelBar    = 4 // of a pick under as many goroutines as there are cores
)

// picks is what the benchmark of the pool tells of one strategy and size.
type picks struct {
	serial, parallel, allocations []float64
}

// runPick runs the pool's own benchmark. It needs the source and a Go tool.
func runPick(ctx context.Context, b *bench) ([]*report.Scenario, error) {
	counted, each := "3", "100ms"
	switch b.options.mode {
	case "full":
		counted, each = "5", "500ms"
	case "smoke":
		counted, each = "1", "100x"
	}
	goTool := installed("go")
	if goTool == "" {
		return nil, fmt.Errorf("go is not in the path")
	}
	log := filepath.Join(b.dir, "pick.log")
	p, err := b.group.Start(proc.Command{Path: goTool, Log: log, Args: []string{
		"test", "-run=^$", "-bench=^BenchmarkAcquire$", "-benchmem", "-count=" + counted, "-benchtime=" + each, "./pool",
	}})
	if err != nil {
		return nil, err
	}
	defer b.group.End()
	if err := p.Wait(ctx); err != nil {
		return nil, fmt.Errorf("go test -bench ./pool: %w: %s", err, p.Printed(600))
	}
	found, err := parsePicks(p.Printed(1 << 20))
	if err != nil {
		return nil, fmt.Errorf("go test -bench ./pool: %w", err)
	}
	return pickReports(found), nil
}

// pickLine is "BenchmarkAcquire/RoundRobin/n=10/held=0/serial-2 12 34.5 ns/op 0
// B/op 0 allocs/op".
var pickLine = regexp.MustCompile(`^BenchmarkAcquire/(\S+)/n=(\d+)/(held=\d+)/(serial|parallel)(?:-\d+)?\s+\d+\s+(\S+) ns/op.*\s(\d+) allocs/op`)

// parsePicks reads what go test printed: by size, then by strategy and what its
// backends hold.
func parsePicks(text string) (map[int]map[string]*picks, error) {
	found := map[int]map[string]*picks{}
	for line := range strings.Lines(text) {
		m := pickLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, err
		}
		ns, err := strconv.ParseFloat(m[5], 64)
		if err != nil {
			return nil, err
		}
		allocations, err := strconv.ParseFloat(m[6], 64)
		if err != nil {
			return nil, err
		}
		if found[n] == nil {
			found[n] = map[string]*picks{}
		}
		name := m[1] + " " + m[3]
		if found[n][name] == nil {
			found[n][name] = &picks{}
		}
		k := found[n][name]
		k.allocations = append(k.allocations, allocations)
		if m[4] == "serial" {
			k.serial = append(k.serial, ns)
		} else {
			k.parallel = append(k.parallel, ns)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("it printed no figure of a pick")
	}
	return found, nil
}

// pickReports makes a scenario for each size; the subject is the strategy that
// is worst in it, and the others are there as figures.
func pickReports(found map[int]map[string]*picks) (all []*report.Scenario) {
	for _, n := range slices.Sorted(maps.Keys(found)) {
		s := &report.Scenario{
			Name: fmt.Sprintf("pick-%d", n), About: fmt.Sprintf("what it costs to pick one of %d backends", n),
			Figures: map[string]map[string]float64{},
		}
		for name, k := range found[n] {
			serial := stats.Median(k.serial)
			s.Figures[name] = map[string]float64{
				"pick": serial, "parallel": stats.Median(k.parallel) / serial, "allocations": slices.Max(k.allocations),
			}
		}
		worst := map[string]float64{}
		for _, f := range s.Figures {
			for measure, v := range f {
				worst[measure] = max(worst[measure], v)
			}
		}
		s.Subject = "worst strategy"
		s.Figures[s.Subject] = worst
		for _, bar := range []report.Bar{
			{Measure: "pick", Limit: pickBars[n]}, {Measure: "parallel", Limit: parallelBar}, {Measure: "allocations", Limit: allocationsBar},
		} {
			s.Verdicts = append(s.Verdicts, s.Judge(bar))
		}
		all = append(all, s)
	}
	return all
}

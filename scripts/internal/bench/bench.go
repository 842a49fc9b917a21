//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"sluice/scripts/internal/bench/proc"
	"sluice/scripts/internal/bench/report"
	"sluice/scripts/internal/bench/subject"
	"sluice/scripts/internal/bench/trial"
)

// wantedFiles is enough for 9,000 sessions of the plain balancer, which holds
// six descriptors for each.
const wantedFiles = 65_536

// bench is one run.
type bench struct {
	options options
	group   *proc.Group
	dir     string // for configurations and logs
	cores   int
	files   uint64 // the limit of descriptors
	paths   subject.Paths

	redisServer, redisBenchmark, wrk string // empty: not here

	progress io.Writer
}

// runBenchmark does what the command line asks for.
func runBenchmark(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	todo, err := chosen(o.scenarios)
	if err != nil {
		return err
	}
	if o.list {
		printScenarios(stdout)
		return nil
	}
	b, err := newBench(o, stderr)
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	defer b.group.End()
	ctx, cancel := context.WithTimeout(ctx, o.deadline)
	defer cancel()
	r, err := b.runAll(ctx, todo)
	r.Command = strings.TrimSpace("scripts/bench " + strings.Join(args, " "))
	return errors.Join(err, write(r, o, stdout))
}

// newBench looks at what is here.
func newBench(o options, progress io.Writer) (*bench, error) {
	if o.sluice == "" {
		return nil, usageError{errors.New("no program of Sluice was given; scripts/bench builds one")}
	}
	b := &bench{options: o, group: proc.NewGroup(), cores: runtime.NumCPU(), progress: progress}
	var err error
	if b.paths.Bench, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if b.files, err = proc.RaiseFiles(wantedFiles); err != nil {
		return nil, err
	}
	for path, to := range map[string]*string{o.sluice: &b.paths.Sluice, o.base: &b.paths.Base} {
		if path != "" {
			if *to, err = filepath.Abs(path); err != nil {
				return nil, err
			}
		}
	}
	b.paths.HAProxy, b.paths.Nginx = installed("haproxy"), installed("nginx")
	b.paths.NginxModule = nginxModule()
	b.redisServer, b.redisBenchmark = installed("redis-server"), installed("redis-benchmark")
	b.wrk = installed("wrk")
	if b.dir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return nil, fmt.Errorf("make a directory for configurations: %w", err)
	}
	// Also for subjects that run as somebody else.
	return b, os.Chmod(b.dir, 0o755)
}

// installed returns where a program is, also where only root's path leads.
func installed(name string) string {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// nginxModule returns where the stream module of nginx is.
func nginxModule() string {
	for _, dir := range []string{"/usr/lib/nginx/modules", "/usr/lib64/nginx/modules", "/usr/share/nginx/modules"} {
		path := filepath.Join(dir, "ngx_stream_module.so")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// runAll runs the scenarios. When ctx ends, it returns what is complete.
func (b *bench) runAll(ctx context.Context, todo []*scenario) (*report.Report, error) {
	r := &report.Report{Machine: b.machine(ctx), Started: time.Now(), Mode: b.options.mode}
	a, err := b.pickSubject(ctx)
	if err != nil {
		return r, err
	}
	var faults []error
	for _, s := range todo {
		if ctx.Err() != nil {
			r.Scenarios = append(r.Scenarios, unrun(s, "the run was ended before"))
			continue
		}
		begun := time.Now()
		fmt.Fprintf(b.progress, "%s: %s\n", s.name, s.about)
		out, err := b.runOne(ctx, s, a)
		switch {
		case errors.As(err, new(subject.Unavailable)):
			out = []*report.Scenario{unrun(s, err.Error())}
		case ctx.Err() != nil:
			out = []*report.Scenario{unrun(s, "the run was ended in the middle: "+context.Cause(ctx).Error())}
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: %w", s.name, err))
			out = []*report.Scenario{unrun(s, err.Error())}
		}
		r.Scenarios = append(r.Scenarios, out...)
		fmt.Fprintf(b.progress, "%s: took %v\n", s.name, time.Since(begun).Round(time.Second))
	}
	r.Seconds = time.Since(r.Started).Seconds()
	if ctx.Err() != nil {
		faults = append(faults, fmt.Errorf("the run was ended: %w", context.Cause(ctx)))
	}
	return r, errors.Join(faults...)
}

func unrun(s *scenario, reason string) *report.Scenario {
	return &report.Scenario{Name: s.name, About: s.about, Skipped: map[string]string{"": reason}}
}

// pickSubject returns who is A: the epoll engine where there is one.
func (b *bench) pickSubject(ctx context.Context) (string, error) {
	if b.options.subject != "" {
		return b.options.subject, nil
	}
	s := subject.Setup{Group: b.group, Dir: b.dir, Cores: b.cores, Files: b.files, Paths: b.paths,
		Backends: map[string][]string{"probe": {"127.0.0.1:9"}}}
	r, err := subject.Start(ctx, subject.Epoll, s)
	switch {
	case err == nil:
		return subject.Epoll, r.Stop()
	case errors.As(err, new(subject.Unavailable)):
		fmt.Fprintf(b.progress, "SKIPPED: %v; the subject is %s\n", err, subject.Copy)
		return subject.Copy, nil
	}
	return "", err
}

// runOne runs one scenario.
func (b *bench) runOne(ctx context.Context, s *scenario, a string) ([]*report.Scenario, error) {
	if s.run != nil {
		return s.run(ctx, b)
	}
	if s.feature != "" && !slices.Contains(subject.Sluice, a) {
		return nil, subject.Unavailable("it is about Sluice, and the subject is " + a)
	}
	st, err := b.open(ctx, s)
	defer b.group.End()
	if err != nil {
		return nil, err
	}
	all := st.contestants(a)
	st.first = all[0]
	able, err := st.startAll(ctx, all)
	if err != nil {
		return nil, err
	}
	if s.prepare != nil {
		if err := s.prepare(ctx, st); err != nil {
			return nil, err
		}
	}
	var opponents []trial.Opponent
	rounds := 0
	for _, c := range able[1:] {
		opponents = append(opponents, trial.Opponent{Name: c.name, Pairs: c.pairs})
		rounds += 2 * c.pairs
	}
	fmt.Fprintf(b.progress, "%s: %d rounds of %v\n", s.name, rounds, b.options.window)
	pairs, err := trial.Compare(ctx, all[0].name, opponents, st.roundOf(able))
	if err != nil {
		return nil, err
	}
	return []*report.Scenario{st.outcome(pairs)}, nil
}

// roundOf returns the round of a scenario, on subjects that run or, if it wants
// fresh ones, on one that is started for it.
func (st *stage) roundOf(able []contestant) trial.Round {
	return func(ctx context.Context, name string) (trial.Sample, error) {
		if !st.fresh {
			return st.round(ctx, st, st.running[name])
		}
		i := slices.IndexFunc(able, func(c contestant) bool { return c.name == name })
		r, err := st.start(ctx, able[i])
		if err != nil {
			return nil, err
		}
		sample, err := st.round(ctx, st, r)
		return sample, errors.Join(err, r.Stop())
	}
}

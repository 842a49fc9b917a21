//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"

	"sluice/scripts/internal/bench/report"
	"sluice/scripts/internal/bench/subject"
	"sluice/scripts/internal/bench/trial"
)

// outcome makes the report of a scenario out of its rounds.
func (st *stage) outcome(pairs []*trial.Paired) *report.Scenario {
	out := &report.Scenario{
		Name: st.name, About: st.about, User: st.user(), Subject: st.first.name, Window: st.options.window.Seconds(),
		Figures: map[string]map[string]float64{}, Skipped: st.skipped, Notes: st.notes,
	}
	var own []trial.Sample
	for _, p := range pairs {
		own = append(own, p.A...)
		out.Figures[p.Name] = medians(p.B)
		if p.Err != nil {
			out.Skipped[p.Name] = p.Err.Error()
		}
	}
	out.Figures[st.first.name] = medians(own)
	for _, measure := range report.Order {
		for _, p := range pairs {
			if ratio, ok := p.Ratio(measure); ok && p.Err == nil {
				c := report.Comparison{Measure: measure, Against: p.Name, Pairs: len(p.A), Ratio: ratio}
				out.Comparisons = append(out.Comparisons, c)
			}
		}
	}
	if slices.Contains(subject.Sluice, st.first.subject) {
		for _, bar := range st.bars {
			out.Verdicts = append(out.Verdicts, out.Judge(bar))
		}
	}
	return out
}

// user returns who the subjects ran as.
func (st *stage) user() string {
	uid := os.Getuid()
	if st.setup.User != nil {
		uid = int(st.setup.User.UID)
	}
	u, err := user.LookupId(fmt.Sprint(uid))
	if err != nil {
		return fmt.Sprint("user ", uid)
	}
	return u.Username
}

// medians returns the median of every measure.
func medians(samples []trial.Sample) map[string]float64 {
	all := map[string]float64{}
	for _, measure := range report.Order {
		if m, ok := trial.Median(samples, measure); ok {
			all[measure] = m
		}
	}
	return all
}

// write writes the report wherever it was asked for.
func write(r *report.Report, o options, stdout io.Writer) error {
	faults := []error{r.Table(stdout)}
	for path, to := range map[string]func(io.Writer) error{o.json: r.JSON, o.svg: r.SVG} {
		if path == "" {
			continue
		}
		f, err := os.Create(path)
		if err == nil {
			err = errors.Join(to(f), f.Close())
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	r.head(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scenario\tmeasure\tsubject\tfigure\tagainst\tits figure\tratio\t95 %\tpairs\tA/A 95 %\tbar\tresult")
	for _, s := range r.Scenarios {
		for _, measure := range Order {
			s.rows(t, measure)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Scenarios {
		for _, note := range s.Notes {
			fmt.Fprintf(w, "%s: %s\n", s.Name, note)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Skipped)) {
			fmt.Fprintf(w, "SKIPPED: %s: %s\n", strings.TrimSuffix(s.Name+" "+name, " "), s.Skipped[name])
		}
	}
	return nil
}

// head says what the figures are worth, and where they come from.
func (r *Report) head(w io.Writer) {
	if r.Mode != "full" {
		fmt.Fprintf(w, "A %s run: too few and too short rounds for figures to quote.\n", strings.ToUpper(r.Mode))
	}
	m := r.Machine
	fmt.Fprintf(w, "%s\n%d cores, %s, %.0f GB, %s, as %s; took %.0f s\n", r.Command, m.Cores, m.CPU, m.MemoryGB, m.Kernel, m.User, r.Seconds)
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		fmt.Fprintf(w, "%s: %s\n", name, m.Versions[name])
	}
	fmt.Fprintln(w, "A ratio is the figure of the subject divided by that of the other: the median of the pairs' ratios.")
	fmt.Fprintln(w)
}

// rows writes what there is of one measure: a row for each opponent, and one
// for a bar that is no ratio.
func (s *Scenario) rows(w io.Writer, measure string) {
	own, ok := s.Figures[s.Subject][measure]
	if !ok {
		return
	}
	first := []string{s.title(), Measures[measure].Title, s.Subject, figure(own, measure)}
	row := func(cells ...string) { fmt.Fprintln(w, strings.Join(append(slices.Clone(first), cells...), "\t")) }
	noise := "-"
	if c, ok := s.ratio(measure, Self); ok {
		noise = span(c)
	}
	compared := false
	for _, c := range s.Comparisons {
		if c.Measure != measure || c.Against == Self {
			continue
		}
		compared = true
		bar, result := s.verdict(measure, c.Against)
		other := s.Figures[c.Against][measure]
		row(c.Against, figure(other, measure), fmt.Sprintf("%.3f", c.Ratio.Mid), span(c), fmt.Sprint(c.Pairs), noise, bar, result)
	}
	if bar, result := s.verdict(measure, ""); bar != "-" || !compared {
		row("-", "-", "-", "-", "-", "-", bar, result)
	}
}

func (s *Scenario) title() string {
	if s.User == "" {
		return s.Name
	}
	return s.Name + " (" + s.User + ")"
}

// verdict returns the bar of a measure against an opponent and its result.
func (s *Scenario) verdict(measure, against string) (bar, result string) {
	for _, v := range s.Verdicts {
		if v.Measure == measure && v.Against == against {
			sign := "<="
			if Measures[measure].Higher {
				sign = ">="
			}
			return fmt.Sprintf("%s %v", sign, v.Limit), v.Result
		}
	}
	return "-", ""
}

// span writes an interval, if it means anything.
func span(c Comparison) string {
	if c.Pairs < fewest {
		return "-"
	}
	return fmt.Sprintf("%.3f-%.3f", c.Ratio.Low, c.Ratio.High)
}

// figure writes a value with three digits that count.
func figure(v float64, measure string) string {
	digits := 0
	if size := math.Abs(v); size > 0 && size < 100 {
		digits = min(2-int(math.Floor(math.Log10(size))), 3)
	}
	unit := Measures[measure].Unit
	if unit != "" && unit[0] != '/' {
		unit = " " + unit
	}
	return fmt.Sprintf("%.*f%s", digits, v, unit)
}

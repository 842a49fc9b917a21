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

// Table writes the report for people: the ratios with what they have to be, the
// figures that they come from, and what is missing.
func (r *Report) Table(w io.Writer) error {
	r.head(w)
	if err := r.ratios(w); err != nil {
		return err
	}
	if err := r.figures(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
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
}

// columns are the contestants that a table has a column for.
func (r *Report) columns(of func(*Scenario) []string) (names []string) {
	seen := map[string]bool{}
	for _, s := range r.Scenarios {
		for _, name := range of(s) {
			seen[name] = true
		}
	}
	for _, name := range order {
		if seen[name] {
			names = append(names, name)
		}
	}
	return names
}

// order is the order of the columns.
var order = []string{Self, "haproxy", "nginx", "plain", "epoll", "copy", "base", "direct", "off"}

// ratios writes a row for each measure of each scenario.
func (r *Report) ratios(w io.Writer) error {
	columns := r.columns(func(s *Scenario) (names []string) {
		for _, c := range s.Comparisons {
			names = append(names, c.Against)
		}
		return names
	})
	fmt.Fprintln(w, "\nRatios: the subject's figure divided by that of the column, with the 95 % interval; self is the A/A run")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(append([]string{"scenario", "measure", "subject"}, append(columns, "pairs", "result")...), "\t"))
	for _, s := range r.Scenarios {
		for _, measure := range Order {
			if cells := s.ratioCells(measure, columns); cells != nil {
				fmt.Fprintln(t, strings.Join(cells, "\t"))
			}
		}
	}
	return t.Flush()
}

// ratioCells is a row of ratios, nil if the measure was neither compared nor
// judged.
func (s *Scenario) ratioCells(measure string, columns []string) []string {
	cells := []string{s.title(), Measures[measure].Title, s.Subject}
	most := 0
	for _, name := range columns {
		c, ok := s.ratio(measure, name)
		if !ok {
			cells = append(cells, "-")
			continue
		}
		most = max(most, c.Pairs)
		cells = append(cells, c.String())
	}
	results := s.results(measure)
	if most == 0 && results == "" {
		return nil
	}
	pairs := "-"
	if most > 0 {
		pairs = fmt.Sprint(most)
	}
	return append(cells, pairs, results)
}

// String writes a ratio with its interval, if that means anything.
func (c Comparison) String() string {
	if c.Pairs < fewest {
		return fmt.Sprintf("%.2f (?)", c.Ratio.Mid)
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", c.Ratio.Mid, c.Ratio.Low, c.Ratio.High)
}

// results tells how a measure stands against its bars.
func (s *Scenario) results(measure string) string {
	var all []string
	for _, v := range s.Verdicts {
		if v.Measure != measure {
			continue
		}
		sign := "<="
		if Measures[measure].Higher {
			sign = ">="
		}
		limit := fmt.Sprintf("%s %v", sign, v.Limit)
		if v.Against != "" {
			limit = v.Against + " " + limit
		}
		all = append(all, limit+" "+v.Result)
	}
	return strings.Join(all, ", ")
}

// figures writes what was measured.
func (r *Report) figures(w io.Writer) error {
	columns := r.columns(func(s *Scenario) []string {
		names := slices.Collect(maps.Keys(s.Figures))
		return slices.DeleteFunc(names, func(name string) bool { return name == Self || name == s.Subject })
	})
	fmt.Fprintln(w, "\nFigures: the medians of all rounds; compare them only within a row, and better by the ratios above")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(append([]string{"scenario", "measure", "subject", "its figure"}, columns...), "\t"))
	for _, s := range r.Scenarios {
		for _, measure := range Order {
			own, ok := s.Figures[s.Subject][measure]
			if !ok {
				continue
			}
			cells := []string{s.title(), Measures[measure].Title, s.Subject, figure(own, measure)}
			for _, name := range columns {
				cell := "-"
				if v, ok := s.Figures[name][measure]; ok && name != s.Subject {
					cell = figure(v, measure)
				}
				cells = append(cells, cell)
			}
			fmt.Fprintln(t, strings.Join(cells, "\t"))
		}
	}
	return t.Flush()
}

func (s *Scenario) title() string {
	if s.User == "" {
		return s.Name
	}
	return s.Name + " (" + s.User + ")"
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

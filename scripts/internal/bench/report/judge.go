package report

import (
	"strings"

	"sluice/scripts/internal/bench/stats"
)

// Bar is what a measure of the subject has to reach: a ratio to the best of
// some opponents, or a value if there is none.
type Bar struct {
	Measure string
	Against []string // the bar holds against the one that is hardest to beat
	Limit   float64
}

// Verdict is how a measure stands against its bar.
type Verdict struct {
	Measure string          `json:"measure"`
	Against string          `json:"against,omitempty"`
	Value   float64         `json:"value,omitempty"` // if the bar is a value
	Ratio   *stats.Interval `json:"ratio,omitempty"` // if it is a ratio
	Noise   *stats.Interval `json:"noise,omitempty"` // the A/A run beside it
	Limit   float64         `json:"limit"`
	Result  string          `json:"result"`
}

// The results of a verdict.
const (
	Met          = "met"
	Missed       = "missed"
	Unresolvable = "not resolvable here"
	Unmeasured   = "not measured"
)

const (
	// widest is how wide the interval of an A/A run may be: a difference
	// below it is not told from noise.
	widest = 0.05
	// fewest is how many pairs an interval needs to mean anything.
	fewest = 4
)

// Judge holds the scenario against a bar.
func (s *Scenario) Judge(b Bar) Verdict {
	v := Verdict{Measure: b.Measure, Limit: b.Limit, Result: Unmeasured}
	higher := Measures[b.Measure].Higher
	if len(b.Against) == 0 {
		if value, ok := s.Figures[s.Subject][b.Measure]; ok {
			v.Value, v.Result = value, result(stats.Interval{Low: value, Mid: value, High: value}, b.Limit, higher)
		}
		return v
	}
	for _, name := range b.Against {
		c, ok := s.ratio(b.Measure, name)
		if ok && (v.Ratio == nil || harder(c.Ratio, *v.Ratio, higher)) {
			v.Against, v.Ratio = name, &c.Ratio
		}
	}
	if v.Ratio == nil {
		v.Against = strings.Join(b.Against, " or ")
		return v
	}
	v.Result = result(*v.Ratio, b.Limit, higher)
	if noise, ok := s.ratio(b.Measure, Self); ok {
		v.Noise = &noise.Ratio
		if !resolved(noise) {
			v.Result = Unresolvable
		}
	}
	return v
}

// resolved says whether an A/A run is good enough to tell a difference.
func resolved(noise Comparison) bool {
	return noise.Pairs >= fewest && noise.Ratio.Spread() <= widest
}

// harder says whether the opponent of ratio a is harder to beat than that of b.
func harder(a, b stats.Interval, higher bool) bool {
	if higher {
		return a.Mid < b.Mid
	}
	return a.Mid > b.Mid
}

// result says missed only if the whole interval is beyond the limit.
func result(i stats.Interval, limit float64, higher bool) string {
	if higher && i.High < limit || !higher && i.Low > limit {
		return Missed
	}
	return Met
}

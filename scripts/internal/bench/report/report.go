// Package report says what was measured: the figures, the ratios, and how they
// stand against the bars; as a table for people, as JSON, and as a chart.
package report

import (
	"time"

	"sluice/scripts/internal/bench/stats"
)

// Report is one run of the benchmark.
type Report struct {
	Machine   Machine     `json:"machine"`
	Command   string      `json:"command"`
	Started   time.Time   `json:"started"`
	Seconds   float64     `json:"seconds"` // that it took
	Mode      string      `json:"mode"`    // "full", "quick" or "smoke": only the first gives figures to quote
	Scenarios []*Scenario `json:"scenarios"`
}

// Machine is where it ran, and the versions of what was measured.
type Machine struct {
	Cores    int               `json:"cores"`
	CPU      string            `json:"cpu"`
	Kernel   string            `json:"kernel"`
	MemoryGB float64           `json:"memory_gb"`
	User     string            `json:"user"`
	Versions map[string]string `json:"versions"`
}

// Scenario is the outcome of one scenario.
type Scenario struct {
	Name        string                        `json:"name"`
	About       string                        `json:"about"`
	User        string                        `json:"user"`    // who the subjects ran as
	Subject     string                        `json:"subject"` // what was compared with the others
	Window      float64                       `json:"window"`  // seconds of a round
	Figures     map[string]map[string]float64 `json:"figures"` // by contestant and measure: medians over all rounds
	Comparisons []Comparison                  `json:"comparisons"`
	Verdicts    []Verdict                     `json:"verdicts"`
	Notes       []string                      `json:"notes,omitempty"`
	Skipped     map[string]string             `json:"skipped,omitempty"` // contestant and reason; "" is all of it
}

// Comparison is a measure of the subject divided by that of an opponent.
type Comparison struct {
	Measure string         `json:"measure"`
	Against string         `json:"against"`
	Pairs   int            `json:"pairs"`
	Ratio   stats.Interval `json:"ratio"`
}

// Self is the opponent that is the subject once more: the A/A run.
const Self = "self"

// ratio returns the comparison of a measure with an opponent.
func (s *Scenario) ratio(measure, against string) (Comparison, bool) {
	for _, c := range s.Comparisons {
		if c.Measure == measure && c.Against == against {
			return c, true
		}
	}
	return Comparison{}, false
}

// Measure says how a figure is read.
type Measure struct {
	Title  string
	Unit   string
	Higher bool // is better
}

// Measures are all there are, by name.
var Measures = map[string]Measure{
	"cpu_request":    {Title: "CPU per request", Unit: "us"},
	"cpu_connection": {Title: "CPU per connection", Unit: "us"},
	"cpu_gb":         {Title: "CPU per GB", Unit: "ms"},
	"requests":       {Title: "requests per second", Unit: "/s", Higher: true},
	"connections":    {Title: "connections per second", Unit: "/s", Higher: true},
	"gbit":           {Title: "throughput", Unit: "Gbit/s", Higher: true},
	"p50":            {Title: "latency p50", Unit: "us"},
	"p99":            {Title: "latency p99", Unit: "us"},
	"p999":           {Title: "latency p99.9", Unit: "us"},
	"memory":         {Title: "memory per session", Unit: "KB"},
	"descriptors":    {Title: "descriptors per session", Unit: ""},
	"pss":            {Title: "memory of the process", Unit: "MB"},
	"pick":           {Title: "pick", Unit: "ns"},
	"allocations":    {Title: "allocations per pick", Unit: ""},
	"parallel":       {Title: "parallel pick / pick", Unit: ""},
}

// Order is the order in which measures are shown.
var Order = []string{
	"cpu_request", "cpu_connection", "cpu_gb", "requests", "connections", "gbit", "p50", "p99", "p999",
	"memory", "descriptors", "pss", "pick", "parallel", "allocations",
}

package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/scripts/internal/bench/report"
	"sluice/scripts/internal/bench/stats"
)

// narrow is an interval of 2 % around mid.
func narrow(mid float64) stats.Interval {
	return stats.Interval{Low: mid - 0.01, Mid: mid, High: mid + 0.01}
}

// scenario is small-50 with those ratios of measure to each opponent.
func scenario(measure string, ratios map[string]stats.Interval) *report.Scenario {
	s := &report.Scenario{
		Name: "small-50", User: "root", Subject: "epoll",
		Figures: map[string]map[string]float64{"epoll": {measure: 14.66}},
	}
	for _, name := range slices.Sorted(maps.Keys(ratios)) {
		r := ratios[name]
		s.Figures[name] = map[string]float64{measure: 14.66 / r.Mid}
		s.Comparisons = append(s.Comparisons, report.Comparison{Measure: measure, Against: name, Pairs: 20, Ratio: r})
	}
	return s
}

func TestJudge(t *testing.T) {
	t.Parallel()
	both := []string{"haproxy", "nginx"}
	quiet := narrow(1)
	for name, c := range map[string]struct {
		measure string
		ratios  map[string]stats.Interval
		bar     report.Bar
		against string
		result  string
	}{
		"below": {"cpu_request", map[string]stats.Interval{"haproxy": narrow(0.8), "nginx": narrow(0.9), "self": quiet},
			report.Bar{Measure: "cpu_request", Against: both, Limit: 1}, "nginx", report.Met},
		"the better peer is missed": {"cpu_request", map[string]stats.Interval{"haproxy": narrow(1.2), "nginx": narrow(0.9), "self": quiet},
			report.Bar{Measure: "cpu_request", Against: both, Limit: 1}, "haproxy", report.Missed},
		"the interval reaches the bar": {"cpu_request", map[string]stats.Interval{"haproxy": narrow(1.005), "self": quiet},
			report.Bar{Measure: "cpu_request", Against: both, Limit: 1}, "haproxy", report.Met},
		"noise": {"cpu_request", map[string]stats.Interval{"haproxy": narrow(2), "self": {Low: 0.97, Mid: 1, High: 1.03}},
			report.Bar{Measure: "cpu_request", Against: both, Limit: 1}, "haproxy", report.Unresolvable},
		"more is better, met": {"requests", map[string]stats.Interval{"haproxy": narrow(1.3), "nginx": narrow(0.96), "self": quiet},
			report.Bar{Measure: "requests", Against: both, Limit: 0.95}, "nginx", report.Met},
		"more is better, missed": {"requests", map[string]stats.Interval{"haproxy": narrow(0.9), "nginx": narrow(1), "self": quiet},
			report.Bar{Measure: "requests", Against: both, Limit: 0.95}, "haproxy", report.Missed},
		"nobody to compare with": {"requests", map[string]stats.Interval{"plain": narrow(1), "self": quiet},
			report.Bar{Measure: "requests", Against: both, Limit: 0.95}, "haproxy or nginx", report.Unmeasured},
		"a value, missed": {"memory", nil, report.Bar{Measure: "memory", Limit: 0.5}, "", report.Missed},
		"a value, met":    {"memory", nil, report.Bar{Measure: "memory", Limit: 20}, "", report.Met},
		"no value":        {"memory", nil, report.Bar{Measure: "descriptors", Limit: 2}, "", report.Unmeasured},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := scenario(c.measure, c.ratios).Judge(c.bar)
			if v.Result != c.result || v.Against != c.against {
				t.Errorf("got %q against %q, want %q against %q", v.Result, v.Against, c.result, c.against)
			}
			if _, ok := c.ratios["self"]; ok && v.Ratio != nil && v.Noise == nil {
				t.Error("the A/A run is missing")
			}
		})
	}
}

// An A/A run of few pairs tells nothing, however narrow it is.
func TestFewPairsResolveNothing(t *testing.T) {
	t.Parallel()
	s := scenario("cpu_request", map[string]stats.Interval{"haproxy": narrow(2), "self": narrow(1)})
	for i := range s.Comparisons {
		s.Comparisons[i].Pairs = 3
	}
	v := s.Judge(report.Bar{Measure: "cpu_request", Against: []string{"haproxy"}, Limit: 1})
	if v.Result != report.Unresolvable {
		t.Errorf("got %q", v.Result)
	}
}

// full is a report with a bit of everything.
func full() *report.Report {
	s := scenario("cpu_request", map[string]stats.Interval{"haproxy": narrow(1.05), "self": narrow(1), "plain": narrow(0.72)})
	s.Skipped = map[string]string{"nginx": "nginx is not installed"}
	s.Notes = []string{"a note"}
	s.Verdicts = []report.Verdict{s.Judge(report.Bar{Measure: "cpu_request", Against: []string{"haproxy"}, Limit: 1.1})}
	for i, c := range s.Comparisons {
		if c.Against == "plain" {
			s.Comparisons[i].Pairs = 2
		}
	}
	return &report.Report{
		Machine: report.Machine{
			Cores: 2, CPU: `A "fast" <CPU> & more`, Kernel: "Linux 6.18", MemoryGB: 24, User: "root",
			Versions: map[string]string{"haproxy": "HAProxy 2.6"},
		},
		Command: "scripts/bench -quick small-50", Started: time.Unix(1_700_000_000, 0).UTC(), Seconds: 31.4, Mode: "quick",
		Scenarios: []*report.Scenario{s, {Name: "idle", Skipped: map[string]string{"": "the run was ended before"}}},
	}
}

const table = `A QUICK run: too few and too short rounds for figures to quote.
scripts/bench -quick small-50
2 cores, A "fast" <CPU> & more, 24 GB, Linux 6.18, as root; took 31 s
haproxy: HAProxy 2.6

Ratios: the subject's figure divided by that of the column, with the 95 % interval; self is the A/A run
scenario         measure          subject  self              haproxy           plain     pairs  result
small-50 (root)  CPU per request  epoll    1.00 (0.99-1.01)  1.05 (1.04-1.06)  0.72 (?)  20     haproxy <= 1.1 met

Figures: the medians of all rounds; compare them only within a row, and better by the ratios above
scenario         measure          subject  its figure  haproxy  plain
small-50 (root)  CPU per request  epoll    14.7 us     14.0 us  20.4 us

small-50: a note
SKIPPED: small-50 nginx: nginx is not installed
SKIPPED: idle: the run was ended before
`

func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := full().Table(&out); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if got := strings.Join(lines, "\n") + "\n"; got != table {
		t.Errorf("got\n%s\nwant\n%s", got, table)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := full().JSON(&out); err != nil {
		t.Fatal(err)
	}
	var got report.Report
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&got, full()) {
		t.Errorf("got %+v, want %+v", got, full())
	}
}

// The chart is XML whatever a machine calls itself, and has a bar for each who
// was measured but not for the A/A run.
func TestSVG(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := full().SVG(&out); err != nil {
		t.Fatal(err)
	}
	bars, text := 0, ""
	for d := xml.NewDecoder(&out); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "rect" {
				bars++
			}
		case xml.CharData:
			text += string(token)
		}
	}
	if bars != 3 {
		t.Errorf("got %d bars, want 3", bars)
	}
	for _, want := range []string{"14.7 us", "HAProxy", "Sluice, epoll", `"fast" <CPU> &`, "not to be quoted", "prefers-color-scheme: dark"} {
		if !strings.Contains(text, want) {
			t.Errorf("the chart lacks %q", want)
		}
	}
	if err := (&report.Report{}).SVG(&out); err == nil {
		t.Error("an empty chart is no error")
	}
}

//go:build linux

package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/scripts/internal/bench/report"
)

func TestParse(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-quick", "small", "-seconds", "1.5", "idle", "-against", "haproxy,base"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.scenarios, []string{"small", "idle"}) || !slices.Equal(o.against, []string{"haproxy", "base"}) {
		t.Errorf("got scenarios %q against %q", o.scenarios, o.against)
	}
	if o.mode != "quick" || o.pairs != 4 || o.window != 1500*time.Millisecond || o.deadline != time.Hour {
		t.Errorf("got %+v", o)
	}
	for _, args := range [][]string{
		{"-pairs", "-1"}, {"-seconds", "0.0001"}, {"-seconds", "3600"}, {"-against", "nobody"}, {"-subject", "self"}, {"-nothing"},
	} {
		if o, err := parse(args, io.Discard); !errors.As(err, new(usageError)) {
			t.Errorf("%q: got %+v, %v", args, o, err)
		}
	}
}

func TestUsageNamesEveryScenario(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if _, err := parse([]string{"-h"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, s := range scenarios() {
		if !strings.Contains(out.String(), "  "+s.name+" ") {
			t.Errorf("the usage text does not have %s", s.name)
		}
	}
}

func TestChosen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"small"}, "small-1 small-50 small-500"},
		{[]string{"bulk-to-client-2", "short"}, "short bulk-to-client-2"},
		{[]string{"bulk-to-client-200-user"}, "bulk-to-client-200-user"},
	} {
		got, err := chosen(c.names)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range got {
			names = append(names, s.name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%q: got %s, want %s", c.names, got, c.want)
		}
	}
	if _, err := chosen([]string{"smal"}); !errors.As(err, new(usageError)) {
		t.Errorf("got %v", err)
	}
}

// What the scenarios and their bars are called is known to the report.
func TestScenarios(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range scenarios() {
		if seen[s.name] {
			t.Errorf("%s is there twice", s.name)
		}
		seen[s.name] = true
		for _, b := range s.bars {
			if _, ok := report.Measures[b.Measure]; !ok || b.Limit <= 0 {
				t.Errorf("%s has the bar %+v", s.name, b)
			}
			for _, name := range b.Against {
				if name != without && !slices.Contains(s.against, name) {
					t.Errorf("%s has a bar against %s, and no full number of pairs", s.name, name)
				}
			}
		}
	}
	for _, measure := range report.Order {
		if _, ok := report.Measures[measure]; !ok {
			t.Errorf("%s has no title", measure)
		}
	}
	if len(report.Order) != len(report.Measures) {
		t.Errorf("%d measures, %d in order", len(report.Measures), len(report.Order))
	}
}

const picked = `goos: linux
goarch: amd64
BenchmarkAcquire/RoundRobin/n=10/held=0/serial-2         	 5000000	        40.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkAcquire/RoundRobin/n=10/held=0/serial-2         	 5000000	        42.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkAcquire/RoundRobin/n=10/held=0/serial-2         	 5000000	       500.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkAcquire/RoundRobin/n=10/held=0/parallel-2       	 5000000	        84.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkAcquire/LeastConnections/n=10/held=2/serial-2   	 5000000	        70.0 ns/op	      16 B/op	       1 allocs/op
BenchmarkAcquire/LeastConnections/n=10/held=2/parallel-2 	 5000000	        77.0 ns/op	      16 B/op	       1 allocs/op
BenchmarkAcquire/RoundRobin/n=1000/held=0/serial         	 5000000	       900 ns/op	       0 B/op	       0 allocs/op
BenchmarkAcquire/RoundRobin/n=1000/held=0/parallel       	 5000000	      4500 ns/op	       0 B/op	       0 allocs/op
PASS
`

func TestPicks(t *testing.T) {
	t.Parallel()
	found, err := parsePicks(picked)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range pickReports(found) {
		for _, v := range s.Verdicts {
			got = append(got, s.Name+" "+v.Measure+" "+v.Result)
		}
	}
	want := []string{
		"pick-10 pick missed", "pick-10 parallel met", "pick-10 allocations missed",
		"pick-1000 pick met", "pick-1000 parallel missed", "pick-1000 allocations met",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := parsePicks("PASS\n"); err == nil {
		t.Error("no figure is no error")
	}
}

//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/scripts/internal/bench/subject"
)

const usage = `scripts/bench [flags] [scenario ...]

Measures Sluice beside HAProxy, nginx, the plainest balancer in Go and no
balancer at all: on loopback, with processes of its own. Without a scenario it
runs all of them, for about three hours; with -quick, for a quarter of an hour. A
scenario is named in full ("small-50") or by how it begins ("small",
"bulk-to-client").

`

const usageEnd = `
Method: rounds of the subject (A) and of another (B) go A B B A; each A B and
each B A is a pair, and the figure is the median of the pairs' ratios with its
95 % bootstrap interval. A/A is the subject against a second process of itself.
A bar is missed only if the whole interval is beyond it; where A/A is wider than
5 %, nothing is said. CPU is that of all threads and workers of the balancer.

Without root the limit of descriptors may be too low for the 9,000 sessions of
"idle" (raise it: ulimit -n), and what runs as another user is skipped.

Examples:
  scripts/bench -quick                          everything, in minutes
  scripts/bench small-50                        one scenario as it is to be quoted
  scripts/bench -against haproxy,base -base /tmp/sluice-before short
  scripts/bench -json bench.json -svg bench.svg
`

// built in the environment is the program that scripts/bench has just built.
const built = "SLUICE_BENCH_BUILT"

// usageError is a mistake in the command line.
type usageError struct{ error }

// options are what the command line asks for.
type options struct {
	scenarios []string
	list      bool
	mode      string // "full", "quick" or "smoke"
	pairs     int
	window    time.Duration // of one round
	deadline  time.Duration
	subject   string
	against   []string // nil: all
	json, svg string
	sluice    string
	base      string
}

// modes are how long each takes: pairs of the comparisons that have a bar, the
// length of a round, and when all has to be over.
var modes = map[string]struct {
	pairs    int
	window   time.Duration
	deadline time.Duration
}{
	"full":  {20, 2500 * time.Millisecond, 5 * time.Hour},
	"quick": {4, 700 * time.Millisecond, time.Hour},
	"smoke": {1, 60 * time.Millisecond, 2 * time.Minute},
}

// parse reads the command line; flags may follow the scenarios.
func parse(args []string, output io.Writer) (options, error) {
	o := options{mode: "full"}
	var seconds float64
	var quick, smoke bool
	var against string
	f := flag.NewFlagSet("scripts/bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.BoolVar(&o.list, "list", false, "list the scenarios")
	f.BoolVar(&quick, "quick", false, "fewer and shorter rounds: shows what is broken, gives no figures to quote")
	f.BoolVar(&smoke, "smoke", false, "run everything for a moment, to see that it works")
	f.IntVar(&o.pairs, "pairs", 0, "`number` of pairs of a comparison that has a bar (20; quick: 4); others get a third")
	f.Float64Var(&seconds, "seconds", 0, "`length` of a round (2.5; quick: 0.7)")
	f.DurationVar(&o.deadline, "deadline", 0, "end after that `time` with what there is (5h; quick: 1h)")
	f.StringVar(&o.subject, "subject", "", "`who` is A: "+strings.Join(subject.Names, ", ")+" (epoll, or copy where it is refused)")
	f.StringVar(&against, "against", "", "compare with these `subjects` alone, separated by commas")
	f.StringVar(&o.json, "json", "", "write all of it to this `file`")
	f.StringVar(&o.svg, "svg", "", "write a chart to this `file`")
	f.StringVar(&o.sluice, "sluice", os.Getenv(built), "measure this `program` instead of the one that was just built")
	f.StringVar(&o.base, "base", "", "an older `program` of Sluice to compare with, as \"base\"")
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				printUsage(f, output)
				return o, err
			}
			return o, usageError{err}
		}
		if args = f.Args(); len(args) > 0 {
			o.scenarios = append(o.scenarios, args[0])
			args = args[1:]
		}
	}
	if quick {
		o.mode = "quick"
	}
	if smoke {
		o.mode = "smoke"
	}
	if against != "" {
		o.against = strings.Split(against, ",")
	}
	o.window = time.Duration(seconds * float64(time.Second))
	f.Visit(func(given *flag.Flag) {
		if given.Name == "pairs" && o.pairs == 0 {
			o.pairs = -1 // 0 is what the mode gives
		}
	})
	return o, o.complete()
}

// complete fills in what the mode gives, and checks what was given.
func (o *options) complete() error {
	m := modes[o.mode]
	if o.pairs == 0 {
		o.pairs = m.pairs
	}
	if o.window == 0 {
		o.window = m.window
	}
	if o.deadline == 0 {
		o.deadline = m.deadline
	}
	if o.pairs < 1 || o.window < time.Millisecond || o.window > time.Minute || o.deadline < 0 {
		return usageError{errors.New("write -pairs 1 or more, -seconds above 0 and 60 at most, and a -deadline above 0")}
	}
	for _, name := range append(slices.Clone(o.against), o.subject) {
		if name != "" && !slices.Contains(subject.Names, name) {
			return usageError{fmt.Errorf("%q is none of %s", name, strings.Join(subject.Names, ", "))}
		}
	}
	return nil
}

func printUsage(f *flag.FlagSet, output io.Writer) {
	f.SetOutput(output)
	f.Lookup("sluice").DefValue = ""
	fmt.Fprint(output, usage)
	f.PrintDefaults()
	fmt.Fprintln(output, "\nScenarios:")
	printScenarios(output)
	fmt.Fprint(output, usageEnd)
}

func printScenarios(output io.Writer) {
	for _, s := range scenarios() {
		fmt.Fprintf(output, "  %-22s %s\n", s.name, s.about)
	}
}

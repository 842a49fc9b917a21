//go:build unix

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quoted     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	valuesCall = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	selector   = regexp.MustCompile(`([a-zA-Z_:][\w:]*)\{([^{}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")`)
	grouping   = regexp.MustCompile(`\b(by|on|ignoring|without|group_left|group_right)\s*\(([^()]*)\)`)
	window     = regexp.MustCompile(`\[[^\]]*\]`)
	identifier = regexp.MustCompile(`[a-zA-Z_:][\w:]*`)
)

// Words of a query that are no metric.
var (
	functions = strings.Fields("sum max min count rate increase changes histogram_quantile time vector")
	operators = strings.Fields("and or unless bool")
)

// added are labels that Prometheus puts on what it scrapes, or makes itself.
var added = []string{"job", "instance", "le"}

// checkQuery returns what a query asks for that no scrape has: metrics, labels,
// and words of those labels whose words are ours.
func (s *scrape) checkQuery(query string) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...)+" in "+query)
	}
	rest, asked := query, map[string]bool{} // labels
	if m := valuesCall.FindStringSubmatch(query); m != nil {
		rest, asked[m[2]] = m[1], true
	}
	for _, m := range selector.FindAllStringSubmatch(rest, -1) {
		for _, pair := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !s.has(m[1], pair[1]) {
				fault("%s has no label %s", m[1], pair[1])
			}
			for _, word := range s.strange(pair[1], pair[3]) {
				fault("label %s has no word %s", pair[1], word)
			}
		}
	}
	rest = window.ReplaceAllString(selector.ReplaceAllString(rest, "$1"), "")
	for _, m := range grouping.FindAllStringSubmatch(rest, -1) {
		for _, label := range identifier.FindAllString(m[2], -1) {
			asked[label] = true
		}
	}
	rest = quoted.ReplaceAllString(grouping.ReplaceAllString(rest, ""), "")
	var metrics []string
	for _, name := range identifier.FindAllString(rest, -1) {
		switch {
		case slices.Contains(functions, name), slices.Contains(operators, name):
		case name != "up" && s.kinds[s.family(name)] == "":
			fault("no metric %s", name)
		default:
			metrics = append(metrics, name)
		}
	}
	for label := range asked {
		if !slices.ContainsFunc(metrics, func(name string) bool { return s.has(name, label) }) {
			fault("no metric has the label %s", label)
		}
	}
	return faults
}

// has reports whether a metric has a label in Prometheus.
func (s *scrape) has(metric, label string) bool {
	return slices.Contains(added, label) || s.labels[s.family(metric)][label]
}

// strange returns the alternatives of a matcher that are none of our words.
func (s *scrape) strange(label, pattern string) (words []string) {
	if !slices.Contains([]string{"cause", "reason", "direction"}, label) {
		return nil
	}
	for word := range strings.SplitSeq(strings.Trim(pattern, `"`), "|") {
		if !s.words[label][word] {
			words = append(words, word)
		}
	}
	return words
}

// A check that finds nothing would pass everything.
func TestCheckQueryFindsMistakes(t *testing.T) {
	s, err := parseScrape("# TYPE s_total counter\ns_total{frontend=\"web\",cause=\"idle\"} 1\n" +
		"# TYPE s_seconds histogram\ns_seconds_bucket{frontend=\"web\",le=\"1\"} 1\n# TYPE g gauge\ng 1\n")
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		`sum by (frontend, cause) (rate(s_total{job=~"$job", cause=~"idle"}[$__rate_interval])) > 0`:  0,
		`histogram_quantile(0.9, sum by (frontend, le) (rate(s_seconds_bucket{frontend="web"}[5m])))`: 0,
		`label_values(s_total{frontend="x"}, cause)`:                                                  0,
		`up{job="sluice"} == 0 or time() - g > 3`:                                                     0,
		`s_tota`:                          1,
		`rate(s_total{fronted="x"}[5m])`:  1,
		`s_total{cause=~"idle|ilde"}`:     1,
		`sum by (pool) (s_total)`:         1,
		`s_seconds`:                       0,
		`s_total_bucket`:                  1,
		`label_values(s_total, backend)`:  1,
		`label_values(t_total, frontend)`: 2,
		`rat(g)`:                          1,
		`g / nothing{frontend="x"}`:       2,
	} {
		if got := s.checkQuery(query); len(got) != want {
			t.Errorf("%s: got %q, want %d faults", query, got, want)
		}
	}
}

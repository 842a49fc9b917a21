//go:build unix

package main

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// scrape is what /metrics told at one moment.
type scrape struct {
	text   string
	kinds  map[string]string             // counter, gauge or histogram, by name
	labels map[string]map[string]bool    // by name; le is none
	words  map[string]map[string]bool    // values of each label
	values map[string]float64            // by the series as written
	series map[string]map[string]float64 // the same, by name
}

var (
	sampleLine = regexp.MustCompile(`^(([a-z_:A-Z0-9]+)(?:\{(.*)\})?) (\S+)$`)
	labelPair  = regexp.MustCompile(`([a-zA-Z_0-9]+)="((?:[^"\\]|\\.)*)"`)
	partOf     = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// parseScrape reads the text format, as far as Sluice writes it.
func parseScrape(text string) (*scrape, error) {
	s := &scrape{
		text: text, kinds: map[string]string{}, labels: map[string]map[string]bool{}, words: map[string]map[string]bool{},
		values: map[string]float64{}, series: map[string]map[string]float64{},
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if kind, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(kind, " ")
			s.kinds[name] = kind
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("no sample: %q", line)
		}
		if err := s.add(m[1], m[2], m[3], m[4]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *scrape) add(series, name, labels, number string) error {
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fmt.Errorf("%s: %w", series, err)
	}
	if _, twice := s.values[series]; twice {
		return fmt.Errorf("%s is there twice", series)
	}
	s.values[series] = v
	put(s.series, name, series, v)
	name = s.family(name)
	if s.labels[name] == nil {
		s.labels[name] = map[string]bool{}
	}
	for _, pair := range labelPair.FindAllStringSubmatch(labels, -1) {
		if pair[1] != "le" {
			s.labels[name][pair[1]] = true
			put(s.words, pair[1], pair[2], true)
		}
	}
	return nil
}

func put[K comparable, V any](m map[string]map[K]V, outer string, inner K, v V) {
	if m[outer] == nil {
		m[outer] = map[K]V{}
	}
	m[outer][inner] = v
}

// family returns the metric that a name in a query belongs to.
func (s *scrape) family(name string) string {
	if base := partOf.ReplaceAllString(name, ""); s.kinds[base] == "histogram" || s.kinds[base] == "summary" {
		return base
	}
	return name
}

// own lists the metrics that are Sluice's.
func (s *scrape) own() (names []string) {
	for name := range s.kinds {
		if strings.HasPrefix(name, "sluice_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// of sums the series of a metric whose labels have all of these pairs.
func (s *scrape) of(name string, pairs ...string) (sum float64) {
	for series, v := range s.series[name] {
		if !slices.ContainsFunc(pairs, func(p string) bool { return !strings.Contains(series, p) }) {
			sum += v
		}
	}
	return sum
}

// gauges returns the series of Sluice's gauges that count something.
func (s *scrape) gauges() map[string]float64 {
	all := map[string]float64{}
	for name, kind := range s.kinds {
		if kind == "gauge" && strings.HasPrefix(name, "sluice_") {
			maps.Copy(all, s.series[name])
		}
	}
	return all
}

// counters returns the series that must not go down, parts of histograms included.
func (s *scrape) counters() map[string]float64 {
	all := map[string]float64{}
	for name, series := range s.series {
		kind := s.kinds[s.family(name)]
		if strings.HasPrefix(name, "sluice_") && (kind == "counter" || kind == "histogram") {
			maps.Copy(all, series)
		}
	}
	return all
}

func TestParseScrape(t *testing.T) {
	s, err := parseScrape("# HELP a_total x\n# TYPE a_total counter\na_total{p=\"x, {y}\",q=\"1\"} 2\na_total{p=\"z\",q=\"1\"} 3\n" +
		"# TYPE h histogram\nh_bucket{le=\"1\",p=\"x\"} 4\nh_sum 1e-3\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.of("a_total", `q="1"`); got != 5 || s.of("a_total", `p="z"`) != 3 || s.of("h_sum") != 0.001 {
		t.Errorf("got %v", s.values)
	}
	if !s.words["p"]["x, {y}"] || s.labels["h"]["le"] || !s.labels["h"]["p"] || s.family("h_sum") != "h" || s.family("a_count") != "a_count" {
		t.Errorf("got labels %v and words %v", s.labels, s.words)
	}
	for _, bad := range []string{"a b c", "a{} x", "a 1\na 1"} {
		if _, err := parseScrape(bad); err == nil {
			t.Errorf("%q is no mistake", bad)
		}
	}
}

// scrape reads the metrics of the daemon.
func (d *daemon) scrape() *scrape {
	d.t.Helper()
	status, text := d.ask("GET", "/metrics", "")
	if status != http.StatusOK {
		d.t.Fatalf("GET /metrics: got %d: %s", status, text)
	}
	s, err := parseScrape(text)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

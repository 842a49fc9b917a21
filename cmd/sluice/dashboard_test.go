//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// board is what a dashboard asks Prometheus for.
type board struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating  struct{ List []variable }
	Annotations struct{ List []struct{ Expr string } }
}

type variable struct{ Type, Query string }

func readBoard(t *testing.T) (b board) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if n := len(b.queries()); n < 30 {
		t.Fatalf("got %d queries of the dashboard, want all of them", n)
	}
	return b
}

// queries lists what is PromQL.
func (b board) queries() (list []string) {
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			list = append(list, target.Expr)
		}
	}
	for _, a := range b.Annotations.List {
		list = append(list, a.Expr)
	}
	return list
}

// legend finds the labels that a legend or an annotation shows.
var legend = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)

func checkDashboard(t *testing.T, s *scrape) {
	b := readBoard(t)
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			for _, m := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !s.shows(target.Expr, m[1]) {
					t.Errorf("panel %q: no metric of %s has the label %s", p.Title, target.Expr, m[1])
				}
			}
		}
	}
	s.checkQueries(t, b.queries())
	for _, v := range b.Templating.List {
		if v.Type == "query" {
			s.checkQueries(t, []string{v.Query})
		}
	}
}

// asRules writes queries as a file of rules, which may be JSON as well as YAML,
// with what Grafana puts in the place of its own words.
func asRules(t *testing.T, queries []string) (file string) {
	t.Helper()
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	type group struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	}
	grafana := strings.NewReplacer("$__rate_interval", "1m", "$__interval", "1m")
	g := group{Name: "dashboard"}
	for i, q := range queries {
		g.Rules = append(g.Rules, rule{fmt.Sprintf("query:%d", i), grafana.Replace(q)})
	}
	text, err := json.Marshal(map[string][]group{"groups": {g}})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

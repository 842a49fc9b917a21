//go:build unix

package main

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/l4/l4test"
)

// served is a scrape of a balancer after all sorts of traffic.
func served(t *testing.T) *scrape {
	t.Helper()
	a := l4test.Serve(t, l4test.Tag("A"))
	d := startDaemon(t, head+"[admin.proxy]\nlisten = \"127.0.0.1:0\"\n"+frontendText("web", free, "p")+frontendText("none", free, "q")+
		poolText("p", "", "A="+a.Addr, "B="+l4test.Refuse(t)+"\nmax_sessions = 7")+poolText("q", ""))
	for range 4 {
		if _, err := visit(d.frontend("web").Listen); err != nil {
			t.Fatal(err)
		}
	}
	_, err := visit(d.frontend("none").Listen)
	if err == nil {
		t.Fatal("a pool without backends serves")
	}
	d.ask("GET", "/proxy/", "")                                                       // needs a pool's name: a refusal
	answer, err := http.Get("http://" + d.frontend("/proxy").Listen + "/favicon.ico") // is no path of /proxy: another
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	eventually(t, "all sessions have ended", func() bool { return d.scrape().of("sluice_frontend_sessions_active") == 0 })
	return d.scrape()
}

// The README's table, the dashboard and the alerts speak of what is served.
func TestMetricsAreThoseOfTheDocuments(t *testing.T) {
	t.Parallel()
	s := served(t)
	t.Run("traffic", func(t *testing.T) { checkTraffic(t, s) })
	t.Run("readme", func(t *testing.T) { checkMetricsTable(t, s) })
	t.Run("dashboard", func(t *testing.T) { checkDashboard(t, s) })
	t.Run("alerts", func(t *testing.T) { checkAlerts(t, s) })
	t.Run("promtool metrics", func(t *testing.T) { promtool(t, s.text, "check", "metrics") })
	t.Run("promtool rules", func(t *testing.T) { promtool(t, "", "check", "rules", alertsFile) })
	t.Run("promtool alerts", func(t *testing.T) { promtool(t, "", "test", "rules", alertsTestFile) })
	t.Run("promtool dashboard", func(t *testing.T) { promtool(t, "", "check", "rules", asRules(t, readBoard(t).queries())) })
}

const (
	alertsFile     = "../../scripts/observe/alerts.yml"
	alertsTestFile = "../../scripts/observe/alerts_test.yml"
	dashboardFile  = "../../scripts/observe/dashboard.json"
)

func checkTraffic(t *testing.T, s *scrape) {
	for _, c := range []struct {
		name, pair string
		want       float64
	}{
		{"sluice_frontend_sessions_total", `cause="client_closed",frontend="web"`, 4},
		{"sluice_frontend_sessions_total", `cause="no_backend",frontend="none"`, 1},
		{"sluice_session_seconds_count", `frontend="web"`, 4},
		{"sluice_frontend_rejected_total", `frontend="/proxy"`, 2},
		{"sluice_backend_sessions_total", `backend="A"`, 4},
		{"sluice_backend_sessions_limit", `backend="B"`, 7},
		{"sluice_backend_bytes_total", `backend="A",direction="to_backend"`, 4 * 5},
		{"sluice_backend_bytes_total", `backend="A",direction="to_client"`, 4 * 7},
		{"sluice_backend_dial_seconds_count", `backend="A"`, 4},
	} {
		if got := s.of(c.name, c.pair); got != c.want {
			t.Errorf("%s{%s}: got %v, want %v", c.name, c.pair, got, c.want)
		}
	}
	redials := s.of("sluice_frontend_redials_total", `"web"`)
	if failed := s.of("sluice_backend_dial_failures_total", `backend="B"`, `"refused"`); failed != redials {
		t.Errorf("%v redials, and %v failures of the backend that refuses", redials, failed)
	}
	if s.of("process_open_fds") == 0 || s.of("go_goroutines") == 0 {
		t.Error("the process says nothing of itself")
	}
}

var (
	metricRow = regexp.MustCompile("(?m)^\\| (`sluice_[^|]*) \\|([^|]*)\\|")
	code      = regexp.MustCompile("`([^`]*)`")
)

func checkMetricsTable(t *testing.T, s *scrape) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, row := range metricRow.FindAllStringSubmatch(string(text), -1) {
		var labels []string
		for _, l := range code.FindAllStringSubmatch(row[2], -1) {
			labels = append(labels, l[1])
		}
		for _, name := range code.FindAllStringSubmatch(row[1], -1) {
			told[name[1]] = true
			if s.kinds[name[1]] == "" {
				t.Errorf("README.md tells of %s, which is not served", name[1])
				continue
			}
			if has := s.labels[name[1]]; len(has) != len(labels) || slices.ContainsFunc(labels, func(l string) bool { return !has[l] }) {
				t.Errorf("%s: README.md says labels %v, served are %v", name[1], labels, has)
			}
		}
	}
	for _, name := range s.own() {
		if !told[name] {
			t.Errorf("README.md does not tell of %s", name)
		}
	}
}

// shows reports whether some metric of the query has the label.
func (s *scrape) shows(query, label string) bool {
	return slices.ContainsFunc(identifier.FindAllString(query, -1), func(name string) bool {
		return (name == "up" || s.kinds[s.family(name)] != "") && s.has(name, label)
	})
}

func (s *scrape) checkQueries(t *testing.T, queries []string) {
	t.Helper()
	for _, q := range queries {
		for _, fault := range s.checkQuery(q) {
			t.Error(fault)
		}
	}
}

func checkAlerts(t *testing.T, s *scrape) {
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	rules := alertsOf(string(text))
	if len(rules) < 10 || strings.Count(string(text), "alert:") != len(rules) {
		t.Fatalf("got %d rules of the file, want all of them", len(rules))
	}
	for _, r := range rules {
		s.checkQueries(t, []string{r["expr"]})
		for _, key := range []string{"expr", "severity", "summary", "description"} {
			if r[key] == "" {
				t.Errorf("alert %s has no %s", r["alert"], key)
			}
		}
		for _, m := range legend.FindAllStringSubmatch(r["summary"]+r["description"], -1) {
			if !s.shows(r["expr"], m[1]) {
				t.Errorf("alert %s: no metric of it has the label %s", r["alert"], m[1])
			}
		}
	}
}

// alertsOf reads the rules of a file that keeps to our form of YAML: a key and
// its value on a line, or ">-" and deeper lines.
func alertsOf(text string) (rules []map[string]string) {
	var key string
	var indent int
	for line := range strings.Lines(text) {
		body := strings.TrimSpace(line)
		at := strings.Index(line, body)
		if key != "" && at > indent && body != "" {
			rules[len(rules)-1][key] += body + " "
			continue
		}
		key = ""
		name, value, ok := strings.Cut(strings.TrimPrefix(body, "- "), ":")
		value = strings.TrimSpace(value)
		if name == "alert" {
			rules = append(rules, map[string]string{})
		}
		switch {
		case !ok || len(rules) == 0:
		case value == ">-":
			key, indent = name, at
		default:
			rules[len(rules)-1][name] = strings.Trim(value, `"`)
		}
	}
	return rules
}

// promtool lets Prometheus's own tool judge, where it is installed.
func promtool(t *testing.T, input string, args ...string) {
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIPPED: promtool is not installed (Debian package prometheus)")
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

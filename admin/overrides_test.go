package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"sluice/l4/l4test"
	"sluice/pool"
)

// steered is a rig of two pools of which the API has changed a good deal.
func steered(t *testing.T) *rig {
	t.Helper()
	at := l4test.Refuse(t)
	r := start(t, proxying, newPool(t, "one", at, "127.0.0.2:1"), newPool(t, "two", at))
	r.do("PATCH", "/backends/a?pool=one", `{"weight": 5, "state": "drain"}`).want(t, http.StatusOK, "")
	r.do("DELETE", "/backends/b?pool=one", "").want(t, http.StatusNoContent, "")
	r.do("POST", "/backends?pool=one", `{"id": "c", "address": "127.0.0.3:1"}`).want(t, http.StatusCreated, "")
	r.do("PATCH", "/pools/two", `{"strategy": "least_connections"}`).want(t, http.StatusOK, "")
	return r
}

// keys lists what differs, in short.
func keys(ds []pool.Difference) string {
	var all []string
	for _, d := range ds {
		all = append(all, strings.Join(strings.Fields(d.Pool+" "+d.Backend+" "+d.Key), " "))
	}
	return strings.Join(all, ", ")
}

func TestStatusShowsEveryDifference(t *testing.T) {
	r := steered(t)
	status := decode[struct{ Differences []json.RawMessage }](t, r.do("GET", "/status", ""))
	want := []string{
		`"pool":"one","backend":"a","key":"weight","file":1,"running":5,"origin":"api","since":"2`,
		`"pool":"one","backend":"a","key":"state","file":"ready","running":"drain","origin":"api","since":"2`,
		`"pool":"one","backend":"c","key":"backend","file":null,"running":{"address":"127.0.0.3:1","weight":1,"max_sessions":0,"state":"ready"},"origin":"api"`,
		`"pool":"one","backend":"b","key":"backend","file":{"address":"127.0.0.2:1","weight":1,"max_sessions":0},"running":null,"origin":"api"`,
		`"pool":"two","key":"strategy","file":"round_robin","running":"least_connections","origin":"api"`,
	}
	if len(status.Differences) != len(want) {
		t.Fatalf("got %d differences, want %d: %s", len(status.Differences), len(want), status.Differences)
	}
	for i, d := range status.Differences {
		if !strings.Contains(string(d), want[i]) {
			t.Errorf("got %s, want %s", d, want[i])
		}
	}
}

func TestForget(t *testing.T) {
	for query, c := range map[string]struct{ forgotten, left string }{
		"":                    {"one a weight, one a state, one c backend, one b backend, two strategy", ""},
		"?pool=one":           {"one a weight, one a state, one c backend, one b backend", "two strategy"},
		"?pool=two":           {"two strategy", "one a weight, one a state, one c backend, one b backend"},
		"?pool=one&backend=a": {"one a weight, one a state", "one c backend, one b backend, two strategy"},
		"?pool=one&backend=b": {"one b backend", "one a weight, one a state, one c backend, two strategy"},
		"?pool=one&backend=c": {"one c backend", "one a weight, one a state, one b backend, two strategy"},
		"?pool=two&backend=a": {"", "one a weight, one a state, one c backend, one b backend, two strategy"},
	} {
		r := steered(t)
		kept := r.kept.Load()
		got := decode[forgotten](t, r.do("DELETE", "/overrides"+query, "").want(t, http.StatusOK, `"forgotten":[`))
		if keys(got.Forgotten) != c.forgotten || keys(r.unlike()) != c.left {
			t.Errorf("%s: forgot %s, left %s; want %s, left %s", query, keys(got.Forgotten), keys(r.unlike()), c.forgotten, c.left)
		}
		if r.kept.Load() != kept+1 {
			t.Errorf("%s: what is left was kept %d times, want once", query, r.kept.Load()-kept)
		}
		lines := r.logs.FilterMessage("overrides forgotten").All()
		if len(lines) != 1 || len(lines[0].ContextMap()["changes"].([]any)) != len(got.Forgotten) {
			t.Errorf("%s: got lines %v, want one of all", query, lines)
		}
	}
}

// However much is forgotten, the log gets one line of bounded length.
func TestForgetLogsNotTooMuch(t *testing.T) {
	lines := described(make([]pool.Difference, maxDescribed+5))
	if last := lines[len(lines)-1]; len(lines) != maxDescribed+1 || last != "and 5 more" {
		t.Errorf("got %d lines, the last %q", len(lines), last)
	}
}

func TestForgetRefuses(t *testing.T) {
	r := steered(t)
	before := keys(r.unlike())
	r.do("DELETE", "/overrides?backend=a", "").want(t, http.StatusBadRequest, "name one of the pools: one, two")
	r.do("DELETE", "/overrides?pool=three", "").want(t, http.StatusNotFound, "no pool")
	r.do("DELETE", "/overrides?pool=one&backend=x", "").want(t, http.StatusNotFound, "no such backend")
	for _, query := range []string{
		"pol=one", "pool=", "backend=", "pool=one&backend=", "pool=one&pool=two", "pool=%zz", "pool=one;backend=a",
	} {
		r.do("DELETE", "/overrides?"+query, "").want(t, http.StatusBadRequest, "")
	}
	r.do("GET", "/overrides", "").want(t, http.StatusMethodNotAllowed, "DELETE")
	r.do("DELETE", "/overrides", "", "Origin: http://elsewhere.example").want(t, http.StatusForbidden, "")
	if after := keys(r.unlike()); after != before {
		t.Errorf("got %s, want %s", after, before)
	}
}

// Every change is kept before its answer, and nothing else is.
func TestChangesAreKept(t *testing.T) {
	r := steered(t)
	if n := r.kept.Load(); n != 4 {
		t.Errorf("kept %d times, want once for each of 4 changes", n)
	}
	r.do("GET", "/status", "").want(t, http.StatusOK, "")
	r.do("PATCH", "/backends/x?pool=one", `{"weight": 5}`).want(t, http.StatusNotFound, "")
	if n := r.kept.Load(); n != 4 {
		t.Errorf("kept %d times, want 4: nothing was changed since", n)
	}
}

package admin

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/pool"
)

func TestExplain(t *testing.T) {
	at := l4test.Refuse(t)
	r := start(t, proxying, newPool(t, "one", at, "127.0.0.2:1", "127.0.0.3:1"), newPool(t, "two", at))
	r.do("GET", "/explain", "").want(t, 400, "name one of the pools: one, two")
	r.do("GET", "/backends/a/events", "").want(t, 400, "name one of the pools: one, two")
	r.do("PATCH", "/backends/a?pool=one", `{"weight": 5, "state": "drain"}`).want(t, http.StatusOK, "")
	r.do("DELETE", "/backends/b?pool=one", "").want(t, http.StatusNoContent, "")
	before := r.logs.Len()
	x := decode[Explained](t, r.do("GET", "/explain?pool=one", "").want(t, 200, ""))
	var words []pool.Word
	for _, b := range x.Backends {
		words = append(words, b.Word)
	}
	if want := []pool.Word{pool.Draining, pool.Picked, pool.DeletedByAPI}; !slices.Equal(words, want) {
		t.Errorf("got %q, want %q", words, want)
	}
	a := x.Backends[0]
	last := a.Events[len(a.Events)-1]
	if by := "set to drain by the API (127.0.0.1:"; a.Since.IsZero() || a.Text[:len(by)] != by || last.Text[:len("up -> drain: "+by)] != "up -> drain: "+by {
		t.Errorf("got %+v", a)
	}
	if x.At.IsZero() || x.Pick.ID != "c" {
		t.Errorf("got %+v", x)
	}
	if n := r.logs.Len() - before; n != 0 {
		t.Errorf("it logged %d lines", n)
	}
	for query, n := range map[string]int{"&events=0": 0, "&events=1": 1, "": 3, "&events=all": 3} {
		x := decode[Explained](t, r.do("GET", "/explain?pool=one"+query, "").want(t, 200, ""))
		if got := len(x.Backends[0].Events); got != n {
			t.Errorf("%s: got %d events, want %d", query, got, n)
		}
	}
}

// What was removed keeps its events for as long as it is remembered.
func TestEventsOfARemovedBackend(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web", "127.0.0.1:1"))
	r.do("DELETE", "/backends/a", "").want(t, 204, "")
	r.do("GET", "/backends/a/events", "").want(t, 200, `"text":"up -> removed: removed by the API"`)
}

// Who may read may ask.
func TestExplainNeedsAReadToken(t *testing.T) {
	set := proxying
	set.Tokens = tokens
	r := start(t, set, newPool(t, "web", "127.0.0.1:1"))
	r.goPublic()
	for _, path := range []string{"/explain", "/backends/a/events"} {
		r.do("GET", path, "").want(t, 401, "")
		r.do("GET", path, "", readToken).want(t, 200, "")
	}
}

// A backend that was never found under its name is in no list of backends: the
// notes say so.
func TestExplainNamesWhatCannotBeLookedUp(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "web"))
	r.names = map[string][]Name{"web": {
		{ID: "db", Error: "no such host", Since: time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)},
		{ID: "well", Found: []string{"10.0.0.1:80"}},
	}}
	x := decode[Explained](t, r.do("GET", "/explain", "").want(t, 200, ""))
	want := "no answer for the name of db since 2026-11-30 03:00:00 UTC, so what it stands for stays as it was (0): no such host"
	if len(x.Notes) != 1 || x.Notes[0] != want {
		t.Errorf("got %q, want %q", x.Notes, want)
	}
}

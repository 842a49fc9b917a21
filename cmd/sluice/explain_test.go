//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/admin"
	"sluice/l4/l4test"
	"sluice/pool"
)

func TestExplanationForPeople(t *testing.T) {
	at := time.Date(2026, 11, 30, 3, 14, 15, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return at.Add(-d) }
	x := admin.Explained{At: at, Explanation: pool.Explanation{
		Pool: "db", Strategy: "round_robin", Pick: &pool.Choice{ID: "b", Address: "10.0.0.2:5432", Sure: true},
		Text:  "a new session gets b",
		Notes: []string{"something is odd"},
		Queue: pool.Line{Max: 8, Waiting: 1},
		Backends: []pool.Reason{
			{ID: "a", Address: "10.0.0.1:5432", Word: pool.Downed, Text: "3 probes in a row failed, the last: refused", Weight: 1, Active: 12,
				Since: ago(90 * time.Second), Until: at.Add(4 * time.Second), Events: []pool.Event{
					{Kind: pool.EventProbe, Text: "passed", Count: 900, First: ago(time.Hour), Last: ago(95 * time.Second)},
					{Kind: pool.EventState, Text: "up -> down: 3 probes in a row failed", Count: 1, First: ago(90 * time.Second), Last: ago(90 * time.Second)},
				}},
			{ID: "long-name", Address: "10.0.0.3:5432", Word: pool.NextTurns, Text: "its turn comes later", Eligible: true, Weight: 10, Events: []pool.Event{
				{Kind: pool.EventDial, Text: "timeout: i/o timeout", Count: 2, First: ago(92 * time.Second), Last: ago(91 * time.Second)},
			}},
			{ID: "b", Address: "10.0.0.2:5432", Word: pool.Picked, Text: "gets the next session", Eligible: true, Weight: 1},
		},
	}}
	want := `pool db, round_robin, 2026-11-30 03:14:15
a new session gets b
note: something is odd
queue: 1 of 8 wait

BACKEND    ADDRESS        SESSIONS  WEIGHT  REASON
b          10.0.0.2:5432  0         1       pick        gets the next session
long-name  10.0.0.3:5432  0         10      next_turns  its turn comes later
a          10.0.0.1:5432  12        1       down        3 probes in a row failed, the last: refused, since 11-30 03:12:45.000 (1m30s ago), until 11-30 03:14:19.000 (in 4s)

FIRST               LAST                TIMES  BACKEND    EVENT
11-30 02:14:15.000  11-30 03:12:40.000  900    a          probe  passed
11-30 03:12:43.000  11-30 03:12:44.000  2      long-name  dial   timeout: i/o timeout
11-30 03:12:45.000  11-30 03:12:45.000  1      a          state  up -> down: 3 probes in a row failed
`
	if got := explanation(x, time.UTC); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// explained runs "sluice explain" against the daemon.
func (d *daemon) explained(args ...string) (x admin.Explained) {
	d.t.Helper()
	status, out, errs := sluiceRun(d.t, append([]string{"explain", "--json", "--admin", d.admin}, args...)...)
	if err := json.Unmarshal([]byte(out), &x); status != 0 || err != nil {
		d.t.Fatalf("got %d, %v, %s%s", status, err, out, errs)
	}
	return x
}

// A backend dies under a client. What is told of it says so: the reason, and the
// dials, probes and transitions in their order, each with its evidence and times.
func TestExplainAfterADeath(t *testing.T) {
	t.Parallel()
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	d := startDaemon(t, head+frontendText("web", free, "p")+
		probedPool("max_failures = 0", "fall = 3", "A="+a.Addr, "B="+b.Addr))
	d.awaitState("p", "A", "up")
	d.awaitState("p", "B", "up")
	x := d.explained()
	if x.Pick == nil || !x.Pick.Sure || len(x.Backends) != 2 || x.Backends[0].Events != nil {
		t.Fatalf("got %+v", x)
	}
	if name, err := visit(d.frontend("web").Listen); err != nil || name != x.Pick.ID {
		t.Errorf("got %s and %v, explained was %+v", name, err, x.Pick)
	}

	died := time.Now()
	a.Stop()
	d.awaitState("p", "A", "down")
	if name, err := visit(d.frontend("web").Listen); err != nil || name != "B" {
		t.Errorf("got %s and %v", name, err)
	}
	x = d.explained("--events", "--client", "10.0.0.1", "--pool", "p")
	r := x.Backends[slices.IndexFunc(x.Backends, func(r pool.Reason) bool { return r.ID == "A" })]
	if r.Word != pool.Downed || r.Eligible || !strings.HasPrefix(r.Text, "3 probes in a row failed, the last: dial "+a.Addr) || r.Since.Before(died.Truncate(time.Second)) {
		t.Errorf("got %+v", r)
	}
	if x.Pick == nil || x.Pick.ID != "B" || x.Client != "10.0.0.1" || x.Text != "a new session gets B" {
		t.Errorf("got %+v", x)
	}
	inOrder(t, r.Events, "state up: configured in the file", "probe passed", "probe failed: dial "+a.Addr, "state up -> down: 3 probes in a row failed")

	status, text, _ := sluiceRun(t, "explain", "--admin", d.admin, "--events")
	for _, want := range []string{"a new session gets B\n", "down  3 probes in a row failed", "FIRST", "failed: dial " + a.Addr} {
		if status != 0 || !strings.Contains(text, want) {
			t.Errorf("got %d and\n%s\nwant %q in it", status, text, want)
		}
	}
}

// inOrder wants events that begin with these words, in this order.
func inOrder(t *testing.T, list []pool.Event, words ...string) {
	t.Helper()
	last := time.Time{}
	for _, e := range list {
		if len(words) > 0 && strings.HasPrefix(string(e.Kind)+" "+e.Text, words[0]) {
			words = words[1:]
		}
		if e.First.Before(last) || e.Last.Before(e.First) || e.Count < 1 {
			t.Errorf("out of order: %+v", list)
		}
		last = e.First
	}
	if len(words) > 0 {
		t.Errorf("got %+v, want %q in it", list, words)
	}
}

// Failed dials, what the API and the file change, and drains are told as well; and
// all of it outlasts a reload.
func TestEventsOfEveryKind(t *testing.T) {
	t.Parallel()
	b, dead := l4test.Serve(t, l4test.Tag("B")), l4test.Refuse(t)
	text := func(weight int) string {
		return head + frontendText("web", free, "p") + probedPool("max_failures = 2\nretry_after = \"1m\"", "probe = \"none\"",
			"B="+b.Addr, fmt.Sprintf("A=%s\nweight = %d", dead, weight))
	}
	d := startDaemon(t, text(1))
	for range 8 {
		if name, err := visit(d.frontend("web").Listen); err != nil || name != "B" {
			t.Fatalf("got %s and %v", name, err)
		}
	}
	d.must("PATCH", "/backends/A", `{"weight": 5, "state": "drain"}`)
	d.mustReload(text(2))
	var told struct {
		Pool, Backend string
		Events        []pool.Event
	}
	status, answer := d.ask("GET", "/backends/A/events", "")
	if err := json.Unmarshal([]byte(answer), &told); status != 200 || err != nil || told.Pool != "p" || told.Backend != "A" {
		t.Fatalf("got %d %s", status, answer)
	}
	inOrder(t, told.Events, "state up: configured", "dial refused: dial "+dead, "state up -> down: 2 failures in a row",
		"change weight 1 -> 5 by the API (127.0.0.1:", "state down -> drain: set to drain by the API (127.0.0.1:", "change weight 5 -> 2 by the file")
	if told.Events[1].Count != 2 {
		t.Errorf("two equal dials: got %+v", told.Events[1])
	}
}

func TestExplainOfWhatThereIsNot(t *testing.T) {
	t.Parallel()
	text, _ := three(t)
	d := startDaemon(t, text(""))
	for _, c := range []struct {
		flags, want string
		status      int
	}{
		{"--pool q", `no pool "q"; there is p`, 1},
		{"--client a.example", `parameter "client" must be an address`, 1},
		{"--clients x", "unknown flag", 2},
		{"x", "unexpected argument", 2},
	} {
		status, out, errs := sluiceRun(t, append([]string{"explain", "--admin", d.admin}, strings.Fields(c.flags)...)...)
		if status != c.status || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: got %d %q %q, want %d and %s", c.flags, status, out, errs, c.status, c.want)
		}
	}
}

// Who does not name a pool is shown each of them.
func TestExplainOfAllPools(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, head+frontendText("web", free, "p")+probedPool("", "", "A=127.0.0.1:1")+
		strings.Replace(probedPool("", "", "B=127.0.0.1:1"), `"p"`, `"q"`, 1))
	status, out, errs := sluiceRun(t, "explain", "--admin", d.admin)
	if status != 0 || !strings.HasPrefix(out, "pool p, ") || !strings.Contains(out, "\n\npool q, ") {
		t.Errorf("got %d and\n%s%s", status, out, errs)
	}
}

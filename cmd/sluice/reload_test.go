//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"sluice/l4/l4test"
)

// pair is a balancer in front of one tagged backend, and the text it runs on.
func pair(t *testing.T) (d *daemon, text string) {
	t.Helper()
	a := l4test.Serve(t, l4test.Tag("A"))
	text = head + frontendText("web", free, "p") + poolText("p", "", "A="+a.Addr)
	return startDaemon(t, text), text
}

// broken are files that no reload may take, and what their error must name.
// Each is the good text with a change.
var broken = map[string]struct {
	change func(good string) string
	names  string
}{
	"missing quote": {func(s string) string { return strings.Replace(s, `name = "web"`, `name = "web`, 1) }, ":"},
	"duplicate key": {func(s string) string { return strings.Replace(s, `pool = "p"`, "pool = \"p\"\npool = \"p\"", 1) }, "pool"},
	"wrong type":    {func(s string) string { return strings.Replace(s, `name = "web"`, `name = 3`, 1) }, "name"},
	"invalid UTF-8": {func(s string) string { return s + "# \xff\xfe\n" }, "UTF-8"},
	"tab in a key":  {func(s string) string { return strings.Replace(s, "name =", "na\tme =", 1) }, ":"},
	"cut":           {func(s string) string { return s[:len(s)-8] }, ":"},
	"empty":         {func(string) string { return "" }, "frontend"},
	"misspelled": {func(s string) string {
		return strings.Replace(s, "listen = \"127.0.0.1:0\"\npool", "lisen = \"127.0.0.1:0\"\npool", 1)
	}, "lisen"},

	// B107, B109: what is written in the wrong place is no new thing.
	"wrong table": {func(s string) string { return s + "[servers.default]\nprobe = \"tcp\"\n" }, "servers"},
	"wrong place": {func(s string) string {
		return strings.Replace(s, `pool = "p"`, "pool = \"p\"\nstrategy = \"fastest\"", 1)
	}, "strategy"},

	// B117: good TOML that means nothing good.
	"unknown pool": {func(s string) string { return strings.Replace(s, `pool = "p"`, `pool = "q"`, 1) }, `"q"`},
	"port range": {func(s string) string {
		return strings.Replace(s, "listen = \"127.0.0.1:0\"\npool", "listen = \"127.0.0.1:70000\"\npool", 1)
	}, "70000"},
	"twice listen": {func(s string) string {
		return s + frontendText("x", "127.0.0.1:9999", "p") + frontendText("y", "127.0.0.1:9999", "p")
	}, "9999"},
}

// B116, B117: a broken file changes nothing, says what is wrong, and does not
// keep the next good one from being applied.
func TestReloadRefusesBrokenFile(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	web := d.frontend("web").Listen
	session, _ := open(t, web)
	for name, b := range broken {
		d.write(b.change(good))
		line := d.hangUp(refused)
		if errors := fmt.Sprint(line["errors"]); line["level"] != "error" || !strings.Contains(errors, b.names) {
			t.Errorf("%s: got line %v, want level error and %q named", name, line, b.names)
		}
		status, answer := d.reload(b.change(good))
		if status != http.StatusUnprocessableEntity || len(answer.Errors) == 0 || !strings.Contains(answer.Error, b.names) {
			t.Errorf("%s: POST /reload: got %d %+v, want 422 and %q named", name, status, answer, b.names)
		}
		if got, err := visit(web); got != "A" || err != nil {
			t.Errorf("%s: a client got %q, %v", name, got, err)
		}
	}
	d.wantAlike(refused, len(broken))
	echoes(t, session)
	if v := d.view(); v.Generation != 1 {
		t.Errorf("got generation %d after broken files, want 1", v.Generation)
	}
	if changes := d.mustReload(strings.Replace(good, `pool = "p"`, "pool = \"p\"\nattempts = 2", 1)); !strings.Contains(changes[0], "attempts 3 -> 2") {
		t.Errorf("got changes %q", changes)
	}
	echoes(t, session)
}

// wantAlike wants n reloads by a signal and n by the API to have left the same
// lines, but for who asked.
func (d *daemon) wantAlike(msg string, n int) {
	d.t.Helper()
	eventually(d.t, fmt.Sprint(2*n, " lines ", msg), func() bool { return len(d.lines(msg)) == 2*n })
	by := map[string]int{}
	for _, line := range d.lines(msg) {
		who := fmt.Sprint(line["by"])
		if strings.HasPrefix(who, "127.0.0.1:") {
			who = "API"
		}
		delete(line, "by")
		delete(line, "time")
		by[who+fmt.Sprint(line)]++
	}
	for line, count := range by {
		other := strings.Replace(line, "SIGHUP", "API", 1)
		if other == line {
			other = strings.Replace(line, "API", "SIGHUP", 1)
		}
		if by[other] != count {
			d.t.Errorf("got %d lines %s, but %d %s", count, line, by[other], other)
		}
	}
}

// B116: a byte order mark either does no harm or is refused, but never breaks
// anything.
func TestReloadByteOrderMark(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	status, answer := d.reload("\ufeff" + good)
	if status != http.StatusOK && status != http.StatusUnprocessableEntity {
		t.Errorf("got %d %+v", status, answer)
	}
	if got, err := visit(d.frontend("web").Listen); got != "A" || err != nil {
		t.Errorf("a client got %q, %v", got, err)
	}
}

func TestReloadReportsEveryMistake(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	bad := strings.Replace(good, `pool = "p"`, "pool = \"q\"\nattempts = -1\ncolour = 3", 1)
	_, answer := d.reload(bad)
	for _, want := range []string{`"q"`, "attempts", "colour"} {
		if !strings.Contains(strings.Join(answer.Errors, "\n"), want) {
			t.Errorf("the answer does not name %s: %q", want, answer.Errors)
		}
	}
}

// B127: what means the same is no reload.
func TestReloadUnchanged(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	for i := range 50 {
		status, answer := d.reload(good)
		if status != http.StatusOK || answer.Generation != 1 || answer.Changes == nil || len(answer.Changes) != 0 {
			t.Fatalf("reload %d of the same text: got %d %+v, want 200, generation 1, no changes", i, status, answer)
		}
	}
	status, answer := d.reload("# by hand\n\n" + strings.ReplaceAll(good, " = ", "=") + "\n# end\n")
	if status != http.StatusOK || answer.Generation != 1 || len(answer.Changes) != 0 {
		t.Errorf("only comments changed: got %d %+v", status, answer)
	}
	d.hangUp(unchanged)
	eventually(t, "one line for each of 52 reloads", func() bool { return len(d.lines(unchanged)) == 52 })
	if v := d.view(); v.Generation != 1 {
		t.Errorf("got generation %d, want 1", v.Generation)
	}
}

// B119: all or nothing. Three pools change and one address is taken.
func TestReloadBusyAddress(t *testing.T) {
	t.Parallel()
	busy := l4test.Serve(t, l4test.Echo)
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	text := func(backend string, more string) string {
		s := head + more
		for _, name := range []string{"1", "2", "3"} {
			s += frontendText("f"+name, free, "p"+name) + poolText("p"+name, "", backend)
		}
		return s
	}
	good := text("A="+a.Addr, "")
	d := startDaemon(t, good)
	status, answer := d.reload(text("B="+b.Addr,
		frontendText("opened", free, "p1")+frontendText("new", busy.Addr, "p1")))
	if status != http.StatusUnprocessableEntity || !strings.Contains(answer.Error, busy.Addr) || !strings.Contains(answer.Error, "in use") {
		t.Errorf("got %d %+v, want 422 and %s named", status, answer, busy.Addr)
	}
	v := d.view()
	if v.Generation != 1 || d.has("opened") || d.has("new") {
		t.Errorf("got generation %d and frontends %+v, want 1 and those before", v.Generation, v.Frontends)
	}
	for _, p := range v.Pools {
		if len(p.Backends) != 1 || p.Backends[0].ID != "A" {
			t.Errorf("pool %s has %+v, want A alone", p.Name, p.Backends)
		}
	}
	everywhere := func(want string) {
		t.Helper()
		for _, name := range []string{"f1", "f2", "f3"} {
			if got, err := visit(d.frontend(name).Listen); got != want || err != nil {
				t.Errorf("visit of %s: got %q, %v, want %s", name, got, err, want)
			}
		}
	}
	everywhere("A")
	d.mustReload(text("B="+b.Addr, ""))
	everywhere("B")
}

// calm is a text without warnings.
func calm() string {
	return head + frontendText("web", free, "p") + "[[pool]]\nname = \"p\"\n[[pool.backend]]\naddress = \"127.0.0.1:9\"\n"
}

// What is unwise is in the answer as well, also of a reload that changes nothing.
func TestReloadAnswersWithWarnings(t *testing.T) {
	t.Parallel()
	good := calm()
	d := startDaemon(t, good)
	if _, answer := d.reload(good); answer.Warnings != nil {
		t.Errorf("got warnings %q, want none", answer.Warnings)
	}
	for range 2 {
		status, answer := d.reload(good + "[[pool]]\nname = \"spare\"\n[[pool.backend]]\naddress = \"127.0.0.1:9\"\n")
		if status != http.StatusOK || len(answer.Warnings) != 1 || !strings.Contains(answer.Warnings[0], "no frontend uses it") {
			t.Errorf("got %d %+v, want 200 and the warning", status, answer)
		}
	}
}

// processLimit returns the process limit in force.
func (d *daemon) processLimit() int64 {
	d.t.Helper()
	_, body := d.ask("GET", "/status", "")
	var v struct {
		Limit int64 `json:"max_sessions"`
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		d.t.Fatal(err)
	}
	return v.Limit
}

// A limit that the descriptors have no room for is a warning, at the start and
// when a reload asks for it, and cut: beyond it, nobody could ask the admin side
// what is wrong.
func TestProcessLimitBeyondDescriptors(t *testing.T) {
	t.Parallel()
	good := calm()
	d := startDaemon(t, good)
	if got := d.lines("process limit"); len(got) != 0 {
		t.Errorf("got %v of a limit that was derived", got)
	}
	room := d.processLimit()
	beyond := "[process]\nmax_sessions = 999999999\n" + good
	status, answer := d.reload(beyond)
	if status != http.StatusOK || !strings.Contains(fmt.Sprint(answer.Warnings), "have room for") {
		t.Errorf("got %d %+v, want a warning of the room", status, answer)
	}
	if got := d.processLimit(); got != room {
		t.Errorf("got a limit of %d, want the %d that there is room for", got, room)
	}
	d.await("the warning", "process limit")
	for _, line := range append(d.lines("process limit"), startDaemon(t, beyond).lines("process limit")...) {
		if line["level"] != "warn" || line["limit"] != float64(room) || !strings.Contains(fmt.Sprint(line["reason"]), "have room for") {
			t.Errorf("got %v, want a warning with the limit and the room", line)
		}
	}
	d.mustReload(good)
	if _, answer := d.reload(good); answer.Warnings != nil {
		t.Errorf("got warnings %q of a limit that was taken back", answer.Warnings)
	}
}

// A key that only the next start can change is named and not applied: in the
// answer, in the log and in the status, until the file takes it back.
func TestReloadNeedsRestart(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	if v := d.view(); v.RestartNeeded == nil || len(v.RestartNeeded) != 0 {
		t.Errorf("after the start: got restart_needed %q, want an empty list", v.RestartNeeded)
	}
	changed := "[process]\nengine = \"copy\"\nloops = 3\n" + good
	_, answer := d.reload(changed)
	if len(answer.Changes) != 2 || !strings.Contains(answer.Changes[0], "process: engine auto -> copy, takes effect at the next start") {
		t.Errorf("got changes %q", answer.Changes)
	}
	d.wantRestartNeeded("after the change", answer, "[process.engine process.loops]")
	d.await("the line", reloaded)
	line := d.lines(reloaded)[0]
	if got := fmt.Sprintf("%v %v", line["restart_needed"], line["level"]); got != "[process.engine process.loops] warn" {
		t.Errorf("the log: got %s", got)
	}
	_, answer = d.reload(changed)
	d.wantRestartNeeded("after the same text", answer, "[process.engine process.loops]")
	_, answer = d.reload(good)
	d.wantRestartNeeded("after it was taken back", answer, "[]")
}

// wantRestartNeeded wants an answer and the status to name the same keys.
func (d *daemon) wantRestartNeeded(when string, answer reloadAnswer, keys string) {
	d.t.Helper()
	status := d.view().RestartNeeded
	if fmt.Sprint(answer.RestartNeeded) != keys || fmt.Sprint(status) != keys {
		d.t.Errorf("%s: got %q in the answer and %q in the status, want %s", when, answer.RestartNeeded, status, keys)
	}
}

// B116: how the last reload ended can be seen without the log.
func TestStatusShowsLastReload(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	started := d.view().LastReload
	if !started.Successful || started.By != "start" || started.At.IsZero() || started.Errors != nil {
		t.Errorf("after the start: got %+v", started)
	}
	d.write(good + "colour = 1\natempts = 2\n")
	d.hangUp(refused)
	failed := d.view().LastReload
	if failed.Successful || failed.By != "SIGHUP" || !failed.At.After(started.At) || len(failed.Errors) != 2 {
		t.Errorf("after a broken file: got %+v, want a failure of SIGHUP with both mistakes", failed)
	}
	d.reload(good)
	last := d.view().LastReload
	if !last.Successful || !strings.HasPrefix(last.By, "127.0.0.1:") || !last.At.After(failed.At) || last.Errors != nil {
		t.Errorf("after the good file: got %+v, want a success of the API", last)
	}
}

func TestReloadChangesLog(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	d.mustReload(strings.Replace(good, `format = "json"`, "format = \"console\"\nlevel = \"error\"", 1))
	d.mustReload(strings.Replace(good, `format = "json"`, `format = "console"`, 1))
	eventually(t, "a line as text", func() bool { return strings.Contains(d.out.String(), `"generation": 3`) })
	if n := strings.Count(d.out.String(), "reloaded"); n != 1 {
		t.Errorf("got %d lines of reloads, want none of that to level error", n)
	}
	d.mustReload(good)
	if _, err := visit(d.frontend("web").Listen); err != nil {
		t.Fatal(err)
	}
	d.await("a session line", "session")
}

// B126: what an operator set, and the backends an operator added, outlive a
// reload of something else.
func TestReloadKeepsRuntimeChanges(t *testing.T) {
	t.Parallel()
	a, b, c := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B")), l4test.Serve(t, l4test.Tag("C"))
	text := func(keys string) string {
		return head + frontendText("web", free, "p", keys) + poolText("p", "", "A="+a.Addr, "B="+b.Addr)
	}
	d := startDaemon(t, text(""))
	if status, body := d.ask("PATCH", "/backends/A", `{"state": "drain"}`); status != http.StatusOK {
		t.Fatalf("PATCH: %d %s", status, body)
	}
	if status, body := d.ask("POST", "/backends", fmt.Sprintf(`{"id": "C", "address": %q}`, c.Addr)); status != http.StatusCreated {
		t.Fatalf("POST: %d %s", status, body)
	}
	d.mustReload(text("attempts = 2"))
	seen := map[string]int{}
	for range 20 {
		name, err := visit(d.frontend("web").Listen)
		if err != nil {
			t.Fatal(err)
		}
		seen[name]++
	}
	if seen["A"] != 0 || seen["B"] == 0 || seen["C"] == 0 {
		t.Errorf("got %v, want none at A, some at B and C", seen)
	}
	if got := d.backend("p", "C").Origin; got != "api" {
		t.Errorf("got origin %q of C, want api", got)
	}
}

// Counters belong to names, sessions to themselves.
func TestReloadKeepsCountersAndSessions(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	session, _ := open(t, d.frontend("web").Listen)
	d.mustReload(strings.Replace(good, `pool = "p"`, "pool = \"p\"\nidle_timeout = \"1h\"", 1))
	if f := d.frontend("web"); f.Active != 1 || f.Total != 1 {
		t.Errorf("got %+v, want 1 session active and in total", f)
	}
	if b := d.backend("p", "A"); b.Active != 1 || b.Total != 1 {
		t.Errorf("got %+v, want 1 session active and in total", b)
	}
	echoes(t, session)
}

// Switching the probes on and off takes effect while it runs.
func TestReloadSwitchesProbe(t *testing.T) {
	t.Parallel()
	text := func(probe string) string {
		return head + frontendText("web", free, "p") +
			strings.Replace(poolText("p", "", "A="+l4test.Refuse(t)), "[pool.health]\n", "[pool.health]\nprobe = \""+probe+"\"\n", 1)
	}
	d := startDaemon(t, text("none"))
	if got := d.backend("p", "A").Health; got != "unknown" {
		t.Errorf("without probes: got health %s", got)
	}
	d.mustReload(text("tcp"))
	d.awaitState("p", "A", "down")
	d.mustReload(text("none"))
	d.mustReload(text("tcp"))
	d.signal(syscall.SIGHUP)
	d.awaitState("p", "A", "down")
}

// A pipe in the place of the file would be read for ever: no reload and no stop
// waits for it.
func TestReloadRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	if err := os.Remove(d.file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(d.file, 0o600); err != nil {
		t.Fatal(err)
	}
	line := d.hangUp(refused)
	if errors := fmt.Sprint(line["errors"]); !strings.Contains(errors, "is not a regular file") {
		t.Errorf("got %s", errors)
	}
	d.write(good + "# again\n")
	d.hangUp(unchanged)
}

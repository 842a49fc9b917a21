//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/l4/l4test"
)

// planned are three sessions over two frontends and two backends, and a text
// that touches each in another way.
func planned(t *testing.T) (d *daemon, next string) {
	t.Helper()
	a, b, c := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B")), l4test.Serve(t, l4test.Tag("C"))
	text := func(limit, keys string, backends ...string) string {
		return head + frontendText("web", free, "p", limit) + poolText("p", keys, backends...)
	}
	d = startDaemon(t, text("", "", "A="+a.Addr, "B="+b.Addr)+
		frontendText("old", free, "q")+poolText("q", `on_remove = "close"`, "C="+c.Addr))
	for range 2 {
		open(t, d.frontend("web").Listen)
	}
	open(t, d.frontend("old").Listen)
	return d, text("max_sessions = 9", `drain_timeout = "3s"`, "A="+a.Addr+"\nweight = 3", "D="+c.Addr) +
		frontendText("new", free, "r") + poolText("r", "", "E="+c.Addr)
}

// wantPlan are the edits that planned comes to, in short.
var wantPlan = []string{
	"frontend web altered 2 stay [max_sessions 0 9]",
	"frontend new added 0 ",
	"frontend old removed 1 stay",
	"pool p altered 2 stay [drain_timeout 0s 3s]",
	"backend p/B removed 1 drain, for 3s at most",
	"backend p/A altered 1 stay [weight 1 3]",
	"backend p/D added 0 ",
	"pool r added 0 ",
	"backend r/E added 0 ",
	"pool q removed 1 are closed",
	"backend q/C removed 1 are closed",
}

func (a reloadAnswer) edits() (short []string) {
	for _, e := range a.Plan {
		name := e.Name
		if e.Pool != "" {
			name = e.Pool + "/" + e.Name
		}
		line := fmt.Sprintf("%s %s %s %d %s", e.Kind, name, e.Change, e.Sessions, e.Fate)
		for _, k := range e.Keys {
			line += fmt.Sprintf(" [%s %s %s]", k.Key, k.From, k.To)
		}
		short = append(short, line)
	}
	return short
}

// A dry run tells everything and touches nothing; the reload then does what it
// told.
func TestPlanIsWhatTheReloadDoes(t *testing.T) {
	t.Parallel()
	d, next := planned(t)
	before := d.view()
	status, dry := d.plan(next)
	if status != http.StatusOK || !dry.DryRun || dry.Generation != 1 {
		t.Fatalf("got %d %+v", status, dry)
	}
	if got := dry.edits(); !slices.Equal(got, wantPlan) {
		t.Errorf("got the plan\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wantPlan, "\n"))
	}
	after := d.view()
	if after.Generation != 1 || after.LastReload.By != "start" || fmt.Sprint(before.Frontends) != fmt.Sprint(after.Frontends) {
		t.Errorf("the dry run changed something: before %+v, after %+v", before, after)
	}
	for _, msg := range []string{reloaded, refused, unchanged} {
		if lines := d.lines(msg); len(lines) != 0 {
			t.Errorf("the dry run is in the log as a reload: %v", lines)
		}
	}
	_, done := d.reload(next)
	if got := done.edits(); !slices.Equal(got, wantPlan) || done.DryRun || done.Generation != 2 {
		t.Errorf("the reload did\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wantPlan, "\n"))
	}
	if !slices.Equal(dry.Changes, done.Changes) {
		t.Errorf("the lines of the dry run\n%q\nare not those of the reload\n%q", dry.Changes, done.Changes)
	}
	if _, again := d.plan(next); len(again.Plan) != 0 || len(again.Changes) != 0 || !again.DryRun {
		t.Errorf("a plan of what is in force: got %+v", again)
	}
}

// plan sends text for a dry run.
func (d *daemon) plan(text string) (status int, a reloadAnswer) {
	d.t.Helper()
	status, body := d.ask("POST", "/reload?dry_run=true", unwatched(text))
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		d.t.Fatalf("answer to a dry run: %v: %s", err, body)
	}
	return status, a
}

// A dry run finds every mistake that the reload would, also that an address is
// taken, and says what it cannot know.
func TestPlanFindsWhatTheReloadWould(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	for name, b := range broken {
		if text := b.change(good); text != "" {
			status, answer := d.plan(text)
			if status != http.StatusUnprocessableEntity || !strings.Contains(answer.Error, b.names) {
				t.Errorf("%s: got %d %+v, want 422 and %q named", name, status, answer, b.names)
			}
		}
	}
	busy := l4test.Serve(t, l4test.Echo)
	status, answer := d.plan(good + frontendText("new", busy.Addr, "p"))
	want := "frontend new: listen on " + busy.Addr + ": bind: address already in use; ss -ltnp shows who has it"
	if status != http.StatusUnprocessableEntity || len(answer.Errors) != 1 || answer.Errors[0] != want {
		t.Errorf("got %d %+v, want 422 and %q", status, answer, want)
	}
	socket := "unix:" + filepath.Join(t.TempDir(), "s")
	if _, answer = d.plan(good + frontendText("new", socket, "p")); len(answer.Unknown) != 1 || !strings.Contains(answer.Unknown[0], socket) {
		t.Errorf("got %+v, want what is unknown of %s", answer, socket)
	}
}

// A dry run of the file itself needs no body.
func TestPlanOfTheFile(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	d.write(strings.Replace(good, `pool = "p"`, "pool = \"p\"\nattempts = 2", 1))
	status, answer := d.plan("")
	if got := answer.edits(); status != http.StatusOK || len(got) != 1 || got[0] != "frontend web altered 0  [attempts 3 2]" {
		t.Errorf("got %d %q", status, got)
	}
}

// Whoever may ask for a plan cannot have other files opened by it.
func TestPlanOpensNoFile(t *testing.T) {
	t.Parallel()
	d, good := pair(t)
	secret := writeFile(t, filepath.Join(t.TempDir(), "secret"), "neither token nor anything\n")
	for _, c := range []struct{ after, keys string }{
		{"[admin]\n", "token_file = %q\n"},
		{"[pool.health]\n", "probe = \"redis\"\npassword_file = %q\n"},
		{"[pool.health]\n", "probe = \"redis\"\npassword_env = %q\n"},
		{"[pool.health]\n", "probe = \"redis\"\ntls = \"verify\"\ntls_ca_file = %q\n"},
		{"[pool.health]\n", "probe = \"redis\"\ntls = \"verify\"\ntls_cert_file = %q\n"},
	} {
		var answers []string
		for _, path := range []string{secret, secret + ".none", "/dev/zero", "PATH"} {
			status, answer := d.plan(strings.Replace(good, c.after, c.after+fmt.Sprintf(c.keys, path), 1))
			if warned := fmt.Sprint(answer.Warnings); status != http.StatusOK || !strings.Contains(warned, "read for a plan") {
				t.Errorf("%s of %s: got %d %+v", c.keys, path, status, answer)
			}
			answers = append(answers, strings.ReplaceAll(fmt.Sprint(status, answer.Errors, answer.Warnings), path, ""))
		}
		if answers[0] != answers[1] || answers[0] != answers[2] || answers[0] != answers[3] {
			t.Errorf("%s: the answers tell the files apart: %q", c.keys, answers)
		}
	}
}

// sluice plan shows it to people, and to programs.
func TestPlanCommand(t *testing.T) {
	d, next := planned(t)
	path := textFile(t, unwatched(next))
	status, stdout, stderr := sluiceRun(t, "plan", "-c", path, "--admin", d.admin)
	for _, want := range []string{
		"~ frontend web: 2 sessions stay\n    max_sessions 0 -> 9\n",
		"+ frontend new, listens on 127.0.0.1:0\n",
		"- frontend old, no longer listens on 127.0.0.1:0: 1 session, to stay\n",
		"~ pool p: 2 sessions stay\n    drain_timeout 0s -> 3s\n",
		"): 1 session, to drain, for 3s at most\n",
		"- pool q: 1 session, to be closed\n- backend C of pool q (",
		"4 added, 4 removed, 3 altered; nothing was done, generation 1 runs\n",
		"warning: " + path + ":",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the plan lacks %q", want)
		}
	}
	if status != 0 || stderr != "" {
		t.Errorf("got status %d, stderr %q and\n%s", status, stderr, stdout)
	}
	status, stdout, _ = sluiceRun(t, "plan", "-c", path, "--admin", d.admin, "--json")
	var answer reloadAnswer
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || status != 0 {
		t.Fatalf("--json: got status %d, %v: %s", status, err, stdout)
	}
	if got := answer.edits(); !slices.Equal(got, wantPlan) || !answer.DryRun {
		t.Errorf("--json: got %q", got)
	}
	if v := d.view(); v.Generation != 1 {
		t.Errorf("got generation %d, want 1", v.Generation)
	}
}

// The exit status and the words of a plan that cannot be: the reload would be
// refused, or nobody answers.
func TestPlanCommandFails(t *testing.T) {
	d, good := pair(t)
	same := textFile(t, unwatched(good))
	broken := textFile(t, strings.Replace(good, `pool = "p"`, "pool = \"q\"\natempts = 1", 1))
	for _, c := range []struct {
		args   string
		status int
		stdout string
		stderr []string
	}{
		{"-c " + same + " --admin " + d.admin, 0, "no change: generation 1 runs this", nil},
		{"-c " + broken + " --admin " + d.admin, 1, "", []string{broken + ":", "atempts", `"q"`}},
		{"-c " + broken, 1, "", []string{broken + ":", "atempts", `"q"`}},
		{"-c " + same, 1, "", []string{"port 0", "--admin"}},
		{"-c " + same + ".none --admin " + d.admin, 1, "", []string{"no such file"}},
		{"-c " + same + " --admin " + l4test.Refuse(t), 1, "", []string{"connection refused"}},
	} {
		status, stdout, stderr := sluiceRun(t, append([]string{"plan"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(stdout, c.stdout) {
			t.Errorf("%s: got status %d, stdout %q, stderr %q", c.args, status, stdout, stderr)
		}
		for _, want := range c.stderr {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: stderr does not name %q: %s", c.args, want, stderr)
			}
		}
	}
}

// A read token is enough for a plan, and not for a reload.
func TestPlanNeedsAReadTokenOnly(t *testing.T) {
	a := l4test.Serve(t, l4test.Tag("A"))
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("read a-token-for-reading\noperate a-token-for-changes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reader := filepath.Join(t.TempDir(), "reader")
	if err := os.WriteFile(reader, []byte("read a-token-for-reading\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := jsonLog + "[admin]\nlisten = \"0.0.0.0:0\"\ntoken_file = \"" + tokens + "\"\n" + frontendText("web", free, "p") + poolText("p", "", "A="+a.Addr)
	d := startDaemon(t, text)
	_, port, _ := strings.Cut(strings.TrimPrefix(d.admin, "[::]"), ":")
	at := "127.0.0.1:" + port
	path := textFile(t, text+frontendText("new", free, "p"))
	if status, stdout, stderr := sluiceRun(t, "plan", "-c", path, "--admin", at, "--token-file", reader); status != 0 || !strings.Contains(stdout, "+ frontend new") {
		t.Errorf("got %d %q %q", status, stdout, stderr)
	}
	empty := textFile(t, "operate a-token-that-is-none\n")
	if status, _, stderr := sluiceRun(t, "plan", "-c", path, "--admin", at, "--token-file", empty); status != 1 || !strings.Contains(stderr, "token is not valid") {
		t.Errorf("with a wrong token: got %d %q", status, stderr)
	}
}

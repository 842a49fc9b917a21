//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// must sends a request to the admin side that must be granted.
func (d *daemon) must(method, path, body string) string {
	d.t.Helper()
	status, answer := d.ask(method, path, body)
	if status < 200 || status > 299 {
		d.t.Fatalf("%s %s %s: got %d %s", method, path, body, status, answer)
	}
	return answer
}

// stateFile is where the state is kept by default.
func (d *daemon) stateFile() string { return filepath.Join(filepath.Dir(d.file), "state.json") }

// essence is what a restart keeps of a status.
func (v view) essence() string {
	var lines []string
	for _, p := range v.Pools {
		lines = append(lines, fmt.Sprint(p.Name, p.Strategy, p.StrategyOrigin, p.DeletedByAPI))
		for _, b := range p.Backends {
			lines = append(lines, fmt.Sprint(b.ID, b.Address, b.Weight, b.MaxSessions, b.Admin, b.Origin, b.Overridden))
		}
	}
	return strings.Join(lines, "\n")
}

// three is a pool of tagged backends A and B, and C for the API to add.
func three(t *testing.T) (text func(keysOfA string) string, c *l4test.Backend) {
	t.Helper()
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	return func(keys string) string {
		return head + frontendText("web", free, "p") + poolText("p", "", "A="+a.Addr+"\n"+keys, "B="+b.Addr)
	}, l4test.Serve(t, l4test.Tag("C"))
}

// B126: what an operator changed is there again after kill -9: a server in
// maintenance does not come back into service.
func TestRuntimeChangesSurviveKill(t *testing.T) {
	t.Parallel()
	text, c := three(t)
	d := startDaemon(t, text(""))
	if _, err := os.Stat(d.stateFile()); !os.IsNotExist(err) {
		t.Errorf("there is a state file before the first change: %v", err)
	}
	d.must("PATCH", "/backends/A", `{"state": "maint", "weight": 5, "max_sessions": 9}`)
	d.must("POST", "/backends", fmt.Sprintf(`{"id": "C", "address": %q, "weight": 3}`, c.Addr))
	d.must("DELETE", "/backends/B", "")
	d.must("PATCH", "/pools/p", `{"strategy": "least_connections"}`)
	before := d.view()
	if s := before.StateFile; s.Path != d.stateFile() || !s.Saved || s.Error != "" || s.Failures != 0 || s.LastWritten.IsZero() {
		t.Errorf("got %+v", s)
	}
	d.crash()
	after := d.view()
	if after.essence() != before.essence() || !reflect.DeepEqual(after.Differences, before.Differences) {
		t.Errorf("got\n%s\n%+v\nwant\n%s\n%+v", after.essence(), after.Differences, before.essence(), before.Differences)
	}
	if line := d.lines("runtime changes restored"); len(line) != 1 || line[0]["count"] != 6.0 || line[0]["path"] != d.stateFile() {
		t.Errorf("got %v, want one line of 6 changes", line)
	}
	for range 20 {
		if got, err := visit(d.frontend("web").Listen); got != "C" || err != nil {
			t.Fatalf("a client got %q, %v, want C alone", got, err)
		}
	}
}

// A file that was edited while the process was down wins where its value
// changed, and the log says so.
func TestFileEditedWhileDownWins(t *testing.T) {
	t.Parallel()
	text, c := three(t)
	d := startDaemon(t, text(""))
	d.must("PATCH", "/backends/A", `{"weight": 5, "max_sessions": 9}`)
	d.must("POST", "/backends", fmt.Sprintf(`{"id": "C", "address": %q}`, c.Addr))
	d.end(syscall.SIGTERM)
	d.write(text("weight = 7"))
	d.start()
	if a := d.backend("p", "A"); a.Weight != 7 || a.MaxSessions != 9 || !slices.Equal(a.Overridden, []string{"max_sessions"}) {
		t.Errorf("got %+v, want weight 7 of the file and max_sessions 9 of the API", a)
	}
	changes := fmt.Sprint(d.lines("runtime changes restored")[0]["changes"])
	if want := "[pool p: backend A weight 5 (set by the API) -> 7]"; changes != want {
		t.Errorf("got %s, want %s", changes, want)
	}
	d.write(text(""))
	d.crash()
	if a := d.backend("p", "A"); a.Weight != 1 {
		t.Errorf("got %+v: what the file had won is back", a)
	}
}

// What was answered survives, whenever the process is killed.
func TestAnsweredChangesSurviveKill(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, head+frontendText("web", free, "p")+poolText("p", "", "A="+l4test.Refuse(t)))
	answered := map[string]bool{}
	for round := range 4 {
		var mu sync.Mutex
		var all sync.WaitGroup
		for worker := range 3 {
			all.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprintf("b%d-%d-%d", round, worker, i)
					r, _ := http.NewRequest("POST", "http://"+d.admin+"/backends",
						strings.NewReader(fmt.Sprintf(`{"id": %q, "address": "unix:/%s"}`, id, id)))
					a, err := adminClient.Do(r)
					if err != nil {
						return
					}
					a.Body.Close()
					mu.Lock()
					answered[id] = a.StatusCode == http.StatusCreated
					mu.Unlock()
				}
			})
		}
		eventually(t, "some changes", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(answered) > (round+1)*8
		})
		d.end(syscall.SIGKILL)
		all.Wait()
		d.start()
		there := map[string]bool{}
		for _, b := range d.view().Pools[0].Backends {
			there[b.ID] = true
		}
		for id, ok := range answered {
			if ok && !there[id] {
				t.Errorf("round %d: %s was answered with 201 and is gone", round, id)
			}
		}
	}
}

func TestStateFileNone(t *testing.T) {
	t.Parallel()
	text, _ := three(t)
	d := startDaemon(t, "[process]\nstate_file = \"none\"\n"+text(""))
	d.must("PATCH", "/backends/A", `{"weight": 5}`)
	if s := d.view().StateFile; s.Path != "" || !s.Saved {
		t.Errorf("got %+v", s)
	}
	d.crash()
	if a := d.backend("p", "A"); a.Weight != 1 {
		t.Errorf("got %+v, want the file's weight", a)
	}
	if entries, _ := os.ReadDir(filepath.Dir(d.file)); len(entries) != 1 {
		t.Errorf("got files %v, want the configuration alone", entries)
	}
}

// A place that cannot be written fails no change.
func TestStateFileUnwritable(t *testing.T) {
	t.Parallel()
	text, _ := three(t)
	dir := filepath.Join(t.TempDir(), "later")
	d := startDaemon(t, fmt.Sprintf("[process]\nstate_file = %q\n", filepath.Join(dir, "s.json"))+text(""))
	d.must("PATCH", "/backends/A", `{"weight": 5}`)
	d.must("PATCH", "/backends/A", `{"weight": 6}`)
	if s := d.view().StateFile; s.Saved || s.Failures != 2 || !strings.Contains(s.Error, "no such file") {
		t.Errorf("got %+v", s)
	}
	if metrics := d.must("GET", "/metrics", ""); !strings.Contains(metrics, "\nsluice_state_saved 0\n") ||
		!strings.Contains(metrics, "\nsluice_state_write_failures_total 2\n") {
		t.Error("the metrics do not tell of it")
	}
	d.await("the warning", "state file not written: a restart would lose what the API changed")
	if got, err := visit(d.frontend("web").Listen); err != nil {
		t.Errorf("a client got %q, %v", got, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d.must("PATCH", "/backends/A", `{"weight": 7}`)
	d.crash()
	if a := d.backend("p", "A"); a.Weight != 7 {
		t.Errorf("got %+v, want weight 7", a)
	}
}

func TestStateFileMovesAtReload(t *testing.T) {
	t.Parallel()
	text, _ := three(t)
	d := startDaemon(t, text(""))
	d.must("PATCH", "/backends/A", `{"weight": 5}`)
	to := filepath.Join(t.TempDir(), "moved.json")
	moved := fmt.Sprintf("[process]\nstate_file = %q\n", to) + text("")
	d.mustReload(moved)
	if _, err := os.Stat(d.stateFile()); !os.IsNotExist(err) {
		t.Errorf("the former file: %v", err)
	}
	if s := d.view().StateFile; s.Path != to || !s.Saved {
		t.Errorf("got %+v", s)
	}
	d.crash()
	if a := d.backend("p", "A"); a.Weight != 5 {
		t.Errorf("got %+v, want weight 5", a)
	}
}

// Two processes with their configurations in one directory.
func TestStateOfTwoInOneDirectory(t *testing.T) {
	t.Parallel()
	text, _ := three(t)
	dir := t.TempDir()
	first := startDaemonIn(t, dir, text(""))
	first.must("PATCH", "/backends/A", `{"weight": 5}`)

	second := &daemon{t: t, file: filepath.Join(dir, "other.toml")}
	second.write(text(""))
	second.start()
	second.await("the warning", "state file not used")
	if line := fmt.Sprint(second.lines("state file not used")); !strings.Contains(line, first.file) || !strings.Contains(line, "state_file") {
		t.Errorf("got %s, want whose it is and what to do", line)
	}
	second.must("PATCH", "/backends/B", `{"weight": 9}`)
	if s := second.view().StateFile; s.Saved || !strings.Contains(s.Error, first.file) {
		t.Errorf("got %+v", s)
	}
	first.crash()
	if a, b := first.backend("p", "A"), first.backend("p", "B"); a.Weight != 5 || b.Weight != 1 {
		t.Errorf("got %+v and %+v, want weight 5 and 1", a, b)
	}
}

// A broken state file is set aside, and the start goes on with the file's values.
func TestBrokenStateFile(t *testing.T) {
	t.Parallel()
	text, _ := three(t)
	d := startDaemon(t, text(""))
	d.must("PATCH", "/backends/A", `{"weight": 5}`)
	whole, err := os.ReadFile(d.stateFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.stateFile(), whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	d.crash()
	if a := d.backend("p", "A"); a.Weight != 1 {
		t.Errorf("got %+v, want the file's weight", a)
	}
	if kept, err := os.ReadFile(d.stateFile() + ".bad"); err != nil || string(kept) != string(whole[:len(whole)/2]) {
		t.Errorf("got %q, %v", kept, err)
	}
	if line := fmt.Sprint(d.lines("state file not used")); !strings.Contains(line, "state.json.bad") {
		t.Errorf("got %s", line)
	}
}

// A backend that the API added where the edited file listens: a start does not
// fail for it, and no session goes in a circle.
func TestRestartListensWhereTheAPIAddedABackend(t *testing.T) {
	t.Parallel()
	text, c := three(t)
	d := startDaemon(t, text(""))
	d.must("POST", "/backends", fmt.Sprintf(`{"id": "C", "address": %q}`, c.Addr))
	d.end(syscall.SIGKILL)
	c.Stop()
	d.write(strings.Replace(text(""), frontendText("web", free, "p"), frontendText("web", c.Addr, "p"), 1))
	d.start()
	if n := len(d.view().Pools[0].Backends); n != 2 {
		t.Errorf("got %d backends, want those of the file", n)
	}
	if line := fmt.Sprint(d.lines("runtime changes restored")); !strings.Contains(line, "backend C removed") || !strings.Contains(line, "frontend web listens there now") {
		t.Errorf("got %s", line)
	}
}

// What belongs to a pool that is gone is forgotten, and said to be.
func TestRestartWithoutThePool(t *testing.T) {
	t.Parallel()
	text, _ := three(t)
	d := startDaemon(t, text(""))
	d.must("PATCH", "/backends/A", `{"weight": 5}`)
	d.end(syscall.SIGKILL)
	d.write(strings.NewReplacer(`pool = "p"`, `pool = "q"`, `name = "p"`, `name = "q"`).Replace(text("")))
	d.start()
	if line := fmt.Sprint(d.lines("runtime changes restored")); !strings.Contains(line, "pool p: removed") {
		t.Errorf("got %s", line)
	}
	if v := d.view(); len(v.Differences) != 0 {
		t.Errorf("got %+v, want none", v.Differences)
	}
	if _, err := os.Stat(d.stateFile()); !os.IsNotExist(err) {
		t.Errorf("the state file is left: %v", err)
	}
	d.mustReload(text(""))
	if a := d.backend("p", "A"); a.Weight != 1 {
		t.Errorf("got %+v: what was forgotten came back with the pool", a)
	}
}

// What could not be saved is saved by a stop, if it can be then.
func TestStopSavesWhatIsNotSaved(t *testing.T) {
	t.Parallel()
	text, _ := three(t)
	dir := filepath.Join(t.TempDir(), "later")
	d := startDaemon(t, fmt.Sprintf("[process]\nstate_file = %q\n", filepath.Join(dir, "s.json"))+text(""))
	d.must("PATCH", "/backends/A", `{"weight": 5}`)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d.end(syscall.SIGTERM)
	d.start()
	if a := d.backend("p", "A"); a.Weight != 5 {
		t.Errorf("got %+v, want weight 5", a)
	}
}

// A key that waits for a restart differs as well.
func TestStatusShowsWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	text, _ := three(t)
	d := startDaemon(t, "[process]\nengine = \"copy\"\n"+text(""))
	if v := d.view(); v.Differences == nil || len(v.Differences) != 0 {
		t.Errorf("got %+v, want an empty list", v.Differences)
	}
	d.mustReload("[process]\nengine = \"copy\"\nloops = 3\n" + text(""))
	got, _ := json.Marshal(d.view().Differences)
	if want := `[{"key":"process.loops","file":3,"running":0,"origin":"restart"}]`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Reloads and changes of the API at the same time end in a file that says what
// runs.
func TestStateAfterReloadsAndChanges(t *testing.T) {
	t.Parallel()
	text, c := three(t)
	d := startDaemon(t, text(""))
	var all sync.WaitGroup
	all.Go(func() {
		for i := range 10 {
			d.ask("PATCH", "/backends/A", fmt.Sprintf(`{"weight": %d}`, 20+i))
			d.ask("POST", "/backends", fmt.Sprintf(`{"id": "C", "address": %q}`, c.Addr))
			d.ask("DELETE", "/backends/C", "")
		}
	})
	for i := range 10 {
		d.reload(text(fmt.Sprintf("weight = %d", 2+i%2)))
	}
	all.Wait()
	before := d.view()
	d.crash()
	if after := d.view(); after.essence() != before.essence() {
		t.Errorf("got\n%s\nwant\n%s", after.essence(), before.essence())
	}
	if began := time.Now(); d.end(syscall.SIGTERM) != nil || time.Since(began) > patience/2 {
		t.Errorf("the stop took %v", time.Since(began))
	}
}

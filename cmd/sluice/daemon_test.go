//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/admin"
	"sluice/l4"
	"sluice/pool"
)

// daemon is "sluice run" as a process of its own.
type daemon struct {
	*process
	t     *testing.T
	file  string
	admin string // address
}

// command returns the program with args.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "STATE_DIRECTORY=")
	return cmd
}

// startDaemon starts the program with the configuration text, and waits until
// it says that it has started.
func startDaemon(t *testing.T, text string) *daemon {
	t.Helper()
	return startDaemonIn(t, t.TempDir(), text)
}

// startDaemonIn is startDaemon with the configuration in that directory.
func startDaemonIn(t *testing.T, dir, text string) *daemon {
	t.Helper()
	d := &daemon{t: t, file: filepath.Join(dir, "config.toml")}
	d.write(text)
	d.start()
	return d
}

// startDaemonAs is startDaemon with a command of its own.
func startDaemonAs(t *testing.T, text string, command func(file string) *exec.Cmd) *daemon {
	t.Helper()
	d := &daemon{t: t, file: filepath.Join(t.TempDir(), "config.toml")}
	d.write(text)
	d.startAs(command(d.file))
	return d
}

func (d *daemon) start() {
	d.t.Helper()
	d.startAs(command("run", "-c", d.file))
}

func (d *daemon) startAs(cmd *exec.Cmd) {
	d.t.Helper()
	d.process = startProcess(d.t, cmd)
	d.await("the start", "started")
	d.admin, _ = d.lines("started")[0]["admin"].(string)
	p := d.process
	d.t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if strings.Contains(p.out.String(), "DATA RACE") {
			d.t.Error("the program has a data race")
		}
	})
}

// crash kills the program at once and starts it again.
func (d *daemon) crash() {
	d.t.Helper()
	d.end(syscall.SIGKILL)
	d.start()
}

// write replaces the configuration as a careful program would. It is not
// watched, unless the text says so: tests reload when they are ready for it.
func (d *daemon) write(text string) {
	d.t.Helper()
	text = unwatched(text)
	if err := os.WriteFile(d.file+".new", []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(d.file+".new", d.file); err != nil {
		d.t.Fatal(err)
	}
}

// unwatched switches the watch off that is on by default.
func unwatched(text string) string {
	switch {
	case strings.Contains(text, "watch =") || !strings.Contains(text, "[[frontend]]"):
		return text
	case strings.Contains(text, "[process]\n"):
		return strings.Replace(text, "[process]\n", "[process]\nwatch = false\n", 1)
	}
	return text + "\n[process]\nwatch = false\n"
}

// lines returns the log lines with that message; all if it is empty.
func (d *daemon) lines(msg string) []map[string]any {
	return logLines(d.out.String(), msg)
}

// logLines picks the complete lines with that message out of a JSON log.
func logLines(text, msg string) (all []map[string]any) {
	for line := range strings.Lines(text) {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil && (msg == "" || m["msg"] == msg) {
			all = append(all, m)
		}
	}
	return all
}

// await waits for a log line with that message.
func (d *daemon) await(what, msg string) {
	d.t.Helper()
	eventually(d.t, what, func() bool {
		if d.ended() && len(d.lines(msg)) == 0 {
			d.t.Fatalf("the program ended: %v", d.err)
		}
		return len(d.lines(msg)) > 0
	})
}

// signal sends sig.
func (d *daemon) signal(sig syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.t.Fatal(err)
	}
}

// hangUp reloads by SIGHUP and waits for the line that tells how it went. Lines
// of reloads by others may come in between.
func (d *daemon) hangUp(msg string) (line map[string]any) {
	d.t.Helper()
	ours := func() []map[string]any {
		return slices.DeleteFunc(d.lines(msg), func(line map[string]any) bool { return line["by"] != "SIGHUP" })
	}
	before := len(ours())
	d.signal(syscall.SIGHUP)
	eventually(d.t, msg, func() bool { return len(ours()) > before })
	return ours()[before]
}

// What the log says of a reload.
const (
	reloaded  = "reloaded"
	unchanged = "reload: unchanged"
	refused   = "reload refused, nothing changed"
)

// reloadAnswer is what the API says to a reload.
type reloadAnswer struct {
	Generation    int64
	Changes       []string
	Warnings      []string
	RestartNeeded []string `json:"restart_needed"`
	DryRun        bool     `json:"dry_run"`
	Plan          []pool.Edit
	Unknown       []string
	Error         string
	Errors        []string
}

// reload writes the text and reloads it through the API.
func (d *daemon) reload(text string) (status int, a reloadAnswer) {
	d.t.Helper()
	d.write(text)
	status, body := d.ask("POST", "/reload", "")
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		d.t.Fatalf("answer to a reload: %v: %s", err, body)
	}
	return status, a
}

// mustReload is reload of a text that is good and differs.
func (d *daemon) mustReload(text string) (changes []string) {
	d.t.Helper()
	status, a := d.reload(text)
	if status != http.StatusOK || len(a.Changes) == 0 {
		d.t.Fatalf("reload: got %d %+v, want 200 and changes", status, a)
	}
	return a.Changes
}

var adminClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

// ask sends a request to the admin side.
func (d *daemon) ask(method, path, body string) (status int, answer string) {
	d.t.Helper()
	r, err := http.NewRequest(method, "http://"+d.admin+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	a, err := adminClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// view is GET /status.
type view struct {
	Generation    int64
	Engine        string
	Frontends     []l4.Status
	Pools         []pool.Status
	LastReload    admin.LastReload `json:"last_reload"`
	RestartNeeded []string         `json:"restart_needed"`
	StateFile     admin.StateFile  `json:"state_file"`
	Differences   []pool.Difference
}

func (d *daemon) view() (v view) {
	d.t.Helper()
	_, body := d.ask("GET", "/status", "")
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		d.t.Fatalf("%v: %s", err, body)
	}
	return v
}

// frontend returns the status of one frontend.
func (d *daemon) frontend(name string) l4.Status {
	d.t.Helper()
	f, ok := d.view().frontend(name)
	if !ok {
		d.t.Fatalf("no frontend %q", name)
	}
	return f
}

// has reports whether there is a frontend of that name.
func (d *daemon) has(name string) bool {
	d.t.Helper()
	_, ok := d.view().frontend(name)
	return ok
}

func (v view) frontend(name string) (l4.Status, bool) {
	for _, f := range v.Frontends {
		if f.Name == name {
			return f, true
		}
	}
	return l4.Status{}, false
}

// backend returns the status of one backend.
func (d *daemon) backend(poolName, id string) pool.BackendStatus {
	d.t.Helper()
	for _, p := range d.view().Pools {
		for _, b := range p.Backends {
			if p.Name == poolName && b.ID == id {
				return b
			}
		}
	}
	d.t.Fatalf("no backend %q in %q", id, poolName)
	return pool.BackendStatus{}
}

// pool returns the status of a pool.
func (d *daemon) pool(name string) pool.Status {
	d.t.Helper()
	for _, p := range d.view().Pools {
		if p.Name == name {
			return p
		}
	}
	d.t.Fatalf("no pool %q", name)
	return pool.Status{}
}

// awaitState waits until a backend is in that state.
func (d *daemon) awaitState(poolName, id, state string) {
	d.t.Helper()
	eventually(d.t, id+" is "+state, func() bool { return d.backend(poolName, id).State == state })
}

// visit connects, reads the greeting of a tagged backend, has a line echoed, and
// closes. It returns who answered.
func visit(address string) (name string, err error) {
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	// It speaks first: the kernel can lose, without a word, a connection whose
	// handshake ends while the listener closes (seen once in some 7,000 closes
	// under load), and only a client that has sent something hears of it soon.
	if _, err := io.WriteString(c, "ping\n"); err != nil {
		return "", err
	}
	in := bufio.NewReader(c)
	if name, err = in.ReadString('\n'); err != nil {
		return "", fmt.Errorf("greeting: %w", err)
	}
	if echo, err := in.ReadString('\n'); err != nil || echo != "ping\n" {
		return "", fmt.Errorf("echo of %s: %q, %w", name, echo, err)
	}
	return strings.TrimSpace(name), nil
}

// open opens a session and returns it once the backend has greeted.
func open(t *testing.T, address string) (c *net.TCPConn, name string) {
	t.Helper()
	dialed, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close() })
	dialed.SetDeadline(time.Now().Add(patience))
	name, err = readLine(dialed)
	if err != nil {
		t.Fatalf("greeting: %v", err)
	}
	return dialed.(*net.TCPConn), name
}

// readLine reads to the end of a line and no further.
func readLine(c io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := io.ReadFull(c, b); err != nil {
			return string(line), err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
	}
}

// echoes fails the test unless the session still carries bytes both ways.
func echoes(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.WriteString(c, "still there\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := readLine(c); err != nil || line != "still there" {
		t.Fatalf("echo: got %q, %v", line, err)
	}
}

// The parts of a configuration.
const (
	jsonLog   = "[log]\nformat = \"json\"\n"
	freeAdmin = "[admin]\nlisten = \"127.0.0.1:0\"\n"
	head      = jsonLog + freeAdmin
)

// free is the listen address of a frontend whose port does not matter.
const free = "127.0.0.1:0"

func frontendText(name, listen, poolName string, keys ...string) string {
	return fmt.Sprintf("[[frontend]]\nname = %q\nlisten = %q\npool = %q\n%s\n",
		name, listen, poolName, strings.Join(keys, "\n"))
}

// poolText describes a pool; each backend is "id=address", and keys of it may
// follow on further lines.
func poolText(name string, keys string, backends ...string) string {
	var t strings.Builder
	fmt.Fprintf(&t, "[[pool]]\nname = %q\n%s\n", name, keys)
	t.WriteString("[pool.health]\ninterval = \"100ms\"\ndown_interval = \"100ms\"\n")
	for _, b := range backends {
		b, more, _ := strings.Cut(b, "\n")
		id, address, _ := strings.Cut(b, "=")
		fmt.Fprintf(&t, "[[pool.backend]]\nid = %q\naddress = %q\n%s\n", id, address, more)
	}
	return t.String()
}

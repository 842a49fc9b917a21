//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// sessionSchema is what a session line has, beside level, time and msg; the
// value says of what type.
var sessionSchema = map[string]any{
	"started": "", "session": "", "frontend": "", "listen": "", "client": "", "pool": "",
	"backend": "", "address": "", "source": "", "attempts": []any{}, "to_backend": 0.0, "to_client": 0.0,
	"queue_ms": 0.0, "dial_ms": 0.0, "total_ms": 0.0, "last_ms": 0.0, "frontend_active": 0.0, "backend_active": 0.0,
	"code": "", "cause": "",
}

// checkSchema fails the test unless line has all fields, of their types, and no
// other.
func checkSchema(t *testing.T, line map[string]any) {
	t.Helper()
	for field, kind := range sessionSchema {
		if got, want := fmt.Sprintf("%T", line[field]), fmt.Sprintf("%T", kind); got != want {
			t.Errorf("field %s is a %s, want %s: %v", field, got, want, line)
		}
	}
	for field := range line {
		if _, ok := sessionSchema[field]; !ok && field != "level" && field != "time" && field != "msg" {
			t.Errorf("unknown field %s: %v", field, line)
		}
	}
	attempts, _ := line["attempts"].([]any)
	for _, a := range attempts {
		fields, _ := a.(map[string]any)
		_, id := fields["backend"].(string)
		_, word := fields["error"].(string)
		_, ms := fields["ms"].(float64)
		if !id || !word || !ms || len(fields) != 3 {
			t.Errorf("an attempt is not of backend, error and ms: %v", a)
		}
	}
	if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["started"])); err != nil {
		t.Errorf("started: %v", err)
	}
	if line["level"] != "info" {
		t.Errorf("got level %v, want info: %v", line["level"], line)
	}
}

// B146, B147: one line a session, with all that an operator asks for, and no
// error line however sessions end.
func TestSessionLines(t *testing.T) {
	t.Parallel()
	tag, rst := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Reset)
	d := startDaemon(t, head+
		frontendText("good", free, "good")+poolText("good", "", "R="+l4test.Refuse(t)+"\nweight = 0", "A="+tag.Addr)+
		frontendText("again", free, "again")+poolText("again", "max_failures = 0", "R="+l4test.Refuse(t), "A="+tag.Addr)+
		frontendText("reset", free, "reset")+poolText("reset", "", "X="+rst.Addr)+
		frontendText("none", free, "none")+poolText("none", ""))
	for range 20 {
		if _, err := visit(d.frontend("good").Listen); err != nil {
			t.Fatal(err)
		}
	}
	visit(d.frontend("again").Listen)
	if c, err := net.Dial("tcp", d.frontend("reset").Listen); err == nil {
		fmt.Fprint(c, "x")
		io.ReadAll(c)
		c.Close()
	}
	visit(d.frontend("none").Listen)
	resetBy(t, d.frontend("good").Listen)
	eventually(t, "24 session lines", func() bool { return len(d.lines("session")) >= 24 })

	causes := map[string]int{}
	for _, line := range d.lines("session") {
		checkSchema(t, line)
		causes[fmt.Sprint(line["frontend"], " ", line["cause"], " ", line["code"])]++
	}
	for want, n := range map[string]int{
		"good client_closed --": 20, "again client_closed --": 1, "reset backend_reset SD": 1,
		"none no_backend SC": 1, "good client_reset CD": 1,
	} {
		if causes[want] != n {
			t.Errorf("got %d sessions %q, want %d; all: %v", causes[want], want, n, causes)
		}
	}
	for _, line := range d.lines("") {
		if line["level"] == "error" {
			t.Errorf("an error line: %v", line)
		}
	}
}

// resetBy opens a session and resets it.
func resetBy(t *testing.T, address string) {
	t.Helper()
	c, _ := open(t, address)
	c.SetLinger(0)
	c.Close()
}

func TestSessionLineValues(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Source(5000))
	d := startDaemon(t, head+frontendText("web", free, "p")+poolText("p", "", "A="+a.Addr))
	web := d.frontend("web").Listen
	c, err := net.Dial("tcp", web)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "x") // the backend reads one byte
	if n, err := io.Copy(io.Discard, c); n != 5000 || err != nil {
		t.Fatalf("got %d bytes, %v", n, err)
	}
	client := c.LocalAddr().String()
	c.Close()
	d.await("the session line", "session")
	line := d.lines("session")[0]
	for field, want := range map[string]any{
		"frontend": "web", "listen": web, "client": client, "pool": "p", "backend": "A", "address": a.Addr,
		"to_backend": 1.0, "to_client": 5000.0, "frontend_active": 1.0, "backend_active": 1.0,
		"cause": "backend_closed", "code": "--",
	} {
		if line[field] != want {
			t.Errorf("got %s %v, want %v", field, line[field], want)
		}
	}
	if dial, total := line["dial_ms"].(float64), line["total_ms"].(float64); dial <= 0 || total < dial {
		t.Errorf("got dial_ms %v, total_ms %v", dial, total)
	}
}

func TestAccessSettings(t *testing.T) {
	t.Parallel()
	tag, echo := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Echo)
	rest := freeAdmin + frontendText("tag", free, "tag") + poolText("tag", "", "A="+tag.Addr) +
		frontendText("echo", free, "echo") + poolText("echo", "", "E="+echo.Addr) +
		frontendText("none", free, "none") + poolText("none", "")
	text := func(keys string) string { return jsonLog + keys + "\n" + rest }
	d := startDaemon(t, text(""))
	for _, c := range []struct {
		keys string
		want map[string]int // lines by frontend
	}{
		{"", map[string]int{"tag": 1, "echo": 1, "none": 1}},
		{"log_empty = false", map[string]int{"tag": 1, "none": 1}},
		{`access = "failed"`, map[string]int{"none": 1}},
		{`access = "off"`, map[string]int{}},
	} {
		if c.keys != "" {
			d.mustReload(text(c.keys))
		}
		before := len(d.lines("session"))
		visit(d.frontend("tag").Listen)
		if e, err := net.Dial("tcp", d.frontend("echo").Listen); err == nil {
			e.(*net.TCPConn).CloseWrite()
			io.ReadAll(e)
			e.Close()
		}
		visit(d.frontend("none").Listen)
		eventually(t, "all sessions are over", func() bool {
			over := true
			for _, f := range d.view().Frontends {
				over = over && f.Active == 0
			}
			return over
		})
		d.mustReload(text(c.keys) + "# a line behind the session lines\n" +
			frontendText(fmt.Sprintf("f%d", before+len(c.keys)), free, "tag"))
		got := map[string]int{}
		eventually(t, fmt.Sprintf("%q: lines %v", c.keys, c.want), func() bool {
			clear(got)
			for _, line := range d.lines("session")[before:] {
				got[fmt.Sprint(line["frontend"])]++
			}
			return fmt.Sprint(got) == fmt.Sprint(c.want)
		})
	}
}

// B029: a storm of clients that get nothing is a few lines a second and counts.
func TestFailureLinesAreBounded(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	d := startDaemon(t, head+
		frontendText("none", free, "none")+poolText("none", "")+
		frontendText("full", free, "p", "max_sessions = 1")+poolText("p", "", "A="+a.Addr))
	none, full := d.frontend("none").Listen, d.frontend("full").Listen
	open(t, full)
	began := time.Now()
	loads := []*load{startLoad(none, 2), startLoad(full, 2)}
	eventually(t, "both counts", func() bool {
		return len(d.lines("more clients got no backend")) > 0 && len(d.lines("more clients refused")) > 0
	})
	for _, l := range loads {
		l.end()
	}
	took := time.Since(began)
	lines := 0
	for _, msg := range []string{"session", "client refused", "more clients got no backend", "more clients refused"} {
		lines += len(d.lines(msg))
	}
	visits := loads[0].visits.Load() + loads[1].visits.Load()
	// Five of each kind and two counts a second.
	if most := 12 * (2 + took.Seconds()); float64(lines) > most {
		t.Errorf("got %d lines in %v for %d clients, want at most %v", lines, took, visits, most)
	}
	count := int64(0)
	for _, line := range d.lines("more clients got no backend") {
		count += int64(line["count"].(float64))
	}
	if count == 0 || count > visits {
		t.Errorf("the count says %d of %d clients", count, visits)
	}
}

// B147: a log that nobody reads costs lines, not traffic, and the log says how
// many.
func TestStalledLog(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	path := filepath.Join(t.TempDir(), "config.toml")
	text := head + frontendText("web", free, "p") + poolText("p", "", "A="+a.Addr)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := command("run", "-c", path)
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	defer cmd.Wait()
	defer cmd.Process.Kill()

	log := bufio.NewReader(r)
	web := ""
	for web == "" {
		line, err := log.ReadString('\n')
		if err != nil {
			t.Fatalf("the log ended: %v", err)
		}
		var m struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &m) == nil && m.Msg == "listening" {
			web = m.Address
		}
	}
	// From here on nobody reads: 64 KiB fit into the pipe, 1 MiB waits in the
	// process, and a line has about 500 bytes.
	const clients = 4000
	load := startLoad(web, 8)
	eventually(t, "traffic", func() bool { return load.visits.Load() >= clients })
	load.stop(t)

	lines := make(chan string)
	go func() {
		defer close(lines)
		for {
			line, err := log.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	sessions, dropped := int64(0), int64(0)
	for dropped == 0 || sessions+dropped < load.visits.Load() {
		select {
		case line := <-lines:
			var m struct {
				Msg   string
				Count int64
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatalf("a line is damaged: %v: %s", err, line)
			}
			if m.Msg == "session" {
				sessions++
			}
			if strings.HasPrefix(m.Msg, "log lines dropped") {
				dropped += m.Count
			}
		case <-time.After(patience):
			t.Fatalf("of %d sessions %d have a line and %d were counted as dropped", load.visits.Load(), sessions, dropped)
		}
	}
	if sessions == 0 {
		t.Error("no session line came through")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	for range lines {
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("got %v, want exit status 0", err)
	}
}

// A reader of the log that goes away does not end the program.
func TestLogReaderGone(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	address := onFreePort(t, func(port string) bool {
		at := net.JoinHostPort("127.0.0.1", port)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		path := textFile(t, head+frontendText("web", at, "p")+poolText("p", "", "A="+a.Addr))
		cmd := command("run", "-c", path)
		cmd.Stderr = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		t.Cleanup(func() {
			cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Errorf("got %v, want exit status 0", err)
			}
		})
		line, _ := bufio.NewReader(r).ReadString('\n')
		r.Close()
		return strings.Contains(line, "{")
	})
	for range 20 {
		if got, err := visit(address); got != "A" || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/admin"
	"sluice/cmd/internal/config"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"
)

// wrote returns what f logs under c.
func wrote(t *testing.T, c config.Log, f func(*Logs)) string {
	t.Helper()
	var w bytes.Buffer
	l := New(&w)
	l.Use(c)
	f(l)
	l.Close(10 * time.Second)
	return w.String()
}

var all = config.Log{Level: "info", Format: "json", Access: "all", LogEmpty: true}

func TestSessionLine(t *testing.T) {
	r := session.Record{
		Started:  time.Date(2024, 5, 6, 7, 8, 9, 10_000_000, time.UTC),
		Session:  "s-1",
		Frontend: "web",
		Listen:   "10.0.0.1:80",
		Client:   netip.MustParseAddrPort("10.0.0.2:4000"),
		Pool:     "p",
		Backend:  "B",
		Address:  "10.0.0.3:80",
		Source:   "10.0.0.1:5000",
		Attempts: []session.Attempt{
			{Backend: "A", Error: "refused", Took: 1234567 * time.Nanosecond},
			{Backend: "B", Took: 2 * time.Millisecond},
		},
		ToBackend:      11,
		ToClient:       22,
		Queue:          250 * time.Microsecond,
		Dial:           3500 * time.Microsecond,
		Total:          44 * time.Millisecond,
		Last:           5 * time.Millisecond,
		FrontendActive: 6,
		BackendActive:  7,
		Code:           "--",
		Cause:          session.ClientClosed,
	}
	line := wrote(t, all, func(l *Logs) { l.Session(r) })
	_, got, _ := strings.Cut(line, `"msg":`)
	want := `"session","started":"2024-05-06T07:08:09.01Z","session":"s-1","frontend":"web","listen":"10.0.0.1:80",` +
		`"client":"10.0.0.2:4000","pool":"p","backend":"B","address":"10.0.0.3:80","source":"10.0.0.1:5000",` +
		`"attempts":[{"backend":"A","error":"refused","ms":1.235},{"backend":"B","error":"","ms":2}],` +
		`"to_backend":11,"to_client":22,"queue_ms":0.25,"dial_ms":3.5,"total_ms":44,"last_ms":5,` +
		`"frontend_active":6,"backend_active":7,"code":"--","cause":"client_closed"}` + "\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A client of a unix socket has no address, and a session without a dial no
// attempts: the fields are there all the same.
func TestSessionLineOfNothing(t *testing.T) {
	line := wrote(t, all, func(l *Logs) { l.Session(session.Record{Cause: session.NoBackend, Code: "SC"}) })
	for _, want := range []string{`"client":""`, `"attempts":[]`, `"backend":""`} {
		if !strings.Contains(line, want) {
			t.Errorf("the line lacks %s: %s", want, line)
		}
	}
}

func TestWanted(t *testing.T) {
	normal := session.Record{Cause: session.BackendClosed, ToClient: 1}
	empty := session.Record{Cause: session.ClientClosed}
	failed := session.Record{Cause: session.Idle}
	for _, c := range []struct {
		access                string
		logEmpty              bool
		normal, empty, failed bool
	}{
		{"all", true, true, true, true},
		{"all", false, true, false, true},
		{"failed", true, false, false, true},
		{"off", true, false, false, false},
	} {
		l := &Logs{}
		l.pick.Store(&config.Log{Access: c.access, LogEmpty: c.logEmpty})
		if l.wanted(normal) != c.normal || l.wanted(empty) != c.empty || l.wanted(failed) != c.failed {
			t.Errorf("access %s, log_empty %t: got %t %t %t, want %t %t %t", c.access, c.logEmpty,
				l.wanted(normal), l.wanted(empty), l.wanted(failed), c.normal, c.empty, c.failed)
		}
	}
}

func TestLevelAndFormat(t *testing.T) {
	change := pool.Change{Pool: "p", Backend: "A", From: "up", To: "down", Reason: "2 probes in a row failed"}
	for _, c := range []struct {
		level, format string
		lines         int
		json          bool
	}{
		{"debug", "json", 3, true},
		{"info", "console", 2, false},
		{"warn", "json", 1, true},
		{"error", "console", 0, false},
	} {
		text := wrote(t, config.Log{Level: c.level, Format: c.format}, func(l *Logs) {
			l.Zap().Debug("debug")
			l.Zap().Info("info")
			l.Backend(change)
		})
		if got := strings.Count(text, "\n"); got != c.lines {
			t.Errorf("%s: got %d lines, want %d:\n%s", c.level, got, c.lines, text)
		}
		for line := range strings.Lines(text) {
			if json.Valid([]byte(line)) != c.json {
				t.Errorf("%s: got line %s", c.format, line)
			}
		}
	}
}

// A change of format takes effect for loggers that were handed out before.
func TestFormatChangesLive(t *testing.T) {
	text := wrote(t, all, func(l *Logs) {
		log := l.Zap().Named("x")
		log.Info("one")
		l.Use(config.Log{Level: "info", Format: "console"})
		log.Info("two")
	})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 2 || !json.Valid([]byte(lines[0])) || !strings.HasSuffix(lines[1], "\tinfo\tx\ttwo") {
		t.Errorf("got %q", lines)
	}
}

func TestTransitionLevels(t *testing.T) {
	for _, c := range []struct{ from, to, reason, level string }{
		{"up", "down", "3 probes in a row failed", "warn"},
		{"down", "up", "2 probes in a row passed", "info"},
		{"up", "drain", "the file's policy changed", "info"},
		{"", "up", "configured in the file", "info"},
		{"up", "up", "the first probe passed", "debug"},
		{"down", "down", "the first probe failed", "info"},
		{"drain", "drain", "3 probes in a row failed", "debug"},
		{"up", "drain", "set to drain by the API", "debug"},
		{"drain", "down", "set to ready by the API", "debug"},
		{"maint", "down", "set to ready by the API (127.0.0.1:5000)", "debug"},
		{"", "up", "added by the API before a restart", "info"},
		{"removing", "removed", "its last session ended", "info"},
	} {
		if got := levelOf(pool.Change{From: c.from, To: c.to, Reason: c.reason}).String(); got != c.level {
			t.Errorf("%q -> %q, %s: got level %s, want %s", c.from, c.to, c.reason, got, c.level)
		}
	}
}

// What the API changes is told by the admin side, which knows who asked for it:
// of all that a pool tells, this is where only that line is wanted.
func TestChangesByTheAPIAreOfLevelDebug(t *testing.T) {
	strategy, err := balance.ByName("round_robin", "")
	if err != nil {
		t.Fatal(err)
	}
	drain := pool.Drain
	a, b := pool.Spec{ID: "a", Address: "10.0.0.1:1", Weight: 1}, pool.Spec{ID: "b", Address: "10.0.0.2:1", Weight: 1}
	for level, want := range map[string]int{"info": 0, "debug": 5} {
		text := wrote(t, config.Log{Level: level, Format: "json"}, func(l *Logs) {
			p := pool.New("p", pool.Config{Strategy: strategy, Backends: []pool.Spec{a}}, pool.Hooks{Changed: l.Backend})
			for _, err := range []error{
				p.Add(b), p.Patch("b", pool.Patch{Admin: &drain}), p.Remove("b"), p.Remove("a"), p.Add(a),
			} {
				if err != nil {
					t.Error(err)
				}
			}
		})
		if got := strings.Count(text, "\n"); got != want {
			t.Errorf("level %s: got %d lines, want %d:\n%s", level, got, want, text)
		}
	}
}

// Whatever an error says, a line is one line.
func TestOneLineEach(t *testing.T) {
	for _, format := range []string{"json", "console"} {
		text := wrote(t, config.Log{Level: "info", Format: format}, func(l *Logs) {
			l.Reload("SIGHUP", admin.Reloaded{}, errors.New("first\nsecond"))
			l.Fault("web", errors.New("accept\nfailed"))
			l.Rejected("web\n", "denied", netip.AddrPort{})
		})
		if got := strings.Count(text, "\n"); got != 3 {
			t.Errorf("%s: got %d lines, want 3:\n%s", format, got, text)
		}
	}
}

// A storm is five lines a second for each frontend and cause, and counts; it does
// not hide the first failures of others.
func TestStorm(t *testing.T) {
	began := time.Now()
	text := wrote(t, all, func(l *Logs) {
		for range 1000 {
			l.Session(session.Record{Frontend: "web", Cause: session.NoBackend})
			l.Rejected("web", "process_limit", netip.AddrPort{})
			l.Fault("web", errors.New("too many open files"))
			l.LookupFailed("db", errors.New("no such host"))
		}
		l.Session(session.Record{Frontend: "quiet", Cause: session.NoBackend})
		l.Session(session.Record{Frontend: "web", Cause: session.ConnectFailed})
		l.Rejected("quiet", "process_limit", netip.AddrPort{})
		l.Rejected("web", "frontend_limit", netip.AddrPort{})
		l.Fault("quiet", errors.New("too many open files"))
		l.LookupFailed("quiet", errors.New("no such host"))
	})
	took := time.Since(began).Seconds()
	if got := float64(strings.Count(text, "\n")); got >= 30*(1+took) {
		t.Errorf("got %v lines in %v s", got, took)
	}
	if !strings.Contains(text, `"msg":"more clients got no backend","count":995,"kinds":{"web no_backend":995}`) && took < 1 {
		t.Errorf("the count of 995 sessions is missing:\n%s", text)
	}
	for _, want := range []string{
		`"session",.*"frontend":"quiet"`, `"session",.*"cause":"connect_failed"`,
		`"client refused","frontend":"quiet"`, `"client refused",.*"frontend_limit"`,
		`"frontend fault","frontend":"quiet"`, `"look-up failed","host":"quiet"`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("a storm hides %s:\n%s", want, text)
		}
	}
}

func TestRefusalCodes(t *testing.T) {
	for reason, want := range map[string]string{
		"process_limit": "PC", "client_rate": "PC", "denied": "PR", "proxy_header": "PR", "proxy_header_timeout": "cR",
	} {
		if got := refusal(reason); got != want {
			t.Errorf("%s: got %s, want %s", reason, got, want)
		}
	}
}

func BenchmarkSession(b *testing.B) {
	l := New(discard{})
	defer l.Close(time.Second)
	l.Use(all)
	r := session.Record{Frontend: "web", Cause: session.ClientClosed, Attempts: []session.Attempt{{Backend: "A"}}}
	b.ReportAllocs()
	for b.Loop() {
		l.Session(r)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

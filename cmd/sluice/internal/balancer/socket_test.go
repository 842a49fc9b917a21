package balancer

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"sluice/admin"
	"sluice/cmd/internal/config"
	"sluice/pool"
)

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{":6379", "127.0.0.1:6379", true},
		{"0.0.0.0:6379", "[::1]:6379", true},
		{"[::]:6379", ":6379", true},
		{"127.0.0.1:6379", "127.0.0.1:6379", true},
		{"localhost:6379", "127.0.0.1:6379", true},
		{"127.0.0.1:6379", "127.0.0.2:6379", false},
		{":6379", ":6380", false},
		{":0", "127.0.0.1:0", false},
		{"unix:/a", "unix:/a", true},
		{"unix:/a", "unix:/b", false},
		{"unix:/a", ":6379", false},
	} {
		if got := overlap(c.a, c.b); got != c.want {
			t.Errorf("overlap(%q, %q): got %t, want %t", c.a, c.b, got, c.want)
		}
		if got := overlap(c.b, c.a); got != c.want {
			t.Errorf("overlap(%q, %q): got %t, want %t", c.b, c.a, got, c.want)
		}
	}
}

func TestPlaceOf(t *testing.T) {
	for _, c := range []struct {
		listen string
		same   bool // for two frontends
	}{
		{"127.0.0.1:80", true},
		{":80", true},
		{"unix:/a", true},
		{"127.0.0.1:0", false},
		{":0", false},
	} {
		if got := placeOf(c.listen, "one") == placeOf(c.listen, "two"); got != c.same {
			t.Errorf("%s: got the same place %t, want %t", c.listen, got, c.same)
		}
	}
}

func TestAnAddressThatCannotBeBoundSaysWhatHelps(t *testing.T) {
	for _, c := range []struct {
		listen string
		err    error
		want   string
	}{
		{"127.0.0.1:80", syscall.EACCES, "frontend f: listen on 127.0.0.1:80: bind: permission denied; ports below 1024 are for root, or need CAP_NET_BIND_SERVICE"},
		{":80", syscall.EADDRINUSE, "frontend f: listen on :80: bind: address already in use; ss -ltnp shows who has it"},
		{"10.9.9.9:80", syscall.EADDRNOTAVAIL, "frontend f: listen on 10.9.9.9:80: bind: cannot assign requested address; no interface of this machine has that address"},
		{"unix:/no/s", syscall.ENOENT, "frontend f: listen on unix:/no/s: bind: no such file or directory; its directory is missing"},
		{":80", syscall.ENOBUFS, "frontend f: listen on :80: bind: no buffer space available"},
	} {
		err := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", c.err)}
		if got := (want{place: place{listen: c.listen, owner: "f"}, frontend: "f"}).refusal(err); got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("got %v\nwant %s", got, c.want)
		}
	}
}

// parsed returns a configuration with changes made to its text: pairs of old and
// new.
func parsed(t *testing.T, replace ...string) *config.Config {
	t.Helper()
	text := strings.NewReplacer(replace...).Replace(`
[[frontend]]
name = "web"
listen = "127.0.0.1:8080"
pool = "p"
[[pool]]
name = "p"
[[pool.backend]]
address = "127.0.0.1:9001"
`)
	c, err := config.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSame(t *testing.T) {
	base := parsed(t)
	if !same(base, parsed(t)) {
		t.Error("two readings of one text differ")
	}
	if !same(base, parsed(t, "[[pool]]", "# comment\n\n[[pool]]")) {
		t.Error("a comment makes a difference")
	}
	for _, change := range []string{
		"name = \"p\"\nmax_failures = 4",
		"name = \"p\"\nstrategy = \"least_connections\"",
		"name = \"p\"\nretry_after = \"11s\"",
	} {
		if same(base, parsed(t, `name = "p"`, change)) {
			t.Errorf("no difference seen: %s", change)
		}
	}
	if base.Pools[0].Config.Strategy.Build == nil {
		t.Error("comparing took the strategy away")
	}
}

// told are the lines of what differs, but for what pools tell.
func told(old, new *config.Config) []string {
	return linesOf(differences(old, new, func(config.Pool) []pool.Edit { return nil }))
}

// Every key of the file that differs has a line that names it as the file does.
func TestDifferences(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`listen = "127.0.0.1:8080"`, `listen = "127.0.0.1:8081"`, "frontend web: listen 127.0.0.1:8080 -> 127.0.0.1:8081"},
		{`name = "web"`, `name = "www"`, "frontend www: added, listens on 127.0.0.1:8080; frontend web: removed, no longer listens on 127.0.0.1:8080"},
		{`name = "web"`, "name = \"web\"\nidle_timeout = \"5m\"", "frontend web: idle_timeout 0s -> 5m0s"},
		{`name = "web"`, "name = \"web\"\nkeepalive = { idle = \"0s\" }", "frontend web: keepalive.idle 1m0s -> 0s"},
		{`name = "web"`, "name = \"web\"\nmax_sessions = 5", "frontend web: max_sessions 0 -> 5"},
		{"[[pool]]", "[process]\ndrain_timeout = \"1s\"\n[[pool]]", "process: drain_timeout 25s -> 1s"},
		{"[[pool]]", "[log]\naccess = \"failed\"\nlevel = \"warn\"\n[[pool]]", "log: level info -> warn; log: access all -> failed"},
		{"[[pool]]", "[admin]\nlisten = \"\"\n[[pool]]", "admin: listen 127.0.0.1:8404 -> "},
		{"[[pool]]", "[admin]\nprobe_listen = \":9000\"\n[admin.proxy]\nlisten = \":9001\"\n[[pool]]", "admin: probe_listen  -> :9000; admin.proxy: listen  -> :9001"},
		{"[[pool.backend]]", "[pool.health]\nrise = 5\ninterval = \"3s\"\n[[pool.backend]]", "pool p: health.interval 2s -> 3s; pool p: health.rise 2 -> 5"},
		{"[[pool.backend]]", "[pool.health]\nsend = \"AUTH hush\"\n[[pool.backend]]", "pool p: health.send changed"},
		{"[[pool.backend]]", "[pool.health]\npath = \"/up?token=hush\"\n[[pool.backend]]", "pool p: health.path changed"},
		{"[[pool.backend]]", "[pool.health]\nprobe = \"none\"\n[[pool.backend]]", "pool p: health.probe tcp -> none"},
		{"[[pool.backend]]", "[[pool]]\nname = \"q\"\n[[pool.backend]]", "pool q: added, backends: 1"},
	} {
		got := strings.Join(told(parsed(t), parsed(t, c.from, c.to)), "; ")
		if got != c.want {
			t.Errorf("%q: got %q, want %q", c.to, got, c.want)
		}
	}
}

// A secret is never in a line.
func TestDifferencesHideTokens(t *testing.T) {
	old, new := parsed(t), parsed(t)
	new.Admin.Settings.Tokens = append(new.Admin.Settings.Tokens, admin.Token{Secret: "hush"})
	if got := told(old, new); len(got) != 1 || got[0] != "admin: tokens changed" {
		t.Errorf("got %q", got)
	}
}

package pool

import (
	"errors"
	"net"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	f := func(text string, want Address) {
		t.Helper()
		if got, err := ParseAddress(text); err != nil || got != want {
			t.Errorf("got %+v, %v for %q, want %+v", got, err, text, want)
		}
	}
	f("127.0.0.1:6379", Address{Host: "127.0.0.1", Port: 6379})
	f(":0", Address{})
	f("[::]:65535", Address{Host: "::", Port: 65535})
	f("[0:0::1]:1", Address{Host: "::1", Port: 1})
	f("[::ffff:10.0.0.1]:1", Address{Host: "10.0.0.1", Port: 1})
	f("[fe80::1%eth0]:1", Address{Host: "fe80::1%eth0", Port: 1})
	f("LocalHost:1", Address{Host: "localhost", Port: 1})
	f("redis_1.db.svc.cluster.local.:1", Address{Host: "redis_1.db.svc.cluster.local", Port: 1})
	f("1.example:1", Address{Host: "1.example", Port: 1})
	f("unix:/run//a/../x.sock", Address{Unix: "/run/x.sock"})
	f("unix:/"+strings.Repeat("x", maxUnixPath-1), Address{Unix: "/" + strings.Repeat("x", maxUnixPath-1)})
}

func TestParseAddressRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", ":", "x", ":x", ":-1", ":+1", ":1.0", ":65536", "a:1:2", "[a]:1", "[]:1", "[::1", "::1]:1", "[::1]1",
		"a..b:1", ".a:1", "a-:1", "a b:1", " a:1", "a:1 ", "a:1,b:2", "a:1;b:2", "1.2.3:1", "01.2.3.4:1", "1:2",
		"http://a:1", "//a:1", "unix:", "unix:x", "unix:/", "unix:/a/", "unix:/a/..", "unix:/a,unix:/b", "unix:/a\x00",
		"unix:@x", "unix:/" + strings.Repeat("x", maxUnixPath), strings.Repeat("x", 300) + ":1", "caf\u00e9:1",
	} {
		if got, err := ParseAddress(text); err == nil || got != (Address{}) {
			t.Errorf("got %+v, %v for %q, want an error and nothing", got, err, text)
		}
	}
}

// Every refusal says how to mend the address.
func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ address, want string }{
		{"127.0.0.1:6379", ""},
		{"[::1]:1", ""},
		{"db.example:65535", ""},
		{"unix:/run/app.sock", ""},
		{"", `empty; write "host:port" or "unix:/path"`},
		{":80", `":80" has no host; write "127.0.0.1:80" for this machine`},
		{"0.0.0.0:80", `to listen on, not to connect to; write "127.0.0.1:80"`},
		{"[::]:80", `write "127.0.0.1:80"`},
		{"[::ffff:0.0.0.0]:80", `write "127.0.0.1:80"`},
		{"db:0", "port is 1 to 65535"},
		{"db:redis", `port "redis" of "db:redis" is not a number from 1 to 65535`},
		{"db:65536", "from 1 to 65535"},
		{"db:080", "from 1 to 65535"},
		{"db", `write "db:PORT"`},
		{"::1", `write "[::1]:PORT"`},
		{"::1:80", `write "[::1]:80" or "[::1:80]:PORT"`},
		{"[::1]", `write "[::1]:PORT"`},
		{"a:1:2", `write host:port, or "[::1]:6379" for IPv6`},
		{"[::1", `write "[::1]:PORT"`},
		{"redis://user:secret@db:6379/0", `a URL; write "db:6379"`},
		{"redis://", "write host:port alone"},
		{"/run/app.sock", `write "unix:/run/app.sock"`},
		{"unix:app.sock", "absolute path"},
		{"unix:/run/", "a directory; write the path of a socket"},
		{"a:1,b:2", "not exactly one address"},
	} {
		err := CheckAddress(c.address)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("got %v for %q, want no error", err, c.address)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %v for %q, want %q in it", err, c.address, c.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("the error shows a password: %v", err)
		}
	}
	if err := CheckAddress("unix:/a,unix:/b"); !errors.Is(err, ErrSeveral) {
		t.Errorf("got %v for a list, want ErrSeveral", err)
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "[::1]:80": true, "unix:/run/a.sock": true, "A_b-9.x": true, strings.Repeat("x", 128): true,
		"": false, "a b": false, "caf\u00e9": false, "a\n": false, "a%2F": false, strings.Repeat("x", 129): false,
	} {
		if err := CheckName(name); (err == nil) != want {
			t.Errorf("got %v for %q, want a name: %t", err, name, want)
		}
	}
}

func FuzzCheckAddress(f *testing.F) {
	for _, text := range []string{
		"127.0.0.1:80", "[::1%x]:1", "db.example:1", "unix:/a", ":0", "[", "]:", "::", "a://b@c:1/", "unix:", "1.2.3.4.:5",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := CheckAddress(text); err != nil {
			if s := err.Error(); s == "" || len(s) > 2000 || strings.ContainsAny(s, "\n\r") {
				t.Errorf("%q: not one readable line: %q", text, s)
			}
			return
		}
		a, err := ParseAddress(text)
		if err != nil {
			t.Fatalf("%q is accepted and does not parse: %v", text, err)
		}
		if a.Unix != "" {
			return
		}
		host, _, err := net.SplitHostPort(text)
		if err != nil || host == "" || a.Port < 1 || a.Port > 65535 {
			t.Errorf("%q is accepted and splits into %q, %v, port %d", text, host, err, a.Port)
		}
	})
}

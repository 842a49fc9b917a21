package config

import (
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	f := func(text string, want endpoint) {
		t.Helper()
		if got, err := parseAddress(text); err != nil || got != want {
			t.Errorf("got %+v, %v for %q, want %+v", got, err, text, want)
		}
	}
	f("127.0.0.1:6379", endpoint{host: "127.0.0.1", port: 6379})
	f(":0", endpoint{})
	f("[::]:65535", endpoint{host: "::", port: 65535})
	f("[0:0::1]:1", endpoint{host: "::1", port: 1})
	f("[::ffff:10.0.0.1]:1", endpoint{host: "10.0.0.1", port: 1})
	f("[fe80::1%eth0]:1", endpoint{host: "fe80::1%eth0", port: 1})
	f("LocalHost:1", endpoint{host: "localhost", port: 1})
	f("redis_1.db.svc.cluster.local.:1", endpoint{host: "redis_1.db.svc.cluster.local", port: 1})
	f("1.example:1", endpoint{host: "1.example", port: 1})
	f("unix:/run//a/../x.sock", endpoint{unix: "/run/x.sock"})
	f("unix:/"+strings.Repeat("x", maxUnixPath-1), endpoint{unix: "/" + strings.Repeat("x", maxUnixPath-1)})
}

func TestParseAddressRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", ":", "x", ":x", ":-1", ":+1", ":1.0", ":65536", "a:1:2", "[a]:1", "[]:1", "[::1", "::1]:1", "[::1]1",
		"a..b:1", ".a:1", "a-:1", "a b:1", " a:1", "a:1 ", "a:1,b:2", "a:1;b:2", "1.2.3:1", "01.2.3.4:1", "1:2",
		"http://a:1", "//a:1", "unix:", "unix:x", "unix:/", "unix:/a/", "unix:/a,unix:/b", "unix:/a\x00", "unix:@x",
		"unix:/" + strings.Repeat("x", maxUnixPath), strings.Repeat("x", 300) + ":1", "caf\u00e9:1",
	} {
		if got, err := parseAddress(text); err == nil {
			t.Errorf("got %+v for %q, want an error", got, text)
		}
	}
}

func TestOverlaps(t *testing.T) {
	t.Parallel()
	f := func(a, b string, want bool) {
		t.Helper()
		x, err := parseAddress(a)
		if err != nil {
			t.Fatal(err)
		}
		y, err := parseAddress(b)
		if err != nil {
			t.Fatal(err)
		}
		if x.overlaps(y) != want || y.overlaps(x) != want {
			t.Errorf("got %t and %t for %s and %s, want %t", x.overlaps(y), y.overlaps(x), a, b, want)
		}
	}
	f(":80", ":80", true)
	f(":80", ":81", false)
	f(":0", ":0", false)
	f(":80", "0.0.0.0:80", true)
	f(":80", "[::]:80", true)
	f(":80", "10.0.0.1:80", true)
	f(":80", "[::1]:80", true)
	f(":80", "example.com:80", true)
	f("0.0.0.0:80", "[::1]:80", true)
	f("10.0.0.1:80", "10.0.0.2:80", false)
	f("127.0.0.1:80", "[::1]:80", false)
	f("localhost:80", "127.0.0.1:80", true)
	f("localhost:80", "[::1]:80", true)
	f("localhost:80", "10.0.0.1:80", false)
	f("unix:/a", "unix:/a", true)
	f("unix:/a", "unix:/b", false)
	f("unix:/a", ":80", false)
	f("127.0.0.1:0", "127.0.0.1:0", false)
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "localhost.example:1": false, "unix:/a": true,
	} {
		e, err := parseAddress(text)
		if err != nil || e.loopback() != want {
			t.Errorf("got %t, %v for %s, want %t", e.loopback(), err, text, want)
		}
	}
}

// A frontend may be the backend of another one, but not of itself.
func TestCircle(t *testing.T) {
	t.Parallel()
	f := func(listen, backend string, want bool) {
		t.Helper()
		d := newDocument().set("[[frontend]]", "listen", `"`+listen+`"`).set("[[pool.backend]]", "address", `"`+backend+`"`)
		_, err := Parse("test.toml", []byte(d.String()))
		if got := err != nil && strings.Contains(err.Error(), "circle"); got != want {
			t.Errorf("got %v for %s behind %s, want a circle: %t", err, backend, listen, want)
		}
	}
	f("127.0.0.1:1", "127.0.0.1:1", true)
	f(":1", "localhost:1", true)
	f("unix:/a", "unix:/a", true)
	f(":1", "10.0.0.1:1", false)
	f("127.0.0.1:1", "127.0.0.1:2", false)
	f("127.0.0.1:0", "127.0.0.1:1", false)
}

package config

import (
	"strings"
	"testing"
)

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
	f("0.0.0.0:80", "[::]:80", true)
	f("0.0.0.0:80", "localhost:80", true)
	f("0.0.0.0:80", "10.0.0.1:80", true)
	f("0.0.0.0:80", "[::1]:80", false)
	f("[::ffff:0.0.0.0]:80", "[::1]:80", false)
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

func TestReaches(t *testing.T) {
	t.Parallel()
	own := []string{"10.0.0.1", "2001:db8::1", "me"}
	f := func(listen, address string, want bool) {
		t.Helper()
		if got := Reaches(listen, address, own); got != want {
			t.Errorf("got %t for a dial of %s and a listener on %s, want %t", got, address, listen, want)
		}
	}
	f("127.0.0.1:80", "127.0.0.1:80", true)
	f("127.0.0.1:80", "localhost:80", true)
	f("127.0.0.1:80", "[::ffff:127.0.0.1]:80", true)
	f("127.0.0.1:80", "127.0.0.1:81", false)
	f("127.0.0.1:80", "10.0.0.1:80", false)
	f("[::]:80", "127.0.0.2:80", true)
	f("[::]:80", "10.0.0.1:80", true)
	f("[::]:80", "[2001:db8::1]:80", true)
	f("[::]:80", "ME:80", true)
	f("[::]:80", "10.0.0.2:80", false)
	f("[::]:80", "other:80", false)
	f("0.0.0.0:80", "10.0.0.1:80", true)
	f("0.0.0.0:80", "[::1]:80", false)
	f("0.0.0.0:80", "[2001:db8::1]:80", false)
	f("other:80", "other:80", true)
	f("unix:/a", "unix:/./a", true)
	f("unix:/a", "127.0.0.1:80", false)
	f("", "127.0.0.1:80", false)
	f("127.0.0.1:80", "nonsense", false)
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

package header_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"sluice/l4/header"
)

const (
	signature = "\r\n\r\n\x00\r\nQUIT\n"
	ipv4      = "\xc0\x00\x02\x07\x0a\x00\x00\x01\x12\x67\x15\x38"                                // 192.0.2.7:4711 to 10.0.0.1:5432
	ipv6      = "\x20\x01\x0d\xb8" + zeros12 + "\x20\x01\x0d\xb8" + zeros8 + "\x00\x00\x00\x01" + // 2001:db8:: to 2001:db8::1
		"\x12\x67\x15\x38"
	zeros8, zeros12 = "\x00\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)

// v2 returns a header of version 2.
func v2(command, family byte, rest string) string {
	return signature + string(binary.BigEndian.AppendUint16([]byte{command, family}, uint16(len(rest)))) + rest
}

// whole are headers, and the client and destination that they tell.
var whole = []struct{ name, text, source, destination string }{
	{"v1 TCP4", "PROXY TCP4 192.0.2.7 10.0.0.1 4711 5432\r\n", "192.0.2.7:4711", "10.0.0.1:5432"},
	{"v1 TCP6", "PROXY TCP6 2001:db8::7 2001:db8::1 4711 5432\r\n", "[2001:db8::7]:4711", "[2001:db8::1]:5432"},
	{"v1 TCP6 of IPv4", "PROXY TCP6 ::ffff:192.0.2.7 ::ffff:10.0.0.1 4711 5432\r\n", "192.0.2.7:4711", "10.0.0.1:5432"},
	{"v1 UNKNOWN", "PROXY UNKNOWN\r\n", "", ""},
	{"v1 UNKNOWN with more", "PROXY UNKNOWN ffff:f::1 ffff:f::2 65535 65535\r\n", "", ""},
	{"v1 as long as it may be", "PROXY UNKNOWN " + strings.Repeat("f", 107-14-2) + "\r\n", "", ""},
	{"v2 TCP4", v2(0x21, 0x11, ipv4), "192.0.2.7:4711", "10.0.0.1:5432"},
	{"v2 TCP6", v2(0x21, 0x21, ipv6), "[2001:db8::]:4711", "[2001:db8::1]:5432"},
	{"v2 UNIX", v2(0x21, 0x31, strings.Repeat("\x00", 216)), "", ""},
	{"v2 UDP4", v2(0x21, 0x12, ipv4), "", ""},
	{"v2 LOCAL of length 0", v2(0x20, 0x00, ""), "", ""},
	{"v2 LOCAL of length 12", v2(0x20, 0x11, ipv4), "", ""},
	{"v2 LOCAL of a family that is none", v2(0x20, 0x7f, "abc"), "", ""},
	{"v2 UNSPEC", v2(0x21, 0x00, "\x04\x00\x01x"), "", ""},
	{"v2 TCP4 with a TLV", v2(0x21, 0x11, ipv4+"\x04\x00\x03abc"), "192.0.2.7:4711", "10.0.0.1:5432"},
	{"v2 TCP4, longer than its addresses", v2(0x21, 0x11, ipv4+strings.Repeat("x", 99)), "192.0.2.7:4711", "10.0.0.1:5432"},
	{"v2 as long as it may be", v2(0x21, 0x11, ipv4+strings.Repeat("x", header.Max-16-12)), "192.0.2.7:4711", "10.0.0.1:5432"},
}

// none are first bytes that are no header, and how many of them tell so.
var none = []struct {
	name, text string
	tells      int
}{
	{"a request", "GET / HTTP/1.1\r\n", 1},
	{"another word", "PROXX TCP4 192.0.2.7 10.0.0.1 4711 5432\r\n", 5},
	{"lower case", "PROXY tcp4 192.0.2.7 10.0.0.1 4711 5432\r\n", 7},
	{"no family", "PROXY TCP5 192.0.2.7 10.0.0.1 4711 5432\r\n", 10},
	{"no end of line in 107 bytes", "PROXY UNKNOWN " + strings.Repeat("f", 108-14), 107},
	{"an end of line at 108 bytes", "PROXY UNKNOWN " + strings.Repeat("f", 108-14-2) + "\r\n", 107},
	{"a line without CR", "PROXY TCP4 192.0.2.7 10.0.0.1 4711 5432\n", 40},
	{"no address", "PROXY TCP4 192.0.2.x 10.0.0.1 4711 5432\r\n", 41},
	{"an address of the other family", "PROXY TCP4 2001:db8::7 2001:db8::1 4711 5432\r\n", 46},
	{"no port", "PROXY TCP4 192.0.2.7 10.0.0.1 70000 5432\r\n", 42},
	{"words too many", "PROXY TCP4 192.0.2.7 10.0.0.1 4711 5432 7\r\n", 43},
	{"v2 without QUIT", "\r\n\r\n\x00\r\nQUIET\n", 11},
	{"v2 of another version", v2(0x11, 0x11, ipv4), 13},
	{"v2 of another command", v2(0x22, 0x11, ipv4), 13},
	{"v2 of a family that is none", v2(0x21, 0x13, ipv4), 28},
	{"v2 shorter than its addresses", v2(0x21, 0x21, ipv4), 28},
	{"v2 longer than is read", v2(0x21, 0x11, ipv4+strings.Repeat("x", header.Max-16-11)), 16},
}

// B152, B154: what the bytes are does not depend on how they arrive, and nothing
// behind the header is taken.
func TestRead(t *testing.T) {
	for _, c := range whole {
		for n := range len(c.text) {
			if _, v := header.Read([]byte(c.text[:n])); v != header.More {
				t.Fatalf("%s, the first %d bytes: got %v, want more", c.name, n, v)
			}
		}
		for _, behind := range []string{"", "payload", c.text} {
			h, v := header.Read([]byte(c.text + behind))
			if v != header.Whole || h.Size != len(c.text) || text(h.Source) != c.source || text(h.Destination) != c.destination {
				t.Errorf("%s and %q behind: got %v %+v; want %d bytes, %q to %q", c.name, behind, v, h, len(c.text), c.source, c.destination)
			}
		}
	}
}

func text(a netip.AddrPort) string {
	if a == (netip.AddrPort{}) {
		return ""
	}
	return a.String()
}

// What cannot become a header is told as soon as it cannot: who waits for an
// answer to it waits no longer.
func TestReadNone(t *testing.T) {
	for _, c := range none {
		for n := range len(c.text) + 1 {
			want := header.More
			if n >= c.tells {
				want = header.None
			}
			if _, v := header.Read([]byte(c.text[:n])); v != want {
				t.Fatalf("%s, the first %d bytes of %d: got %v, want %v", c.name, n, len(c.text), v, want)
			}
		}
	}
}

// FuzzRead: once a verdict is there, more bytes do not change it.
func FuzzRead(f *testing.F) {
	for _, c := range whole {
		f.Add([]byte(c.text+"payload"), 3)
	}
	for _, c := range none {
		f.Add([]byte(c.text), 20)
	}
	f.Fuzz(func(t *testing.T, p []byte, cut int) {
		before := bytes.Clone(p)
		h, v := header.Read(p)
		if !bytes.Equal(p, before) {
			t.Fatalf("%q became %q", before, p)
		}
		if v == header.Whole && (h.Size <= 0 || h.Size > len(p) || h.Size > header.Max) {
			t.Fatalf("%q: a header of %d bytes", p, h.Size)
		}
		if v == header.More && len(p) >= header.Max {
			t.Fatalf("%d bytes are not enough", len(p))
		}
		first := p[:max(0, min(cut, len(p)))]
		if h1, v1 := header.Read(first); v1 != header.More && (v1 != v || h1 != h) {
			t.Fatalf("%q: %v %+v, but %q: %v %+v", first, v1, h1, p, v, h)
		}
		if v == header.Whole {
			if _, v1 := header.Read(p[:h.Size-1]); v1 != header.More {
				t.Fatalf("%q without its last byte: %v", p[:h.Size], v1)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	for _, c := range whole {
		if c.name == "v1 TCP4" || c.name == "v2 TCP4" {
			p := []byte(c.text)
			b.Run(c.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					header.Read(p)
				}
			})
		}
	}
}

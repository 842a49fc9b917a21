package greeting_test

import (
	"bufio"
	"bytes"
	"io"
	"net/netip"
	"testing"

	"sluice/l4/greeting"
	"sluice/l4/header"

	"github.com/pires/go-proxyproto"
)

const signature = "\r\n\r\n\x00\r\nQUIT\n"

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		name, source, destination string
		v1, v2                    string
	}{
		{
			"IPv4", "192.0.2.7:4711", "198.51.100.1:5432",
			"PROXY TCP4 192.0.2.7 198.51.100.1 4711 5432\r\n",
			signature + "\x21\x11\x00\x0c\xc0\x00\x02\x07\xc6\x33\x64\x01\x12\x67\x15\x38",
		},
		{
			"IPv6", "[2001:db8::7]:4711", "[2001:db8::1]:5432",
			"PROXY TCP6 2001:db8::7 2001:db8::1 4711 5432\r\n",
			signature + "\x21\x21\x00\x24" +
				"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07" +
				"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x12\x67\x15\x38",
		},
		{
			"IPv4 in IPv6", "[::ffff:192.0.2.7]:4711", "198.51.100.1:5432",
			"PROXY TCP4 192.0.2.7 198.51.100.1 4711 5432\r\n",
			signature + "\x21\x11\x00\x0c\xc0\x00\x02\x07\xc6\x33\x64\x01\x12\x67\x15\x38",
		},
		{
			"a zone", "[fe80::7%eth0]:4711", "[fe80::1%eth0]:5432",
			"PROXY TCP6 fe80::7 fe80::1 4711 5432\r\n",
			signature + "\x21\x21\x00\x24" +
				"\xfe\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07" +
				"\xfe\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x12\x67\x15\x38",
		},
		{"two families", "192.0.2.7:4711", "[2001:db8::1]:5432", "PROXY UNKNOWN\r\n", signature + "\x20\x00\x00\x00"},
		{"a unix socket", "", "", "PROXY UNKNOWN\r\n", signature + "\x20\x00\x00\x00"},
		{"no destination", "192.0.2.7:4711", "", "PROXY UNKNOWN\r\n", signature + "\x20\x00\x00\x00"},
	} {
		source, _ := netip.ParseAddrPort(c.source)
		destination, _ := netip.ParseAddrPort(c.destination)
		for version, want := range map[int]string{1: c.v1, 2: c.v2} {
			if got := greeting.Client(version, source, destination); string(got) != want {
				t.Errorf("%s, version %d: got %q, want %q", c.name, version, got, want)
			}
		}
	}
}

// FuzzClient has what is written read by the library and by our own reader.
func FuzzClient(f *testing.F) {
	v4, v6 := []byte{192, 0, 2, 7}, netip.MustParseAddr("2001:db8::7").AsSlice()
	f.Add(1, v4, v4, uint16(4711), uint16(0), []byte("payload"))
	f.Add(2, v6, v6, uint16(65535), uint16(1), []byte("\r\nPROXY"))
	f.Add(2, v4, v6, uint16(0), uint16(0), []byte{})
	f.Add(1, v6, []byte{}, uint16(1), uint16(2), []byte("\n"))
	f.Fuzz(func(t *testing.T, version int, from, to []byte, sourcePort, destinationPort uint16, rest []byte) {
		version = 1 + version&1
		a, _ := netip.AddrFromSlice(from)
		b, _ := netip.AddrFromSlice(to)
		source, destination := netip.AddrPortFrom(a.Unmap(), sourcePort), netip.AddrPortFrom(b.Unmap(), destinationPort)
		head := greeting.Client(version, source, destination)
		if !a.IsValid() || !b.IsValid() || a.Unmap().Is4() != b.Unmap().Is4() {
			source, destination = netip.AddrPort{}, netip.AddrPort{}
		}
		all := append(bytes.Clone(head), rest...)

		in := bufio.NewReader(bytes.NewReader(all))
		told, err := proxyproto.Read(in)
		if err != nil || int(told.Version) != version {
			t.Fatalf("%q: the library reads version %v, %v", head, told, err)
		}
		x, y, ok := told.TCPAddrs()
		if ok != source.IsValid() || ok && (x.AddrPort() != source || y.AddrPort() != destination) {
			t.Errorf("%q: the library reads %v to %v, want %v to %v", head, x, y, source, destination)
		}
		if left, err := io.ReadAll(in); !bytes.Equal(left, rest) || err != nil {
			t.Errorf("%q: %q is left, %v, want %q", head, left, err, rest)
		}

		ours, verdict := header.Read(all)
		if verdict != header.Whole || ours != (header.Header{Size: len(head), Source: source, Destination: destination}) {
			t.Errorf("%q: we read %+v (%v), want %v to %v", head, ours, verdict, source, destination)
		}
	})
}

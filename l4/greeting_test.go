package l4_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
	"sluice/pool"

	"github.com/pires/go-proxyproto"
)

// greeted is a setup whose only backend gets a header of that version, and hands
// its sessions over.
func greeted(t *testing.T, version int) (setup, <-chan *net.TCPConn) {
	t.Helper()
	habit, conns := l4test.Hand(t)
	return setup{specs: []pool.Spec{{ID: "A", Address: l4test.Serve(t, habit).Addr, Weight: 1, SendProxy: version}}}, conns
}

// told reads the header that a backend gets first. What comes behind it is in
// the reader.
func told(t *testing.T, c net.Conn, version int) (*proxyproto.Header, *bufio.Reader) {
	t.Helper()
	in := bufio.NewReader(c)
	h, err := proxyproto.Read(in)
	if err != nil {
		t.Fatalf("no header: %v", err)
	}
	if int(h.Version) != version {
		t.Errorf("a header of version %d, want %d", h.Version, version)
	}
	return h, in
}

// The backend learns who the client is and where it connected to, before the
// client has said anything; none of it is payload.
func TestBackendIsTold(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, version := range []int{1, 2} {
			s, conns := greeted(t, version)
			r := start(t, s)
			c := r.dial()
			b := handed(t, conns)
			h, in := told(t, b, version)
			if got, want := fmt.Sprint(h.SourceAddr, h.DestinationAddr), fmt.Sprint(c.LocalAddr(), c.RemoteAddr()); got != want {
				t.Errorf("version %d: told %s, want %s", version, got, want)
			}
			io.WriteString(c, "hello")
			c.CloseWrite()
			if got, err := io.ReadAll(in); string(got) != "hello" || err != nil {
				t.Errorf("version %d: got %q, %v behind the header", version, got, err)
			}
			b.Close()
			r.mustEnd(session.ClientClosed, "--", 5, 0)
			if n := r.pool.Status().Backends[0].BytesToBack; n != 5 {
				t.Errorf("version %d: %d bytes are counted, want 5", version, n)
			}
		}
	})
}

// What a header told of the client is passed on, and its payload is behind it.
func TestBackendIsToldWhatAHeaderTold(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		s, conns := greeted(t, 2)
		s.admission = behindProxy(t, headers(session.RequireHeaders)).admission
		r := start(t, s)
		c := r.dial()
		io.WriteString(c, vectors[0].text+"payload")
		c.CloseWrite()
		b := handed(t, conns)
		h, in := told(t, b, 2)
		if got := fmt.Sprint(h.SourceAddr, h.DestinationAddr); got != announced+" 203.0.113.1:5432" {
			t.Errorf("told %s", got)
		}
		if got, err := io.ReadAll(in); string(got) != "payload" || err != nil {
			t.Errorf("got %q, %v behind the header", got, err)
		}
		b.Close()
		r.mustEnd(session.ClientClosed, "--", 7, 0)
	})
}

// The client of a unix socket has no address to tell.
func TestBackendIsToldOfAUnixClient(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for version, want := range map[int]string{1: "PROXY UNKNOWN\r\n", 2: v2("\x20\x00\x00\x00")} {
			s, conns := greeted(t, version)
			path := filepath.Join(t.TempDir(), "s")
			s.listen = "unix:" + path
			start(t, s)
			c, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, "x")
			c.Close()
			if got, err := io.ReadAll(handed(t, conns)); string(got) != want+"x" || err != nil {
				t.Errorf("version %d: got %q, %v", version, got, err)
			}
		}
	})
}

// Behind the header bulk arrives whole, both ways.
func TestBulkBehindAHeader(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		const toBackend, toClient = 5<<20 + 3, 3<<20 + 1
		s, conns := greeted(t, 2)
		r := start(t, s)
		c := r.dial()
		go func() {
			io.Copy(c, l4test.PatternAt(7, toBackend))
			c.CloseWrite()
		}()
		b := handed(t, conns)
		_, in := told(t, b, 2)
		go func() {
			io.Copy(b, l4test.PatternAt(9, toClient))
			b.CloseWrite()
		}()
		for name, end := range map[string]struct {
			from io.Reader
			want io.Reader
		}{"backend": {in, l4test.PatternAt(7, toBackend)}, "client": {c, l4test.PatternAt(9, toClient)}} {
			got, want := sha256.New(), sha256.New()
			n, err := io.Copy(got, end.from)
			io.Copy(want, end.want)
			if err != nil || string(got.Sum(nil)) != string(want.Sum(nil)) {
				t.Errorf("the %s got %d other bytes, %v", name, n, err)
			}
		}
		b.Close()
		r.record()
	})
}

// A backend that resets on the header is an ending like any other.
func TestBackendResetsOnTheHeader(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		b := l4test.Serve(t, l4test.Reset)
		r := start(t, setup{specs: []pool.Spec{{ID: "A", Address: b.Addr, Weight: 1, SendProxy: 1}}})
		if how := r.refused(""); how != "reset" {
			t.Errorf("the client saw %s", how)
		}
		r.mustEnd(session.BackendReset, "SD", 0, 0)
	})
}

// The version is that of the moment of the dial; a session keeps what it began
// with.
func TestSendProxyOfAReload(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		s, conns := greeted(t, 0)
		r := start(t, s)
		for _, version := range []int{0, 2, 1, 0} {
			s.specs[0].SendProxy = version
			r.apply(s.specs)
			c := r.dial()
			io.WriteString(c, "x\n")
			b := handed(t, conns)
			b.SetDeadline(time.Now().Add(l4test.Patience))
			var in io.Reader = b
			if version > 0 {
				_, in = told(t, b, version)
			}
			if got := line(t, in); got != "x" {
				t.Errorf("version %d: got %q", version, strings.ToValidUTF8(got, "?"))
			}
		}
	})
}

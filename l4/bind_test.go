package l4_test

import (
	"net"
	"net/netip"
	"testing"

	"sluice/l4"
)

// An address of one family is bound in that family alone.
func TestListenerFamily(t *testing.T) {
	if ln, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skipf("SKIPPED: no IPv6: %v", err)
	} else {
		ln.Close()
	}
	for _, c := range []struct {
		listen string
		is4    bool
		other  string // another listener that has to fit beside it; empty: both families
	}{
		{"0.0.0.0:0", true, "::1"},
		{"127.0.0.1:0", true, "::1"},
		{"[::ffff:127.0.0.1]:0", true, "::1"},
		{"[::1]:0", false, "127.0.0.1"},
		{"[::]:0", false, ""},
		{":0", false, ""},
	} {
		ln, err := l4.Bind(t.Context(), net.ListenConfig{}, c.listen, 0)
		if err != nil {
			t.Errorf("%s: %v", c.listen, err)
			continue
		}
		defer ln.Close()
		at := netip.MustParseAddrPort(ln.Addr().String())
		if at.Addr().Is4() != c.is4 {
			t.Errorf("%s is bound to %s; want IPv4 %t", c.listen, at, c.is4)
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		if c.other == "" {
			// Both families: a client of either gets in.
			for _, host := range []string{"127.0.0.1", "::1"} {
				conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
				if err != nil {
					t.Errorf("%s: %v", c.listen, err)
					continue
				}
				conn.Close()
			}
			continue
		}
		if !fits(t, c.listen, c.other, port) {
			t.Errorf("%s takes %s too", c.listen, c.other)
		}
	}
}

// fits reports whether another listener on port fits beside one on listen.
// Somebody else may happen to have just that port, so other ports count too.
func fits(t *testing.T, listen, other, port string) bool {
	for range 5 {
		if beside, err := net.Listen("tcp", net.JoinHostPort(other, port)); err == nil {
			beside.Close()
			return true
		}
		ln, err := l4.Bind(t.Context(), net.ListenConfig{}, listen, 0)
		if err != nil {
			return false
		}
		defer ln.Close()
		_, port, _ = net.SplitHostPort(ln.Addr().String())
	}
	return false
}

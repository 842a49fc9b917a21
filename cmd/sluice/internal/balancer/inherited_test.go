package balancer

import (
	"net"
	"testing"
)

func TestBoundTo(t *testing.T) {
	v4, v6, any4, any6 := net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4zero.To4(), net.IPv6zero
	for _, c := range []struct {
		bound   net.Addr
		address string
		want    bool
	}{
		{&net.TCPAddr{IP: v4, Port: 80}, "127.0.0.1:80", true},
		{&net.TCPAddr{IP: v4, Port: 80}, "127.0.0.1:81", false},
		{&net.TCPAddr{IP: v4, Port: 80}, "127.0.0.2:80", false},
		{&net.TCPAddr{IP: v4, Port: 80}, "localhost:80", false},
		{&net.TCPAddr{IP: v4, Port: 80}, ":80", false},
		{&net.TCPAddr{IP: v6, Port: 80}, "[::1]:80", true},
		{&net.TCPAddr{IP: any6, Port: 80}, ":80", true},
		{&net.TCPAddr{IP: any6, Port: 80}, "[::]:80", true},
		{&net.TCPAddr{IP: any6, Port: 80}, "0.0.0.0:80", false},
		{&net.TCPAddr{IP: any4, Port: 80}, "0.0.0.0:80", true},
		{&net.TCPAddr{IP: v4, Port: 80}, "unix:/run/s", false},
		{&net.UnixAddr{Name: "/run/s", Net: "unix"}, "unix:/run/s", true},
		{&net.UnixAddr{Name: "/run/s", Net: "unix"}, "unix:/run/t", false},
		{&net.UnixAddr{Name: "/run/s", Net: "unix"}, ":80", false},
	} {
		if got := boundTo(c.bound, c.address); got != c.want {
			t.Errorf("%v for %q: got %t, want %t", c.bound, c.address, got, c.want)
		}
	}
}

package admin

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

// What a trusted proxy says of the client is kept, and the proxy's own address
// is added to the lists.
func TestTrustedProxySaysWhereARequestComesFrom(t *testing.T) {
	for _, c := range []struct {
		name    string
		trusted string // peers
		headers string // separated by |
		has     string
		lacks   string
	}{
		{"nothing said", "127.0.0.0/8", "Host: 127.0.0.1:99",
			"X-Forwarded-For: 127.0.0.1|X-Real-Ip: 127.0.0.1|X-Forwarded-Host: 127.0.0.1:99|X-Forwarded-Proto: http", "Forwarded: for"},
		{"the usual", "127.0.0.0/8", "X-Forwarded-For: 192.0.2.7|X-Forwarded-Proto: https|X-Forwarded-Host: shop.example|X-Forwarded-Port: 443",
			"X-Forwarded-For: 192.0.2.7, 127.0.0.1|X-Real-Ip: 192.0.2.7|X-Forwarded-Proto: https|X-Forwarded-Host: shop.example|X-Forwarded-Port: 443", "Proto: http\n"},
		{"several lines", "127.0.0.1/32", "X-Forwarded-For: 192.0.2.7|X-Forwarded-For: 192.0.2.8, 192.0.2.9",
			"X-Forwarded-For: 192.0.2.7, 192.0.2.8, 192.0.2.9, 127.0.0.1|X-Real-Ip: 192.0.2.9", ""},
		{"a chain of trusted ones", "127.0.0.0/8|10.0.0.0/8", "X-Forwarded-For: 1.2.3.4, 192.0.2.8, 10.0.0.9",
			"X-Forwarded-For: 1.2.3.4, 192.0.2.8, 10.0.0.9, 127.0.0.1|X-Real-Ip: 192.0.2.8", ""},
		{"what is no address", "127.0.0.0/8", "X-Forwarded-For: unknown",
			"X-Forwarded-For: unknown, 127.0.0.1|X-Real-Ip: 127.0.0.1", ""},
		{"an address with a port", "127.0.0.0/8|10.0.0.0/8", "X-Forwarded-For: 192.0.2.7:5678, [2001:db8::1]:99, 10.0.0.9:80",
			"X-Forwarded-For: 192.0.2.7:5678, [2001:db8::1]:99, 10.0.0.9:80, 127.0.0.1|X-Real-Ip: 2001:db8::1", ""},
		{"an address in brackets", "127.0.0.0/8", "X-Forwarded-For: [2001:db8::1],,", "X-Real-Ip: 2001:db8::1", ""},
		{"underscores", "10.0.0.0/8", "X_Forwarded_For: 1.2.3.4|x_real_ip: 1.2.3.4", "X-Real-Ip: 127.0.0.1", "1.2.3.4"},
		{"its own word", "127.0.0.0/8", "X-Real-Ip: 192.0.2.1|X-Forwarded-For: 192.0.2.7", "X-Real-Ip: 192.0.2.1", ""},
		{"the standard header", "127.0.0.0/8", "Host: 127.0.0.1|Forwarded: for=192.0.2.7;proto=https|Forwarded: for=x",
			`Forwarded: for=192.0.2.7;proto=https, for=x, for=127.0.0.1;host="127.0.0.1";proto=http`, ""},
		{"removed by name", "127.0.0.0/8", "Connection: X-Forwarded-For|X-Forwarded-For: 192.0.2.7",
			"X-Forwarded-For: 192.0.2.7, 127.0.0.1", ""},
		{"another peer", "10.0.0.0/8|::1/128", "X-Forwarded-For: 1.2.3.4|Forwarded: for=1.2.3.4|X-Real-Ip: 1.2.3.4|X-Forwarded-Proto: https",
			"X-Forwarded-For: 127.0.0.1|X-Real-Ip: 127.0.0.1|X-Forwarded-Proto: http", "1.2.3.4|https"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := proxying
			for _, p := range strings.Split(c.trusted, "|") {
				set.Proxy.TrustedFrom = append(set.Proxy.TrustedFrom, netip.MustParsePrefix(p))
			}
			r := start(t, set, newPool(t, "web", mirror(t)))
			p := r.do("GET", "/proxy/", "", strings.Split(c.headers, "|")...)
			p.has(t, strings.Split(c.has, "|")...)
			if c.lacks != "" {
				p.lacks(t, strings.Split(c.lacks, "|")...)
			}
		})
	}
}

// Of the clients of a unix socket nothing is known, so none is trusted.
func TestUnixClientsAreNoTrustedProxies(t *testing.T) {
	set := proxying
	set.Proxy.TrustedFrom = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	r := start(t, set, newPool(t, "web", mirror(t)))
	ln, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	r.serve(ln)
	c, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte(get("/proxy/", "X-Forwarded-For: 1.2.3.4", "Connection: close")))
	if text := wantStatus(t, c, 200); strings.Contains(text, "1.2.3.4") {
		t.Errorf("the backend saw the forged address:\n%s", text)
	}
}

package health_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"sluice/pool/health"
)

// serving reads the header of a request and sends text, then closes.
func serving(text string) func(net.Conn) error {
	return func(c net.Conn) error {
		_, err := http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, text)
		return err
	}
}

// lingering is serving for a server that does not close by itself.
func lingering(text string) func(net.Conn) error {
	return func(c net.Conn) error {
		if err := serving(text)(c); err != nil {
			return err
		}
		return untilEnd(c)
	}
}

func passes(status int) bool { return status == 200 || status == 401 }

func TestHTTP(t *testing.T) {
	big := strings.Repeat("x", 300_000)
	for name, c := range map[string]struct {
		serve func(net.Conn) error
		want  string // empty: passes
	}{
		"passes":                  {serving("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), ""},
		"passes with another":     {serving("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"), ""},
		"HTTP/1.0, no length":     {serving("HTTP/1.0 200 OK\r\n\r\n" + big), ""},
		"chunked":                 {serving("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), ""},
		"interim answers":         {serving("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), ""},
		"body never ends":         {lingering("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsome"), ""},
		"another status":          {serving("HTTP/1.1 503 Leave me alone\r\nContent-Length: 0\r\n\r\n"), "status 503 Service Unavailable"},
		"a redirect is an answer": {serving("HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"), "status 302 Found"},
		"unknown status":          {serving("HTTP/1.1 599 X\r\nContent-Length: 0\r\n\r\n"), "status 599"},
		"upgrade":                 {serving("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "status 101 Switching Protocols"},
		"interim for ever":        {serving(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 7)), "no HTTP answer: got more than 5 with a status below 200"},
		"no HTTP":                 {serving("-ERR unknown command\r\n"), `no HTTP answer: got "-ERR unknown command\r\n"`},
		"repeats what it got": {func(c net.Conn) error {
			_, err := io.CopyN(c, c, 37)
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c)
			return err
		}, `no HTTP answer: got "GET /healthz?*** HTTP/1.1\r\nHost:"`},
		"repeats it in a header": {serving("HTTP/1.1 200 OK\r\nhush\r\n\r\n"), `no HTTP answer: got malformed MIME header: missing colon: "***"`},
		"no HTTP, at length":     {serving("-ERR " + big + "\r\n"), `no HTTP answer: got "-ERR ` + strings.Repeat("x", 95) + `"...`},
		"a few bytes":            {serving("ok"), `no HTTP answer: got "ok"`},
		"almost HTTP":            {serving("HTTP/1.1 " + strings.Repeat("y", 200) + "\r\n"), `no HTTP answer: got malformed HTTP status code "` + strings.Repeat("y", 72) + "..."},
		"header without an end":  {serving("HTTP/1.1 200 OK\r\nX: " + big), "no HTTP answer: got a longer header than is read"},
		"half a header":          {serving("HTTP/1.1 200 OK\r\nX: y"), "no HTTP answer: got its end"},
		"silence":                {untilEnd, "no HTTP answer: got nothing more in time"},
		"ends at once":           {func(c net.Conn) error { _, err := http.ReadRequest(bufio.NewReader(c)); return err }, "no HTTP answer: got its end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verdict, end := probed(t, c.want, c.serve, func(d health.Dial) health.Probe {
				return health.HTTP(d, health.Request{Path: "/healthz?key=hush", Passes: passes})
			})
			wantVerdict(t, verdict, c.want)
			if end != nil {
				t.Errorf("the server saw %v, want an orderly end", end)
			}
		})
	}
}

// What is asked for: path and query as they are, and the host.
func TestHTTPRequest(t *testing.T) {
	for _, c := range []struct{ path, host, address, wantHost string }{
		{"/", "", "10.0.0.1:8080", "10.0.0.1:8080"},
		{"/healthz?deep=1&x=%20", "db.example:1", "10.0.0.1:8080", "db.example:1"},
		{"//two", "", "[fe80::1%eth0]:80", "[fe80::1]:80"},
		{"/", "", "unix:/run/x", "localhost"},
	} {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			asked := make(chan *http.Request, 1)
			address, _ := server(t, func(conn net.Conn) error {
				r, err := http.ReadRequest(bufio.NewReader(conn))
				asked <- r
				io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
				return err
			})
			probe := health.HTTP(at(address), health.Request{Path: c.path, Host: c.host, Passes: passes})
			if err := probe(t.Context(), health.Target{Address: c.address}); err != nil {
				t.Fatal(err)
			}
			r := <-asked
			got := fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Proto, " ", r.Host, " ", r.UserAgent(), " ", r.Close)
			want(t, "request", got, "GET "+c.path+" HTTP/1.1 "+c.wantHost+" sluice-probe true")
		})
	}
}

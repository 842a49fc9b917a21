//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"sluice/l4/header"
	"sluice/l4/l4test"
)

// strict is a web server that closes unless a PROXY header comes first, and soon.
// It tells connections of the balancer's own from those of clients.
type strict struct {
	*l4test.Backend
	own, clients, plain atomic.Int64
}

// soon is how long it waits for the header: the 100 ms of those that were seen.
const soon = 100 * time.Millisecond

func newStrict(t *testing.T) *strict {
	s := &strict{}
	s.Backend = l4test.Serve(t, s.serve)
	return s
}

func (s *strict) serve(c *net.TCPConn) {
	c.SetDeadline(time.Now().Add(soon))
	in := bufio.NewReader(c)
	var told header.Header
	for n, verdict := 1, header.More; verdict != header.Whole; n++ {
		p, err := in.Peek(n)
		if err == nil {
			told, verdict = header.Read(p)
		}
		if err != nil || verdict == header.None {
			s.plain.Add(1)
			c.SetLinger(0)
			return
		}
	}
	in.Discard(told.Size)
	if told.Source.IsValid() {
		s.clients.Add(1)
	} else {
		s.own.Add(1)
	}
	c.SetDeadline(time.Now().Add(patience))
	if _, err := http.ReadRequest(in); err == nil {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	}
}

// B156: a backend behind send_proxy gets the header from probes as well, as the
// balancer's own, and so from /proxy; so it stays up, and can tell them from
// clients. The key is live.
func TestProbesBeginWithAHeader(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		for probe, health := range map[string]string{"tcp": `probe = "tcp"`, "http": `probe = "http"`, "ask": `send = "GET / HTTP/1.0\r\n\r\n"` + "\nexpect = \"200\""} {
			t.Run(version+" "+probe, func(t *testing.T) {
				t.Parallel()
				s := newStrict(t)
				text := func(keys string) string {
					return head + frontendText("web", free, "p") + probedPool(keys, health+"\nfall = 2", "A="+s.Addr)
				}
				on := fmt.Sprintf("send_proxy = %q", version)
				d := startDaemon(t, text(on))
				eventually(t, "some probes", func() bool { return s.own.Load() >= 4 })
				if b := d.backend("p", "A"); b.State != "up" || b.ProbeFailures != 0 || s.clients.Load() != 0 || s.plain.Load() != 0 {
					t.Errorf("%+v; %d clients, %d without a header", b, s.clients.Load(), s.plain.Load())
				}
				res, err := adminClient.Get("http://" + d.frontend("web").Listen + "/")
				if err != nil || res.StatusCode != 200 || s.clients.Load() != 1 {
					t.Errorf("a client got %v, %v; the backend saw %d clients", res, err, s.clients.Load())
				}
				if status, body := d.ask("GET", "/proxy/", ""); status != 200 || body != "ok" || s.clients.Load() != 1 {
					t.Errorf("/proxy answers %d %q; the backend saw %d clients", status, body, s.clients.Load())
				}
				if probe == "tcp" {
					return // which looks for no answer
				}
				d.mustReload(text(""))
				d.awaitState("p", "A", "down")
				d.mustReload(text(on))
				d.awaitState("p", "A", "up")
			})
		}
	}
}

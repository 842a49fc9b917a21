package health

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Request is what an [HTTP] probe asks for.
type Request struct {
	Path   string // in the form of a request line, query included
	Host   string // the Host header; empty is the address probed
	Passes func(status int) bool
}

// HTTP returns a probe that connects, asks for r with GET, and passes if the
// status does. It follows no redirect and its verdict does not wait for the
// body. It closes as [TCP] does.
func HTTP(dial Dial, r Request) Probe {
	return func(ctx context.Context, t Target) error {
		c, err := dial(ctx, t)
		if err != nil {
			return err
		}
		err = within(ctx, c, func() error { return r.talk(c, t) })
		Afterwards(ctx, func(ctx context.Context) { part(ctx, c, hearAll) })
		return err
	}
}

func (r Request) talk(c net.Conn, t Target) error {
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: sluice-probe\r\nAccept: */*\r\nConnection: close\r\n\r\n",
		r.Path, r.host(t.Address))
	if err != nil {
		return fmt.Errorf("nothing could be sent: %s", Ending(err))
	}
	status, err := r.readStatus(c)
	if err != nil {
		return err
	}
	if !r.Passes(status) {
		return fmt.Errorf("status %s", strings.TrimSpace(fmt.Sprint(status, " ", http.StatusText(status))))
	}
	return nil
}

// host is the address as a browser would write it: a zone means something on
// this machine alone, and a unix socket has no name.
func (r Request) host(address string) string {
	switch {
	case r.Host != "":
		return r.Host
	case strings.HasPrefix(address, "unix:"):
		return "localhost"
	}
	host, zone, ok := strings.Cut(address, "%")
	if !ok {
		return address
	}
	_, port, _ := strings.Cut(zone, "]")
	return host + "]" + port
}

// interim is how many answers of the kind 1xx may precede the real one. Chosen:
// what Go's own client allows.
const interim = 5

// readStatus returns the status of the answer, whose header must be whole.
func (r Request) readStatus(c net.Conn) (int, error) {
	bounded := &io.LimitedReader{R: c, N: longestAnswer}
	in := bufio.NewReader(bounded)
	if err := r.startsAsHTTP(in); err != nil {
		return 0, err
	}
	for range interim + 1 {
		a, err := http.ReadResponse(in, nil)
		switch {
		case err != nil && bounded.N == 0:
			return 0, errors.New("no HTTP answer: got a longer header than is read")
		case err != nil:
			return 0, fmt.Errorf("no HTTP answer: got %s", r.beginning(Ending(err)))
		case a.StatusCode >= 200 || a.StatusCode == http.StatusSwitchingProtocols:
			return a.StatusCode, nil
		}
	}
	return 0, fmt.Errorf("no HTTP answer: got more than %d with a status below 200", interim)
}

// startsAsHTTP shows what a server of another protocol says, without the query if
// it repeats it: there may be a key in that.
func (r Request) startsAsHTTP(in *bufio.Reader) error {
	const start = "HTTP/"
	head, err := in.Peek(len(start))
	switch {
	case err == nil && string(head) == start:
		return nil
	case len(head) == 0:
		return fmt.Errorf("no HTTP answer: got %s", Ending(err))
	}
	head, _ = in.Peek(in.Buffered())
	return fmt.Errorf("no HTTP answer: got %s", quote(r.masked(head)))
}

// masked hides the query in an answer.
func (r Request) masked(answer []byte) []byte {
	_, query, _ := strings.Cut(r.Path, "?")
	return masked(answer, []byte(query))
}

// beginning cuts an error that may quote all of an answer.
func (r Request) beginning(s string) string {
	s = string(r.masked([]byte(s)))
	if len(s) > mostEvidence {
		return s[:mostEvidence] + "..."
	}
	return s
}

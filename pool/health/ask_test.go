package health_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/pool"
	"sluice/pool/health"
)

// answering reads a line and answers it in parts, then reads until the end.
func answering(parts ...string) func(net.Conn) error {
	return func(c net.Conn) error {
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			return err
		}
		return saying(parts...)(c)
	}
}

// saying sends parts, each in a segment of its own, then reads until the end.
func saying(parts ...string) func(net.Conn) error {
	return func(c net.Conn) error {
		for i, part := range parts {
			if i > 0 {
				<-time.After(5 * time.Millisecond)
			}
			if _, err := io.WriteString(c, part); err != nil {
				return err
			}
		}
		return untilEnd(c)
	}
}

// closing does what serve does and closes without waiting for the client.
func closing(text string) func(net.Conn) error {
	return func(c net.Conn) error {
		_, err := bufio.NewReader(c).ReadString('\n')
		io.WriteString(c, text)
		return err
	}
}

// endless sends for ever.
func endless(text string) func(net.Conn) error {
	return func(c net.Conn) error {
		for {
			if _, err := io.WriteString(c, text); err != nil {
				return err
			}
		}
	}
}

// probed probes a server once and returns the verdict and how the server saw it
// end. Only a verdict that is to come with the timeout has a short one.
func probed(t *testing.T, expected string, serve func(net.Conn) error, probe func(health.Dial) health.Probe) (verdict, end error) {
	t.Helper()
	address, ends := server(t, serve)
	timeout := time.Minute
	if strings.HasSuffix(expected, "in time") {
		timeout = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	verdict = probe(dial)(ctx, health.Target{Address: address})
	return verdict, <-ends
}

// B071: a port that is open says nothing; the answer does. The error has what
// came instead, and never what was sent.
func TestAsk(t *testing.T) {
	const send = "AUTH hunter22\r\n"
	for name, c := range map[string]struct {
		serve        func(net.Conn) error
		send, expect string
		want         string // empty: passes
	}{
		"as expected":     {answering("+PONG\r\n"), "PING\r\n", `^\+PONG`, ""},
		"in three parts":  {answering("+", "PO", "NG\r\n"), "PING\r\n", `^\+PONG`, ""},
		"byte by byte":    {answering(strings.Split("a long greeting +PONG", "")...), "PING\r\n", `\+PONG$`, ""},
		"greeting alone":  {saying("220 ready\r\n"), "", `^220`, ""},
		"no line end":     {answering("ok"), "x\n", `ok`, ""},
		"not valid UTF-8": {answering("\xff\xfe\x00ok"), "x\n", `(?s)^..\x00ok`, ""},
		"then its end":    {closing("+PONG\r\n"), "PING\r\n", `PONG`, ""},
		"sent alone":      {answering("whatever"), "x\n", ``, ""},

		"something else":       {answering("-ERR loading\r\n"), "PING\r\n", `^\+PONG`, `expected "^\\+PONG", got "-ERR loading\r\n", then nothing more in time`},
		"something else, ends": {closing("-ERR loading"), "PING\r\n", `^\+PONG`, `expected "^\\+PONG", got "-ERR loading", then its end`},
		"silence":              {untilEnd, "PING\r\n", `P`, `expected "P", got nothing more in time`},
		"ends at once":         {closing(""), "PING\r\n", `P`, `expected "P", got its end`},
		"an end is no answer":  {closing(""), "PING\r\n", ``, ""},
		"empty is no answer":   {closing(""), "PING\r\n", `.*`, `expected ".*", got its end`},
		"repeats what it got":  {answering("-ERR 'hunter22' of hunter22, AUTH\r\n"), send, `OK`, `expected "OK", got "-ERR '***' of ***, ***\r\n", then nothing more in time`},
		"a word in a longer":   {answering("-ERR PASSword\r\n"), "PASS PASSword\r\n", `OK`, `expected "OK", got "-ERR ***\r\n", then nothing more in time`},
		"repeats a part":       {answering("-ERR hunter22\r\n"), "AUTH me:hunter22\r\n", `OK`, `expected "OK", got "-ERR ***\r\n", then nothing more in time`},
		"much":                 {answering(strings.Repeat("x", 101)), "x\n", `y`, `expected "y", got "` + strings.Repeat("x", 100) + `"..., then nothing more in time`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verdict, end := probed(t, c.want, c.serve, func(d health.Dial) health.Probe {
				var expect *regexp.Regexp
				if c.expect != "" {
					expect = regexp.MustCompile(c.expect)
				}
				return health.Ask(d, []byte(c.send), expect)
			})
			wantVerdict(t, verdict, c.want)
			if end != nil {
				t.Errorf("the server saw %v, want an orderly end", end)
			}
		})
	}
}

func wantVerdict(t *testing.T, got error, want string) {
	t.Helper()
	switch {
	case got == nil && want == "":
	case got == nil || want == "":
		t.Errorf("got %v, want %q", got, want)
	case got.Error() != want:
		t.Errorf("got %q, want %q", got, want)
	}
}

// A server that never ends is given up after a bounded read, before the timeout.
func TestAskReadsWithinBounds(t *testing.T) {
	t.Parallel()
	address, _ := server(t, endless("some text\n"))
	counted := new(countedConn)
	probe := health.Ask(func(ctx context.Context, t health.Target) (c net.Conn, err error) {
		counted.Conn, err = dial(ctx, t)
		return counted, err
	}, nil, regexp.MustCompile("other"))
	err := probe(t.Context(), health.Target{Address: address})
	if err == nil || !strings.HasSuffix(err.Error(), `"..., then more than is read`) {
		t.Errorf("got %v", err)
	}
	// the answer, and what a polite end waits for
	if got := counted.read.Load(); got < 64<<10 || got > 64<<10+1<<20 {
		t.Errorf("got %d bytes read", got)
	}
}

type countedConn struct {
	net.Conn
	read atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func TestAskTellsOfAReset(t *testing.T) {
	t.Parallel()
	verdict, _ := probed(t, "", func(c net.Conn) error {
		bufio.NewReader(c).ReadString('\n')
		return c.(*net.TCPConn).SetLinger(0)
	}, func(d health.Dial) health.Probe { return health.Ask(d, []byte("PING\n"), regexp.MustCompile("P")) })
	want[error](t, "verdict", verdict, errors.New(`expected "P", got read: connection reset by peer`))
}

func TestAskFailsIfTheDialDoes(t *testing.T) {
	fault := errors.Join(health.ErrNoEvidence, syscall.EMFILE)
	probe := health.Ask(func(context.Context, health.Target) (net.Conn, error) { return nil, fault }, nil, nil)
	if err := probe(t.Context(), health.Target{Address: "a:1"}); !errors.Is(err, health.ErrNoEvidence) {
		t.Errorf("got %v", err)
	}
}

// B071: a service that is not ready is down, and up as soon as it is.
func TestAskUnderAMonitor(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	address, ends := server(t, func(c net.Conn) error {
		if ready.Load() {
			return answering("+", "PONG", "\r\n")(c)
		}
		return answering("-ERR ", "loading\r\n")(c)
	})
	p := pool.New("p", config(t, pool.InitProbe, []string{address}), pool.Hooks{})
	defer p.Close()
	every := 20 * time.Millisecond
	pol := health.Policy{Interval: every, DownInterval: every, Timeout: 500 * time.Millisecond, Rise: 1, Fall: 3}
	runs(t, health.NewMonitor(p, health.Ask(dial, []byte("PING\r\n"), regexp.MustCompile(`^\+PONG`)), pol, nil))
	b := p.Probed()[0]
	eventually(t, "down", func() bool { return b.Health() == pool.Down })
	if got := p.Status().Backends[0].LastChange.Reason; !strings.Contains(got, `got "-ERR loading\r\n"`) {
		t.Errorf("got reason %s", got)
	}
	ready.Store(true)
	eventually(t, "up", func() bool { return b.Health() == pool.Up })
	for range len(ends) {
		if err := <-ends; err != nil {
			t.Errorf("the server saw %v, want an orderly end", err)
		}
	}
}

// runs runs m until the test ends.
func runs(t *testing.T, m *health.Monitor) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

// eventually waits until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for late := time.Now().Add(20 * time.Second); !f(); <-time.After(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s has not come true", what)
		}
	}
}

package redis

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pool/health"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Quiet()
	goleak.VerifyTestMain(m)
}

// fake is a server that answers commands by their name, and keeps all that it was
// told, one command a line.
type fake struct {
	address string
	mu      sync.Mutex // guards the rest
	told    []string
	conns   int
}

const (
	asMaster = "role:master\r\nconnected_slaves:0\r\n"
	asSlave  = "role:slave\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:1\r\nmaster_sync_in_progress:0\r\n"
	loaded   = "loading:0\r\n"
)

// serve starts a fake. What answer gives for a command is the whole answer; "" is
// the ordinary one, "-" none, "end" the end of the connection.
func serve(t *testing.T, answer func(command string) string) *fake {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{address: ln.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns++
			f.mu.Unlock()
			running.Go(func() { defer c.Close(); f.talk(c, answer) })
		}
	})
	t.Cleanup(func() { ln.Close(); running.Wait() })
	return f
}

func (f *fake) talk(c net.Conn, answer func(string) string) {
	for in := bufio.NewReader(c); ; {
		command, err := readCommand(in)
		f.mu.Lock()
		f.told = append(f.told, command)
		f.mu.Unlock()
		if err != nil {
			return
		}
		text := answer(command)
		if text == "" {
			text = ordinary(command)
		}
		switch text {
		case "end":
			return
		case "-":
		default:
			io.WriteString(c, text)
		}
	}
}

func ordinary(command string) string {
	switch strings.ToLower(command) {
	case "ping":
		return "+PONG\r\n"
	case "info replication":
		return bulk(asMaster)
	case "info persistence":
		return bulk(loaded)
	}
	if strings.HasPrefix(command, "hello") {
		return "*2\r\n$5\r\nproto\r\n:2\r\n"
	}
	return "-ERR unknown command '" + command + "'\r\n"
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// readCommand reads an array of bulk strings. At the end of the stream it says how
// that was.
func readCommand(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return fmt.Sprint("(", err, ")"), err
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	words := make([]string, n)
	for i := range words {
		in.ReadString('\n')
		word, _ := in.ReadString('\n')
		words[i] = strings.TrimSpace(word)
	}
	return strings.Join(words, " "), err
}

func dial(ctx context.Context, t health.Target) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", t.Address)
}

func (f *fake) probe(ctx context.Context, o Options) error {
	return Probe(dial, o)(ctx, health.Target{Address: f.address})
}

// All that is said is what the documentation says, and the end is an end.
func TestWhatIsSaid(t *testing.T) {
	for want, o := range map[string]Options{
		"hello 2|ping|info replication|info persistence|(EOF)":                        {},
		"hello 2 auth default secret|ping|info replication|info persistence|(EOF)":    {Password: "secret"},
		"hello 2 auth sluice a secret|ping|info replication|info persistence|(EOF)":   {User: "sluice", Password: "a secret"},
		"hello 2 auth sluice \"quote|ping|info replication|info persistence|(EOF)":    {User: "sluice", Password: "\"quote"},
		"hello 2 auth default \u00e9|ping|info replication|info persistence|(EOF)":    {Password: "\u00e9"},
		"hello 2 auth default primary|ping|info replication|info persistence|(EOF)":   {Password: "primary", Role: "primary"},
		"hello 2|ping|info replication|info persistence|(EOF)|hello 2|ping|info repl": {},
	} {
		f := serve(t, func(string) string { return "" })
		if err := f.probe(t.Context(), o); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if strings.HasSuffix(want, "repl") { // the second probe is like the first
			f.heard(t, 5)
			if err := f.probe(t.Context(), o); err != nil {
				t.Errorf("%s: %v", want, err)
			}
			if got := f.heard(t, 10); !strings.HasPrefix(got, want) || f.connections() != 2 {
				t.Errorf("got %q on %d connections", got, f.connections())
			}
			continue
		}
		if got := f.heard(t, 5); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func (f *fake) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns
}

// heard waits until f was told so much, and returns all of it.
func (f *fake) heard(t *testing.T, n int) string {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		f.mu.Lock()
		told := strings.Join(f.told, "|")
		enough := len(f.told) >= n
		f.mu.Unlock()
		if enough {
			return told
		}
	}
	t.Fatalf("got %q, want %d commands", f.told, n)
	return ""
}

// What a server answers decides, and the reason says what that was.
func TestAnswers(t *testing.T) {
	const link = "is a replica without a link to its primary"
	slaves := func(all ...string) string {
		text := fmt.Sprintf("role:master\r\nconnected_slaves:%d\r\n", len(all))
		for i, s := range all {
			text += fmt.Sprintf("slave%d:ip=127.0.0.1,port=1,%s\r\n", i, s)
		}
		return text
	}
	const online0, online9, syncing = "state=online,offset=1,lag=0", "state=online,offset=1,lag=9", "state=wait_bgsave,offset=0,lag=0"
	for name, c := range map[string]struct {
		o           Options
		replication string
		want        string // part of the reason; empty: fit
	}{
		"any, primary":            {Options{Role: "any"}, asMaster, ""},
		"any, replica":            {Options{Role: "any"}, asSlave, ""},
		"any, no link":            {Options{Role: "any"}, "role:slave\r\nmaster_link_status:down\r\n", ""},
		"any, lag, no link":       {Options{Role: "any", MaxLag: time.Second}, "role:slave\r\nmaster_link_status:down\r\n", link},
		"primary":                 {Options{Role: "primary"}, asMaster, ""},
		"no primary":              {Options{Role: "primary"}, asSlave, "is a replica, and a primary is wanted"},
		"replica":                 {Options{Role: "replica"}, asSlave, ""},
		"no replica":              {Options{Role: "replica"}, asMaster, "is a primary, and a replica is wanted"},
		"a sentinel":              {Options{}, "", "does not say whether it is a primary or a replica"},
		"a role of its own":       {Options{}, "role:sentinel\r\n", "does not say whether"},
		"link down":               {Options{Role: "replica"}, "role:slave\r\nmaster_link_status:down\r\nmaster_link_down_since_seconds:7\r\n", link + " for 7s"},
		"link never up":           {Options{Role: "replica"}, "role:slave\r\nmaster_link_status:down\r\nmaster_link_down_since_seconds:-1\r\n", link},
		"in sync":                 {Options{Role: "replica"}, "role:slave\r\nmaster_link_status:down\r\nmaster_sync_in_progress:1\r\n", "still copies the data of its primary"},
		"near":                    {Options{Role: "replica", MaxLag: time.Second}, asSlave, ""},
		"far":                     {Options{Role: "replica", MaxLag: 999 * time.Millisecond}, asSlave, "lags 1s, more than 999ms"},
		"of unknown lag":          {Options{Role: "replica", MaxLag: time.Second}, "role:slave\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:-1\r\n", "does not say how far it lags"},
		"enough replicas":         {Options{Role: "primary", MinReplicas: 2}, slaves(online0, online9), ""},
		"too few replicas":        {Options{Role: "primary", MinReplicas: 3}, slaves(online0, online9), "2 replicas are online, and 3 are wanted"},
		"too few, role any":       {Options{Role: "any", MinReplicas: 1}, asMaster, "0 replicas are online, and 1 are wanted"},
		"one is in sync":          {Options{Role: "primary", MinReplicas: 2}, slaves(online0, syncing), "1 replicas are online, and 2 are wanted"},
		"one lags":                {Options{Role: "primary", MinReplicas: 2, MaxLag: 5 * time.Second}, slaves(online9, online0), "1 replicas are online and lag at most 5s, and 2 are wanted"},
		"none lags too far":       {Options{Role: "primary", MinReplicas: 2, MaxLag: 9 * time.Second}, slaves(online9, online0), ""},
		"keys that begin alike":   {Options{Role: "primary", MinReplicas: 1}, asMaster + "slave_expires:state=online\r\nslave:state=online\r\n", "0 replicas"},
		"replicas of a replica":   {Options{Role: "replica", MinReplicas: 1}, asSlave, ""},
		"without ends of lines":   {Options{Role: "primary"}, "role:master", ""},
		"with other sections too": {Options{Role: "primary"}, "# Replication\r\n\r\n" + asMaster + "# CPU\r\nx:y:z\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, func(command string) string {
				if command == "info replication" {
					return bulk(c.replication)
				}
				return ""
			})
			checkReason(t, f.probe(t.Context(), c.o), c.want)
		})
	}
}

func checkReason(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want that it is fit", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %q in it", err, want)
	case errors.Is(err, health.ErrNoEvidence):
		t.Errorf("%v counts for nothing", err)
	}
}

// What a server refuses is the reason, without the password that it may repeat.
func TestRefusals(t *testing.T) {
	const secret = "the-password"
	refuse := func(command, text string) func(string) string {
		return func(c string) string {
			if strings.HasPrefix(c, command) {
				return text + "\r\n"
			}
			return ""
		}
	}
	for name, c := range map[string]struct {
		answer func(string) string
		want   string
	}{
		"no login":       {refuse("", "-NOAUTH Authentication required."), "NOAUTH Authentication required."},
		"no right":       {refuse("info", "-NOPERM this user has no permissions to run the 'info' command"), "NOPERM this user has no permissions to run the 'info' command"},
		"no ping":        {refuse("ping", "-NOPERM no"), "PING: NOPERM no"},
		"cannot save":    {refuse("ping", "-MISCONF Errors writing to the AOF file"), "PING: MISCONF Errors writing to the AOF file"},
		"masterdown":     {refuse("ping", "-MASTERDOWN Link with MASTER is down"), "PING: MASTERDOWN"},
		"loading":        {refuse("info persistence", "$9\r\nloading:1"), "is loading its data"},
		"one word back":  {refuse("info", "-ERR bad "+secret+" "+strings.Repeat("x", 500)), "ERR bad *** xxx"},
		"full":           {refuse("", "-ERR max number of clients reached"), "ERR max number of clients reached"},
		"another server": {refuse("", "HTTP/1.1 400 Bad Request"), "HTTP/1.1 400 Bad Request"},
		"a wrong type":   {refuse("info", ":1"), "does not say whether"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := serve(t, c.answer).probe(t.Context(), Options{Password: secret})
			checkReason(t, err, c.want)
			if err != nil && (strings.Contains(err.Error(), secret) || len(err.Error()) > 300) {
				t.Errorf("got %q", err)
			}
		})
	}
}

// A server that is full says so to HELLO and ends the connection; what comes of that
// is not the reason.
func TestFull(t *testing.T) {
	ended := make(chan struct{})
	f := serve(t, func(command string) string {
		if strings.HasPrefix(command, "hello") {
			return "-ERR max number of clients reached\r\n"
		}
		<-ended
		return "end"
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	defer close(ended)
	checkReason(t, f.probe(ctx, Options{Password: "secret"}), `no answer: got "ERR max number of clients", and then `)
}

// A server that knows no HELLO is older, and asked for less.
func TestOldServer(t *testing.T) {
	old := func(right string) func(string) string {
		return func(c string) string {
			switch {
			case strings.HasPrefix(c, "hello"):
				return "-ERR unknown command `hello`, with args beginning with: `2`, `auth`, `default`, `secret`\r\n"
			case c == "auth "+right:
				return "+OK\r\n"
			case strings.HasPrefix(c, "auth"):
				return "-ERR invalid password\r\n"
			}
			return ""
		}
	}
	checkReason(t, serve(t, old("secret")).probe(t.Context(), Options{Password: "secret"}), "")
	checkReason(t, serve(t, old("")).probe(t.Context(), Options{}), "")
	checkReason(t, serve(t, old("other")).probe(t.Context(), Options{Password: "secret"}), "ERR invalid password")
}

// A probe ends with its time, and at once when nobody wants it any more.
func TestSilence(t *testing.T) {
	for _, at := range []string{"hello", "ping", "info persistence"} {
		f := serve(t, func(command string) string { return map[bool]string{true: "-"}[strings.HasPrefix(command, at)] })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		checkReason(t, f.probe(ctx, Options{}), "no answer: got nothing more in time")
		cancel()
		told := 1
		for ; !strings.HasSuffix(f.heard(t, told), ")"); told++ { // the first has ended
		}

		ctx, cancel = context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.probe(ctx, Options{}) }()
		f.heard(t, told+1)
		cancel()
		if err := <-ended; err == nil {
			t.Errorf("%s: fit, though nobody waited for it", at)
		}
	}
}

// What ends or cannot be reached is a reason; what fails for want of something of
// ours is none.
func TestNoConnection(t *testing.T) {
	f := serve(t, func(string) string { return "-" })
	cut := Probe(func(ctx context.Context, target health.Target) (net.Conn, error) {
		c, err := dial(ctx, target)
		if err == nil {
			c.(*net.TCPConn).CloseRead()
		}
		return c, err
	}, Options{})
	checkReason(t, cut(t.Context(), health.Target{Address: f.address}), "no answer: got its end")

	for _, at := range []string{"hello", "ping", "info replication", "info persistence"} {
		f := serve(t, func(command string) string { return map[bool]string{true: "end"}[strings.HasPrefix(command, at)] })
		checkReason(t, f.probe(t.Context(), Options{}), "no answer: got ")
		if n := f.connections(); n != 1 {
			t.Errorf("%s: got %d connections, want one", at, n)
		}
	}

	want := fmt.Errorf("%w: no descriptors", health.ErrNoEvidence)
	failing := Probe(func(context.Context, health.Target) (net.Conn, error) { return nil, want }, Options{})
	if err := failing(t.Context(), health.Target{Address: f.address}); !errors.Is(err, health.ErrNoEvidence) {
		t.Errorf("got %v, want what the dial said", err)
	}
	checkReason(t, f.probe(t.Context(), Options{TLS: &tls.Config{}}), "TLS: ")
}

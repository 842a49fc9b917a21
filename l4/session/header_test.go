package session_test

import (
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"sluice/l4/access"
	"sluice/l4/session"
	"sluice/pool"
)

const (
	told    = "PROXY TCP4 198.51.100.9 203.0.113.1 1234 5432\r\n"
	unknown = "PROXY UNKNOWN\r\n"
)

// expecting returns a world whose client is to begin with a header. What Admit
// was asked is in asked.
func expecting(t testing.TB, mode session.HeaderMode, admit session.Cause) (w *world, asked *[]string) {
	t.Helper()
	w, asked = newWorld(t, "A", pool.Policy{}), new([]string)
	w.headers = session.HeaderRules{
		Mode: mode, Timeout: 5 * time.Second,
		From: access.NewSet([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}),
	}
	w.admit = func(a netip.Addr) session.Cause {
		*asked = append(*asked, a.String())
		return admit
	}
	w.start()
	return w, asked
}

// A client that is to begin with a header gets a backend behind it, whoever the
// header tells it is, and however its bytes come.
func TestHeaderBeforeTheSearch(t *testing.T) {
	const accept, require = session.AcceptHeaders, session.RequireHeaders
	for _, c := range []struct {
		name, sent, payload string
		mode                session.HeaderMode
		client              string // as it counts
		told                bool
		cause               session.Cause
	}{
		{"a header", told + "hello", "hello", require, "198.51.100.9:1234", true, ""},
		{"a header alone", told, "", accept, "198.51.100.9:1234", true, ""},
		{"a header that tells nobody", unknown + "hello", "hello", require, client.String(), false, ""},
		{"no header, and none is needed", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n", accept, client.String(), false, ""},
		{"half a header and something else", "PROXY TCPX", "PROXY TCPX", accept, client.String(), false, ""},
		{"no header", "GET / HTTP/1.1\r\n", "", require, client.String(), false, session.BadHeader},
	} {
		for cut := range len(c.sent) {
			w, asked := expecting(t, c.mode, "")
			if step := w.Next(w.now); step.Do != session.Header || !step.Deadline.Equal(w.now.Add(5*time.Second)) || w.Row(w.now).State != "header" || w.Admitted() {
				t.Fatalf("%s: the first step is %+v, the state %q", c.name, step, w.Row(w.now).State)
			}
			first, step := w.Header(w.now, []byte(c.sent[:cut]))
			payload := string(first)
			if step.Do == session.Header {
				rest, next := w.Header(w.after(time.Second), []byte(c.sent[cut:]))
				payload, step = string(rest), next
			} else {
				payload += c.sent[cut:] // the relay reads it
			}
			if c.cause != "" {
				if step.Do != session.End || w.Admitted() || len(*asked) != 0 {
					t.Fatalf("%s, cut at %d: got %+v, let in: %v", c.name, cut, step, w.Admitted())
				}
				if r := w.finish(); r.Cause != c.cause || !r.Cause.Rejected() || r.Code != "PR" {
					t.Fatalf("%s, cut at %d: record %+v", c.name, cut, r)
				}
				continue
			}
			if step.Do != session.Dial || payload != c.payload || !w.Admitted() {
				t.Fatalf("%s, cut at %d: got %+v, payload %q, let in: %v", c.name, cut, step, payload, w.Admitted())
			}
			who := netip.MustParseAddrPort(c.client)
			if len(*asked) != 1 || (*asked)[0] != who.Addr().String() {
				t.Fatalf("%s, cut at %d: asked whether %v may come in, want %s", c.name, cut, *asked, who)
			}
			source, destination, ok := w.Announced()
			if ok != c.told || ok && (source != who || destination.String() != "203.0.113.1:5432") {
				t.Fatalf("%s: announced %v to %v, %v", c.name, source, destination, ok)
			}
			w.connect()
			w.Moved(w.now, session.Client, 10)
			if got, want := w.Received(session.Client), 10+int64(len(c.sent)-len(c.payload)); got != want {
				t.Fatalf("%s: received %d bytes, want %d", c.name, got, want)
			}
			row, peer := w.Row(w.now), netip.AddrPort{}
			if c.told {
				peer = client
			}
			r := w.finish()
			if row.Client != who || row.Peer != peer || r.Client != who || r.Peer != peer || r.ToBackend != 10 {
				t.Fatalf("%s: row of %v by %v, record of %v by %v with %d bytes", c.name, row.Client, row.Peer, r.Client, r.Peer, r.ToBackend)
			}
		}
	}
}

// What does not come in time, and an end of stream, decide as the mode says.
func TestHeaderThatDoesNotCome(t *testing.T) {
	for _, c := range []struct {
		mode   session.HeaderMode
		sent   string
		err    error
		refuse session.Cause
		code   string
	}{
		{session.RequireHeaders, "", os.ErrDeadlineExceeded, session.HeaderTimeout, "cR"},
		{session.RequireHeaders, "PROXY TCP4 1", os.ErrDeadlineExceeded, session.HeaderTimeout, "cR"},
		{session.RequireHeaders, "PROXY TCP4 1", nil, session.BadHeader, "PR"},
		{session.AcceptHeaders, "", os.ErrDeadlineExceeded, "", ""},
		{session.AcceptHeaders, "PROXY TCP4 1", os.ErrDeadlineExceeded, "", ""},
		{session.AcceptHeaders, "PROXY TCP4 1", nil, "", ""},
	} {
		w, _ := expecting(t, c.mode, "")
		w.Header(w.now, []byte(c.sent))
		payload, step := w.NoHeader(w.after(5*time.Second), c.err)
		if c.refuse == "" {
			if step.Do != session.Dial || string(payload) != c.sent {
				t.Errorf("%+v: got %+v, payload %q", c, step, payload)
			}
			w.Gone(w.now)
		}
		r := w.finish()
		if c.refuse != "" && (step.Do != session.End || r.Cause != c.refuse || r.Code != c.code) {
			t.Errorf("%+v: got %+v, then %+v", c, step, r)
		}
	}
}

// Who may not come in once its address is known gets no backend.
func TestHeaderOfSomebodyUnwelcome(t *testing.T) {
	for refuse, code := range map[session.Cause]string{session.Denied: "PR", session.ClientLimit: "PC", session.ClientRate: "PC"} {
		w, _ := expecting(t, session.AcceptHeaders, refuse)
		_, step := w.Header(w.now, []byte(told))
		if r := w.finish(); step.Do != session.End || w.Admitted() || r.Cause != refuse || r.Code != code || r.Client.Addr().String() != "198.51.100.9" {
			t.Errorf("%s: got %+v, record %+v", refuse, step, r)
		}
	}
}

// An order, or the client's reset, ends the wait. That is no refusal.
func TestEndsWhileTheHeaderIsAwaited(t *testing.T) {
	w, _ := expecting(t, session.RequireHeaders, "")
	w.Header(w.now, []byte("PRO"))
	if v := w.Asked(w.now, session.Killed); v != session.Cut {
		t.Errorf("killed: got %s", verbs[v])
	}
	if _, step := w.Header(w.now, []byte("XY")); step.Do != session.End {
		t.Errorf("bytes after the end: got %+v", step)
	}
	if r := w.finish(); r.Cause != session.Killed || r.Cause.Rejected() || w.Admitted() {
		t.Errorf("killed: record %+v", r)
	}
	for err, want := range map[error]string{nil: "client_left CC", syscall.ECONNRESET: "client_left CC", syscall.ENOBUFS: "local_fault RC"} {
		w, _ = expecting(t, session.AcceptHeaders, "")
		if err == nil {
			w.Gone(w.now)
		} else if payload, step := w.NoHeader(w.now, err); len(payload) > 0 || step.Do != session.End {
			t.Errorf("%v: got %+v, payload %q", err, step, payload)
		}
		if r := w.finish(); string(r.Cause)+" "+r.Code != want || w.Admitted() {
			t.Errorf("%v: record %+v, want %s", err, r, want)
		}
	}
}

// Who is not believed, and whoever comes to a frontend without headers, is looked
// a backend for at once. A unix socket's permissions say whom to believe.
func TestWhoIsToBeginWithAHeader(t *testing.T) {
	for _, c := range []struct {
		mode   session.HeaderMode
		peer   string
		expect bool
	}{
		{session.NoHeaders, "192.0.2.7", false},
		{session.NoHeaders, "", false},
		{session.AcceptHeaders, "192.0.2.7", true},
		{session.RequireHeaders, "192.0.2.7", true},
		{session.RequireHeaders, "192.0.3.7", false},
		{session.RequireHeaders, "", true},
	} {
		w, _ := expecting(t, c.mode, "")
		var peer netip.Addr
		if c.peer != "" {
			peer = netip.MustParseAddr(c.peer)
		}
		if got := w.headers.Expects(peer); got != c.expect {
			t.Errorf("mode %d, peer %q: expects a header: %v", c.mode, c.peer, got)
		}
	}
	w := newWorld(t, "A", pool.Policy{})
	w.start()
	if step := w.Next(w.now); step.Do != session.Dial || !w.Admitted() {
		t.Errorf("without the feature: got %+v", step)
	}
	w.Gone(w.now)
	w.finish()
}

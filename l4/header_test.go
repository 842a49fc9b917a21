package l4_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/l4"
	"sluice/l4/access"
	"sluice/l4/l4test"
	"sluice/l4/session"
)

// announced is a client that headers tell of.
const announced = "198.51.100.9:1234"

// vectors are headers, and whether they tell of announced or of nobody.
var vectors = []struct {
	name, text string
	tells      bool
}{
	{"v1 TCP4", "PROXY TCP4 198.51.100.9 203.0.113.1 1234 5432\r\n", true},
	{"v1 TCP6 of IPv4", "PROXY TCP6 ::ffff:198.51.100.9 ::ffff:203.0.113.1 1234 5432\r\n", true},
	{"v1 UNKNOWN", "PROXY UNKNOWN\r\n", false},
	{"v1 UNKNOWN with more", "PROXY UNKNOWN ::1 ::2 1 2\r\n", false},
	{"v2 TCP4", v2("\x21\x11\x00\x0c\xc6\x33\x64\x09\xcb\x00\x71\x01\x04\xd2\x15\x38"), true},
	{"v2 TCP4 with a TLV", v2("\x21\x11\x00\x12\xc6\x33\x64\x09\xcb\x00\x71\x01\x04\xd2\x15\x38\x04\x00\x03abc"), true},
	{"v2 TCP4, longer than its addresses", v2("\x21\x11\x00\x0f\xc6\x33\x64\x09\xcb\x00\x71\x01\x04\xd2\x15\x38xyz"), true},
	{"v2 TCP6", v2("\x21\x21\x00\x24" + mapped + "\xc6\x33\x64\x09" + mapped + "\xcb\x00\x71\x01\x04\xd2\x15\x38"), true},
	{"v2 UNIX", v2("\x21\x31\x00\xd8" + strings.Repeat("/", 216)), false},
	{"v2 UNSPEC", v2("\x21\x00\x00\x00"), false},
	{"v2 LOCAL of length 0", v2("\x20\x00\x00\x00"), false},
	{"v2 LOCAL of length 12", v2("\x20\x11\x00\x0c\xc6\x33\x64\x09\xcb\x00\x71\x01\x04\xd2\x15\x38"), false},
}

const mapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff"

func v2(rest string) string { return "\r\n\r\n\x00\r\nQUIT\n" + rest }

// headers are rules that believe everybody on loopback.
func headers(mode session.HeaderMode) session.HeaderRules {
	return session.HeaderRules{Mode: mode, From: set("127.0.0.0/8"), Timeout: time.Minute}
}

// behindProxy is a setup whose clients may begin with a header, in front of an
// echo.
func behindProxy(t *testing.T, rules session.HeaderRules) setup {
	return setup{specs: specs(l4test.Serve(t, l4test.Echo).Addr), admission: l4.Admission{Headers: rules}}
}

// converse sends text in parts and checks that payload, and nothing else, is
// echoed.
func converse(t *testing.T, r *rig, payload string, parts ...string) session.Record {
	t.Helper()
	c := r.dial()
	c.SetNoDelay(true)
	for i, part := range parts {
		if i > 0 && part != "" { // so that the parts are not one segment
			<-time.After(time.Millisecond)
		}
		if _, err := io.WriteString(c, part); err != nil {
			t.Fatal(err)
		}
	}
	c.CloseWrite()
	got, err := io.ReadAll(c)
	if err != nil || string(got) != payload {
		t.Fatalf("%q: got %q, then %v; want %q", parts, got, err, payload)
	}
	rec := r.mustEnd(session.ClientClosed, "--", int64(len(payload)), int64(len(payload)))
	if who := c.LocalAddr().(*net.TCPAddr).AddrPort(); rec.Peer.IsValid() && rec.Peer != who || !rec.Peer.IsValid() && rec.Client != who {
		t.Errorf("%q: the record tells of %v by %v, the socket's peer is %v", parts, rec.Client, rec.Peer, who)
	}
	c.Close()
	return rec
}

// B152: every kind of header tells who the client is, or that it is the peer
// itself, and what comes with it in one segment is payload.
func TestHeadersThatComeIn(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, mode := range []session.HeaderMode{session.AcceptHeaders, session.RequireHeaders} {
			r := start(t, behindProxy(t, headers(mode)))
			for _, v := range vectors {
				for _, payload := range []string{"", "hello", v.text, strings.Repeat("0123456789", 10_000)} {
					rec := converse(t, r, payload, v.text+payload)
					if told := rec.Peer.IsValid(); told != v.tells || told && rec.Client.String() != announced {
						t.Errorf("%s: client %v, peer %v", v.name, rec.Client, rec.Peer)
					}
				}
			}
		}
	})
}

// B154: a header may come in parts, cut anywhere.
func TestHeaderInParts(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, behindProxy(t, headers(session.RequireHeaders)))
		const payload = "hello"
		for _, v := range vectors {
			whole := v.text + payload
			step := 1
			if len(whole) > 100 {
				step = 7
			}
			for cut := 1; cut < len(whole); cut += step {
				if rec := converse(t, r, payload, whole[:cut], whole[cut:]); rec.Peer.IsValid() != v.tells {
					t.Errorf("%s cut at %d: client %v, peer %v", v.name, cut, rec.Client, rec.Peer)
				}
			}
			if len(whole) > 100 {
				continue
			}
			if rec := converse(t, r, payload, strings.Split(whole, "")...); rec.Peer.IsValid() != v.tells {
				t.Errorf("%s byte by byte: client %v, peer %v", v.name, rec.Client, rec.Peer)
			}
		}
	})
}

// Where a header is taken if it comes, other first bytes are payload: those of
// peers that are not believed always, also if they look like a header.
func TestWithoutAHeader(t *testing.T) {
	const looksLikeOne = "PROXY TCP4 198.51.100.9 203.0.113.1 1234 5432\r\n"
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, behindProxy(t, headers(session.AcceptHeaders)))
		stranger := headers(session.AcceptHeaders)
		stranger.From = set("10.0.0.0/8")
		disbelieving := start(t, behindProxy(t, stranger))
		off := start(t, behindProxy(t, headers(session.NoHeaders)))
		for _, text := range []string{
			"GET / HTTP/1.1\r\n\r\n", "\r\n\r\n\x00\r\nQUIET", "PROXY TCP4 nobody\r\n", "PROXY me\n", "P", "",
			"PROXY UNKNOWN " + strings.Repeat("f", 94), v2("\x21\x11\xff\xff"), strings.Repeat("x", 300_000),
		} {
			for cut := 0; cut <= min(len(text), 20); cut += 5 {
				converse(t, r, text, text[:cut], text[cut:])
			}
		}
		for _, r := range []*rig{disbelieving, off} {
			if rec := converse(t, r, looksLikeOne+"hello", looksLikeOne+"hello"); rec.Peer.IsValid() {
				t.Errorf("a header was believed: %v by %v", rec.Client, rec.Peer)
			}
		}
	})
}

// Where a header is required, who sends something else, ends before it is whole,
// or may send none, is reset, and leaves no record.
func TestHeaderIsRequired(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		b := l4test.Serve(t, l4test.Echo)
		s := setup{specs: specs(b.Addr), admission: l4.Admission{Headers: headers(session.RequireHeaders)}}
		r := start(t, s)
		refused := 0
		for _, text := range []string{
			"GET / HTTP/1.1\r\n\r\n", "PROXY TCP4 nobody\r\n", "PROXY UNKNOWN " + strings.Repeat("f", 94),
			v2("\x21\x13\x00\x00"), v2("\x21\x11\xff\xff"),
		} {
			r.mustTurnAway("127.0.0.1", text, "proxy_header")
			refused++
		}
		for _, text := range []string{"", "PROXY TCP4 198", "\r\n\r\n"} {
			c := r.dial()
			io.WriteString(c, text)
			c.CloseWrite()
			if _, err := io.ReadAll(c); ending(err) != "reset" {
				t.Errorf("%q and the end: the client saw %s", text, ending(err))
			}
			r.mustRefuse("proxy_header")
			refused++
		}
		s.admission.Headers.From = set("10.0.0.0/8")
		strict := start(t, s)
		strict.mustTurnAway("127.0.0.1", vectors[0].text, "proxy_header")
		st := r.front.Status()
		if b.Total() != 0 || st.Total != 0 || st.Active != 0 || st.Rejected != int64(refused) || len(r.records) != 0 {
			t.Errorf("%d reached the backend, %d records, status %+v", b.Total(), len(r.records), st)
		}
		for cause, n := range st.EndedBy {
			if n != 0 {
				t.Errorf("%d sessions are said to have ended with %s", n, cause)
			}
		}
	})
}

// Silence to the end of the header's time is a refusal where a header is required,
// and else the client speaks second.
func TestHeaderThatDoesNotComeInTime(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		rules := headers(session.RequireHeaders)
		rules.Timeout = 50 * time.Millisecond
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr), admission: l4.Admission{Headers: rules}})
		for _, text := range []string{"", "PROXY TCP4 198.51"} {
			c := r.dial()
			io.WriteString(c, text)
			if _, err := io.ReadAll(c); ending(err) != "reset" {
				t.Errorf("%q: the client saw %s", text, ending(err))
			}
			r.mustRefuse("proxy_header_timeout")
		}
		cfg := r.config
		cfg.Admission.Headers.Mode = session.AcceptHeaders
		r.front.Use(cfg)
		for _, text := range []string{"", "PROXY TCP4 198.51"} {
			c := r.dial()
			io.WriteString(c, text)
			if got := line(t, c); got != "A" {
				t.Errorf("%q: got %q", text, got)
			}
			if got := ask(t, c, "hello"); got != text+"hello" {
				t.Errorf("%q: got %q", text, got)
			}
		}
	})
}

// B149: the time for the header is over with the header.
func TestHeaderTimeoutEndsWithTheHeader(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		rules := headers(session.RequireHeaders)
		rules.Timeout = 300 * time.Millisecond
		r := start(t, behindProxy(t, rules))
		c := r.dial()
		if got := ask(t, c, vectors[0].text+"hello"); got != "hello" {
			t.Errorf("got %q", got)
		}
		<-time.After(3 * rules.Timeout)
		if got := ask(t, c, "still there?"); got != "still there?" {
			t.Errorf("got %q", got)
		}
	})
}

// B151: who keeps silent holds up nobody. B157: without the feature, and for whom
// no header is expected, the backend speaks first.
func TestSilentClientsHoldUpNobody(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, behindProxy(t, headers(session.RequireHeaders)))
		for range 50 {
			r.dial()
		}
		eventually(t, "50 clients are silent", func() bool { return r.front.Status().Active == 50 })
		c := r.dial()
		if got := ask(t, c, vectors[0].text+"hello"); got != "hello" {
			t.Errorf("got %q", got)
		}
		if st := r.front.Status(); st.Total != 1 {
			t.Errorf("%d sessions have begun, want that of the good client alone", st.Total)
		}
		rules := headers(session.AcceptHeaders)
		rules.From = set("10.0.0.0/8")
		for _, s := range []setup{{}, {admission: l4.Admission{Headers: rules}}} {
			s.specs = specs(l4test.Serve(t, l4test.Tag("A")).Addr)
			if got := line(t, start(t, s).dial()); got != "A" {
				t.Errorf("a client that waits for a greeting got %q", got)
			}
		}
	})
}

// The lists and the limits are about the client that the header tells of, and
// about the peer if it tells of none; a peer that is believed may be in any list.
func TestAdmissionByTheAnnouncedAddress(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		b := l4test.Serve(t, l4test.Echo)
		r := start(t, setup{specs: specs(b.Addr), admission: l4.Admission{
			Headers: headers(session.AcceptHeaders), Deny: set("127.0.0.1/32", "203.0.113.0/24"), PerClient: access.Limits{Sessions: 1},
		}})
		from := func(client string) string { return "PROXY TCP4 " + client + " 10.0.0.1 1234 5432\r\nhello\n" }
		turnAway := func(text, reason, client string) {
			t.Helper()
			c := r.dial()
			io.WriteString(c, text)
			if _, err := io.ReadAll(c); ending(err) != "reset" {
				t.Errorf("%q: the client saw %s", text, ending(err))
			}
			if who := r.mustRefuse(reason); who.Addr().String() != client {
				t.Errorf("%v was refused, want %s", who, client)
			}
		}
		turnAway(from("203.0.113.7"), "denied", "203.0.113.7")
		turnAway("PROXY UNKNOWN\r\n", "denied", "127.0.0.1")
		turnAway("GET / HTTP/1.1\r\n", "denied", "127.0.0.1")
		c := r.dial()
		io.WriteString(c, from("198.51.100.9"))
		if got := line(t, c); got != "hello" {
			t.Errorf("got %q", got)
		}
		turnAway(from("198.51.100.9"), "client_limit", "198.51.100.9")
		c2 := r.dial()
		io.WriteString(c2, from("198.51.100.10"))
		if got := line(t, c2); got != "hello" {
			t.Errorf("got %q", got)
		}
		for _, row := range r.sessions() {
			if row.Peer.Addr().String() != "127.0.0.1" || !strings.HasPrefix(row.Client.String(), "198.51.100.") {
				t.Errorf("the listing says %v by %v", row.Client, row.Peer)
			}
		}
		c.Close()
		c2.Close()
		r.record()
		r.record()
		c = r.dial()
		io.WriteString(c, from("198.51.100.9"))
		if got := line(t, c); got != "hello" {
			t.Errorf("got %q", got)
		}
		if st := r.front.Status(); st.Total != 3 || st.RejectedBy["denied"] != 3 || st.RejectedBy["client_limit"] != 1 || b.Total() != 3 {
			t.Errorf("%d reached the backend, status %+v", b.Total(), st)
		}
	})
}

// A client of which no header has come yet holds a place, can be listed and
// ended, and leaves nothing when it resets.
func TestEndsInTheHeaderPhase(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		s := behindProxy(t, headers(session.RequireHeaders))
		s.maxSessions, s.admission.PerClient = 3, access.Limits{Sessions: 1}
		r := start(t, s)
		waiting := func() *net.TCPConn {
			t.Helper()
			c := r.dial()
			io.WriteString(c, "PROXY TCP4 ")
			return c
		}
		listed := func(n int) (rows []session.Row) {
			t.Helper()
			eventually(t, fmt.Sprintf("%d clients are waited for", n), func() bool {
				rows = r.sessions()
				return len(rows) == n
			})
			return rows
		}
		a, b, c := waiting(), waiting(), waiting()
		for _, row := range listed(3) {
			if row.State != "header" || row.Backend != "" || row.Peer != (netip.AddrPort{}) {
				t.Errorf("the listing says %+v", row)
			}
		}
		r.mustTurnAway("127.0.0.1", "", "frontend_limit")
		l4test.Abort(a)
		r.mustEnd(session.ClientLeft, "CC", 0, 0)
		for _, row := range listed(2) {
			if row.Client == b.LocalAddr().(*net.TCPAddr).AddrPort() && !r.kill(row.Key.String()) {
				t.Error("a client that is waited for could not be ended")
			}
		}
		if _, err := io.ReadAll(b); ending(err) != "reset" {
			t.Errorf("the client that was ended saw %s", ending(err))
		}
		r.mustEnd(session.Killed, "KD", 0, 0)
		listed(1)
		if n := r.front.Shutdown(canceled()); n != 1 {
			t.Errorf("the shutdown cut %d, want 1", n)
		}
		r.mustEnd(session.Shutdown, "KD", 0, 0)
		if _, err := io.ReadAll(c); ending(err) != "reset" {
			t.Errorf("the client that was shut down saw %s", ending(err))
		}
		if st := r.front.Status(); st.Total != 3 || st.Rejected != 1 || st.Active != 0 {
			t.Errorf("status %+v", st)
		}
	})
}

// An end of stream behind a header is a half-close, and a reset behind one is a
// reset, also where the header counts among what was received.
func TestEndsBehindAHeader(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		s := behindProxy(t, headers(session.AcceptHeaders))
		s.specs = specs(l4test.Serve(t, l4test.ReadAllThenReply).Addr)
		r := start(t, s)
		for _, text := range []string{vectors[0].text + "hello", "hello"} {
			c := r.dial()
			io.WriteString(c, text)
			c.CloseWrite()
			if got, err := io.ReadAll(c); err != nil || string(got) != "R:hello" {
				t.Errorf("%q: got %q, %v", text, got, err)
			}
			r.mustEnd(session.ClientClosed, "--", 5, 7)
		}
		s.specs = nil
		r = start(t, s)
		for _, backendTalks := range []bool{false, true} {
			c := r.dial()
			io.WriteString(c, vectors[0].text+"hello")
			backend := <-r.conns
			backend.SetDeadline(time.Now().Add(l4test.Patience))
			io.ReadFull(backend, make([]byte, 5))
			wrote := make(chan string, 1)
			if backendTalks { // so that splices towards the client meet the reset
				go func() {
					_, err := io.Copy(backend, l4test.Pattern(64<<20))
					wrote <- ending(err)
				}()
				io.ReadFull(c, make([]byte, 1<<20))
			}
			l4test.Abort(c)
			_, err := io.ReadAll(backend)
			how := ending(err)
			if backendTalks && how == "end" { // a reset is told once
				how = <-wrote
			}
			if how != "reset" {
				t.Errorf("behind a reset the backend saw %s", how)
			}
			r.mustEnd(session.ClientReset, "CD", 5, -1)
		}
	})
}

// Who may open a unix socket is believed.
func TestHeaderOnAUnixSocket(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		rules := headers(session.RequireHeaders)
		rules.From = set("10.0.0.0/8")
		s := behindProxy(t, rules)
		s.listen, s.admission.Deny = "unix:"+t.TempDir()+"/s", set("203.0.113.0/24")
		r := start(t, s)
		for _, v := range vectors[:3] {
			c, err := net.Dial("unix", r.addr[len("unix:"):])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got := ask(t, c, v.text+"hello"); got != "hello" {
				t.Errorf("%s: got %q", v.name, got)
			}
			c.Close()
			if rec := r.record(); v.tells && rec.Client.String() != announced || !v.tells && rec.Client.IsValid() || rec.Peer.IsValid() {
				t.Errorf("%s: client %v, peer %v", v.name, rec.Client, rec.Peer)
			}
		}
	})
}

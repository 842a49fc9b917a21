//go:build unix

package main

import (
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// Every key of who may come in takes effect at a reload, and its absence takes
// the effect away; what is logged and counted names the reason.
func TestAdmissionKeysAreLive(t *testing.T) {
	t.Parallel()
	const header = "PROXY TCP4 198.51.100.9 203.0.113.1 1234 5432\r\n"
	a := l4test.Serve(t, l4test.Echo)
	text := func(keys ...string) string {
		return head + frontendText("web", "127.0.0.1:0", "p", keys...) + poolText("p", "", "A="+a.Addr)
	}
	d := startDaemon(t, text())
	address := d.frontend("web").Listen
	const from, soon = "proxy_protocol_from = [\"127.0.0.0/8\"]", "proxy_header_timeout = \"100ms\""
	hello := header + "hello"
	for _, c := range []struct {
		sends, gets string // empty: a reset
		reason      string
		keys        []string
	}{
		{"hello", "", "denied", []string{`deny = ["127.0.0.1"]`}},
		{"hello", "", "denied", []string{`allow = ["10.0.0.0/8", "127.0.0.2"]`}},
		{"hello", "hello", "", []string{`allow = ["127.0.0.0/8"]`}},
		{hello, hello, "", []string{`proxy_protocol = "off"`}},
		{hello, "hello", "", []string{`proxy_protocol = "accept"`, from}},
		{hello, hello, "", []string{`proxy_protocol = "accept"`, `proxy_protocol_from = ["10.0.0.0/8"]`}},
		{"hello", "hello", "", []string{`proxy_protocol = "accept"`, from}},
		{hello, "hello", "", []string{`proxy_protocol = "require"`, from}},
		{hello, "", "proxy_header", []string{`proxy_protocol = "require"`, `proxy_protocol_from = ["10.0.0.0/8"]`}},
		{"hello", "", "proxy_header", []string{`proxy_protocol = "require"`, from}},
		{"P", "", "proxy_header_timeout", []string{`proxy_protocol = "require"`, from, soon}},
		{"P", "P", "", []string{`proxy_protocol = "accept"`, from, soon}},
	} {
		before := d.frontend("web").RejectedBy[c.reason]
		d.mustReload(text(c.keys...))
		began := time.Now()
		got, err := exchange(t, address, c.sends, len(c.gets))
		if got != c.gets || (c.gets == "") != errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v: %q: got %q, %v; want %q", c.keys, c.sends, got, err, c.gets)
		}
		if took := time.Since(began); slices.Contains(c.keys, soon) && took > 4*time.Second { // by default it is 5 s
			t.Errorf("%v: it took %v", c.keys, took)
		}
		if c.reason != "" {
			eventually(t, "the refusal counts", func() bool { return d.frontend("web").RejectedBy[c.reason] == before+1 })
		}
	}
	for _, line := range d.lines("client refused") {
		want := map[any]string{"denied": "PR", "proxy_header": "PR", "proxy_header_timeout": "cR"}[line["reason"]]
		if line["frontend"] != "web" || want == "" || line["code"] != want {
			t.Errorf("a refusal is logged as %v", line)
		}
	}
	eventually(t, "two records tell of the announced client", func() bool {
		told := 0
		for _, line := range d.lines("session") {
			if line["client"] == "198.51.100.9:1234" && line["peer"] != nil {
				told++
			} else if line["peer"] != nil {
				t.Fatalf("a peer without another client: %v", line)
			}
		}
		return told == 2
	})
}

// exchange sends text, and returns the first n bytes of the answer; with n = 0,
// how the connection ends.
func exchange(t *testing.T, address, text string, n int) (string, error) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err = io.WriteString(c, text); err != nil {
		return "", err
	}
	answer := make([]byte, max(n, 1))
	got, err := io.ReadFull(c, answer)
	return string(answer[:got]), err
}

// The limits of each client are live, and count what came in under them.
func TestClientLimitKeysAreLive(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	text := func(keys ...string) string {
		return head + frontendText("web", "127.0.0.1:0", "p", keys...) + poolText("p", "", "A="+a.Addr)
	}
	d := startDaemon(t, text("max_sessions_per_client = 1"))
	address := d.frontend("web").Listen
	refused := func() bool {
		_, err := exchange(t, address, "", 2)
		return errors.Is(err, syscall.ECONNRESET)
	}
	c, _ := open(t, address)
	if !refused() || d.frontend("web").RejectedBy["client_limit"] != 1 {
		t.Errorf("a second session was let in: %+v", d.frontend("web"))
	}
	d.mustReload(text("max_sessions_per_client = 2"))
	if refused() {
		t.Error("a second session was not let in after the reload")
	}
	d.mustReload(text("max_rate_per_client = 1"))
	eventually(t, "one session too many within a second", refused)
	if d.frontend("web").RejectedBy["client_rate"] == 0 {
		t.Errorf("it was refused for another reason: %+v", d.frontend("web"))
	}
	d.mustReload(text())
	open(t, address)
	open(t, address)
	c.Close()
}

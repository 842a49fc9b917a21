//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/l4/l4test"
)

// through returns a client whose every connection goes to address.
func through(network, address string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}, Timeout: patience}
}

// statusOf asks for a path; 0 if nobody answers.
func statusOf(c *http.Client, method, path string) int {
	q, err := http.NewRequest(method, "http://localhost"+path, nil)
	if err != nil {
		panic(err)
	}
	a, err := c.Do(q)
	if err != nil {
		return 0
	}
	a.Body.Close()
	return a.StatusCode
}

func wantAnswers(t *testing.T, c *http.Client, want map[string]int) {
	t.Helper()
	for request, code := range want {
		method, path, _ := strings.Cut(request, " ")
		if got := statusOf(c, method, path); got != code {
			t.Errorf("%s: got %d, want %d", request, got, code)
		}
	}
}

// The admin side on a unix socket: its mode is live, the file of a dead process
// is replaced, and nothing is left of it.
func TestAdminOnUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "admin.sock")
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	text := func(mode string) string {
		return jsonLog + "[admin]\nlisten = \"unix:" + path + "\"\n" + mode + frontendText("web", free, "p") + poolText("p", "", "A=127.0.0.1:9")
	}
	d := startDaemon(t, text(""))
	wantMode := func(mode fs.FileMode) {
		t.Helper()
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("got %v, %v, want mode %o", info, err, mode)
		}
	}
	wantMode(0o600)
	if d.admin != "unix:"+path {
		t.Errorf("the log says it listens on %q", d.admin)
	}
	wantAnswers(t, through("unix", path), map[string]int{"GET /status": 200, "POST /reload": 200})
	d.write(text("mode = \"0660\"\n"))
	if line := d.hangUp(reloaded); !strings.Contains(fmt.Sprint(line["changes"]), "admin: mode 0600 -> 0660") {
		t.Errorf("got %v", line)
	}
	wantMode(0o660)
	d.write(text("[admin.proxy]\nenabled = false\n"))
	d.hangUp(reloaded)
	wantMode(0o600)
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v after the end, want that it is gone", err)
	}
}

// The listeners for probes and for /proxy come, move and go with a reload.
func TestReloadListenersOfTheAdminSide(t *testing.T) {
	t.Parallel()
	web := l4test.Serve(t, func(c *net.TCPConn) {
		http.ReadRequest(bufio.NewReader(c))
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		c.Close()
	})
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	text := func(probes, proxy string) string {
		return jsonLog + "[admin]\nlisten = \"127.0.0.1:0\"\nprobe_listen = \"" + probes + "\"\n[admin.proxy]\nlisten = \"" + proxy + "\"\n" +
			frontendText("web", free, "p") + poolText("p", "", "A="+web.Addr)
	}
	forProbes := map[string]int{"GET /healthz": 200, "GET /readyz": 200, "GET /readyz/web": 200, "GET /status": 404, "POST /reload": 404, "GET /proxy/": 404}
	forProxy := map[string]int{"GET /proxy/": 200, "POST /pools/p/proxy/x": 200, "GET /status": 404, "POST /reload": 404, "GET /healthz": 404}
	gone := map[string]int{"GET /healthz": 0, "GET /proxy/": 0}

	d := startDaemon(t, text("unix:"+at("probes"), "unix:"+at("proxy")))
	wantAnswers(t, through("unix", at("probes")), forProbes)
	wantAnswers(t, through("unix", at("proxy")), forProxy)
	if got := d.frontend("/proxy").Listen; got != "unix:"+at("proxy") {
		t.Errorf("/proxy listens on %q, says the status", got)
	}
	wantAnswers(t, through("tcp", d.admin), map[string]int{"GET /proxy/": 200, "GET /healthz": 200})

	changes := d.mustReload(text("unix:"+at("proxy"), "unix:"+at("probes"))) // they swap
	if got := strings.Join(changes, "; "); !strings.Contains(got, "admin: probe_listen unix:") || !strings.Contains(got, "admin.proxy: listen unix:") {
		t.Errorf("got changes %q", got)
	}
	wantAnswers(t, through("unix", at("proxy")), forProbes)
	wantAnswers(t, through("unix", at("probes")), forProxy)

	d.mustReload(text("", ""))
	wantAnswers(t, through("unix", at("proxy")), gone)
	wantAnswers(t, through("unix", at("probes")), gone)
	wantAnswers(t, through("tcp", d.admin), map[string]int{"GET /proxy/": 200})
	if got := d.frontend("/proxy").Listen; got != d.admin {
		t.Errorf("/proxy listens on %q, says the status, want %s", got, d.admin)
	}
	d.mustReload(text("unix:"+at("probes"), ""))
	wantAnswers(t, through("unix", at("probes")), forProbes)
}

// A token file that is broken at a reload changes nothing: the old tokens hold.
func TestReloadBrokenTokenFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	tokens := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tokens("operate first-token-of-the-test\n")
	d := startDaemon(t, jsonLog+"[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \""+file+"\"\n"+frontendText("web", free, "p")+poolText("p", "", "A=127.0.0.1:9"))
	change := func(token string) int {
		t.Helper()
		q, err := http.NewRequest("DELETE", "http://"+d.admin+"/backends/none", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		a, err := adminClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	if got := change("first-token-of-the-test"); got != 404 {
		t.Errorf("the token: got %d, want 404", got)
	}
	for _, broken := range []string{"", "operate\n", "steer second-token-of-the-test\n", "operate second token\n"} {
		tokens(broken)
		d.hangUp(refused)
		if got := change("first-token-of-the-test"); got != 404 {
			t.Errorf("with the file %q: got %d by the old token, want 404", broken, got)
		}
	}
	tokens("read first-token-of-the-test\noperate second-token-of-the-test\n")
	d.hangUp(reloaded)
	if got := change("first-token-of-the-test"); got != 403 {
		t.Errorf("the token that may only read now: got %d, want 403", got)
	}
	if got := change("second-token-of-the-test"); got != 404 {
		t.Errorf("the new token: got %d, want 404", got)
	}
	if strings.Contains(d.out.String(), "token-of-the-test") {
		t.Error("a token is in the log")
	}
}

// What a browser and a proxy may say changes with a reload.
func TestReloadHostsAndTrustedProxies(t *testing.T) {
	t.Parallel()
	web := l4test.Serve(t, func(c *net.TCPConn) {
		q, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			text := q.Header.Get("X-Forwarded-For")
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		}
		c.Close()
	})
	text := func(admin, proxy string) string {
		return jsonLog + "[admin]\nlisten = \"127.0.0.1:0\"\n" + admin + "\n[admin.proxy]\n" + proxy + "\n" +
			frontendText("web", free, "p") + poolText("p", "", "A="+web.Addr)
	}
	d := startDaemon(t, text("", ""))
	ask := func(path string) (int, string) {
		t.Helper()
		q, err := http.NewRequest("GET", "http://"+d.admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("X-Forwarded-For", "192.0.2.7")
		if path == "/status" {
			q.Host = "lb.example.com"
		}
		a, err := adminClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		body, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, string(body)
	}
	want := func(host int, from string) {
		t.Helper()
		if got, _ := ask("/status"); got != host {
			t.Errorf("by another name: got %d, want %d", got, host)
		}
		if _, got := ask("/proxy/"); got != from {
			t.Errorf("the backend saw a request from %q, want %q", got, from)
		}
	}
	want(403, "127.0.0.1")
	d.mustReload(text(`hosts = ["lb.example.com"]`, `trusted_from = ["127.0.0.0/8"]`))
	want(200, "192.0.2.7, 127.0.0.1")
	d.mustReload(text("", ""))
	want(403, "127.0.0.1")
}

// At a shutdown the listener of /proxy closes with the frontends, and the API
// answers until the last session is over.
func TestStopClosesTheListenerOfProxyFirst(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	dir := t.TempDir()
	path, probes := filepath.Join(dir, "proxy"), filepath.Join(dir, "probes")
	d := startDaemon(t, "[process]\ndrain_timeout = \"1m\"\n"+jsonLog+"[admin]\nlisten = \"127.0.0.1:0\"\nprobe_listen = \"unix:"+probes+"\"\n[admin.proxy]\nlisten = \"unix:"+path+"\"\n"+
		frontendText("web", free, "p")+poolText("p", "", "A="+a.Addr))
	session, _ := open(t, d.frontend("web").Listen)
	d.signal(syscall.SIGTERM)
	eventually(t, "the listener of /proxy is closed", func() bool {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	wantAnswers(t, through("unix", probes), map[string]int{"GET /healthz": 200, "GET /readyz": 503})
	wantAnswers(t, through("tcp", d.admin), map[string]int{"GET /healthz": 200, "GET /proxy/": 503})
	session.Close()
	<-d.done
	if d.err != nil {
		t.Errorf("got %v, want status 0", d.err)
	}
}

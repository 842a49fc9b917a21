//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nginxServer is an HTTP server that expects a PROXY header, and answers with the
// address of the client that it tells of, and its own name.
type nginxServer struct {
	*process
	name, address string
}

// nginxText is its configuration: the part that http-proxy-v2.md asks for, and
// what a test needs.
const nginxText = `daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	server {
		listen %[2]s proxy_protocol;
		set_real_ip_from 127.0.0.1;
		real_ip_header proxy_protocol;
		location = /healthz { return 204; }
		location / { return 200 "$remote_addr:$remote_port %[3]s\n"; }
	}
}
`

func startNginx(t *testing.T, name string) *nginxServer {
	t.Helper()
	n := &nginxServer{name: name}
	n.address = onFreePort(t, func(port string) bool { return n.start(t, net.JoinHostPort("127.0.0.1", port)) })
	return n
}

// start starts the server at address, and waits until it answers there. It
// returns false if it could not have the address.
func (n *nginxServer) start(t *testing.T, address string) (bound bool) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxText, dir, address, n.name), 0o600); err != nil {
		t.Fatal(err)
	}
	n.process = startProcess(t, exec.Command(program(t, "nginx", "/usr/sbin"), "-p", dir, "-c", file, "-e", "stderr"))
	eventually(t, "nginx answers", func() bool {
		name, _, err := askThrough(address, "PROXY UNKNOWN\r\n")
		bound = err == nil && name == n.name
		return bound || n.ended()
	})
	if !bound && !strings.Contains(n.out.String(), "Address already in use") {
		t.Fatalf("nginx ended: %v\n%s", n.err, n.out.String())
	}
	return bound
}

// askHTTP makes one request over a connection of its own, and returns who answered.
// The server must have seen the address that the connection came from.
func askHTTP(address string) (name string, err error) {
	name, seen, err := askThrough(address, "")
	if err == nil && seen != "" {
		err = fmt.Errorf("%s saw the client %s", name, seen)
	}
	return name, err
}

// askThrough is askHTTP with bytes before the request. It returns what the server
// saw for the client, if that was another.
func askThrough(address, before string) (name, seen string, err error) {
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, before+"GET / HTTP/1.1\r\nHost: sluice\r\nConnection: close\r\n\r\n"); err != nil {
		return "", "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("status %d, %q: %v", answer.StatusCode, text, err)
	}
	seen, name, _ = strings.Cut(strings.TrimSpace(string(text)), " ")
	if seen == c.LocalAddr().String() {
		seen = ""
	}
	return name, seen, nil
}

// crash kills the server, and returns when that was, and when no connection led to
// it any more.
func (n *nginxServer) crash() (killed, gone time.Time) {
	killed = time.Now()
	_ = n.end(syscall.SIGKILL)
	return killed, time.Now()
}

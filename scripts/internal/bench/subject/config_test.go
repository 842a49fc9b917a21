//go:build linux

package subject

import (
	"reflect"
	"strings"
	"testing"
)

var services = []Service{
	{"echo", "127.0.0.1:11000", []string{"127.0.0.1:1", "127.0.0.1:2"}},
	{"source", "127.0.0.1:12000", []string{"127.0.0.1:3"}},
}

const wantHAProxy = `global
  nbthread 2
  maxconn 9500
  maxpipes 400

defaults
  mode tcp
  option splice-auto
  maxconn 9500
  timeout connect 2s
  timeout client 10m
  timeout server 10m

listen echo
  bind 127.0.0.1:11000
  balance roundrobin
  server b0 127.0.0.1:1
  server b1 127.0.0.1:2

listen source
  bind 127.0.0.1:12000
  balance roundrobin
  server b0 127.0.0.1:3
`

const wantNginx = `load_module /m/ngx_stream_module.so;
daemon off;
pid nginx.pid;
error_log stderr error;
worker_processes 2;
worker_rlimit_nofile 19100;
events {
  worker_connections 19050;
}

stream {
  upstream echo {
    server 127.0.0.1:1;
    server 127.0.0.1:2;
  }
  server {
    listen 127.0.0.1:11000;
    proxy_pass echo;
    proxy_timeout 10m;
  }
  upstream source {
    server 127.0.0.1:3;
  }
  server {
    listen 127.0.0.1:12000;
    proxy_pass source;
    proxy_timeout 10m;
  }
}
`

var wantSluice = `[process]
engine = "epoll"
drain_timeout = "0s"
max_sessions = 50000

[log]
level = "info"
format = "json"
access = "off"

[admin]
listen = ""

[[frontend]]
name = "echo"
listen = "127.0.0.1:11000"
pool = "echo"
` + limits() + `
[[pool]]
name = "echo"

  [pool.health]
  probe = "none"

  [[pool.backend]]
  address = "127.0.0.1:1"

  [[pool.backend]]
  address = "127.0.0.1:2"
`

func TestConfigurations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ got, want string }{
		"haproxy": {haproxyConfig(2, 9500, services), wantHAProxy},
		"nginx":   {nginxConfig("/m/ngx_stream_module.so", 2, 9500, services), wantNginx},
		"sluice":  {sluiceConfig("epoll", Limits, "/d", services[:1]), wantSluice},
	} {
		if c.got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, c.got, c.want)
		}
	}
}

// A feature changes the keys that are about it, and no others.
func TestFeatures(t *testing.T) {
	t.Parallel()
	for f, want := range map[Feature][]string{
		Plain:       nil,
		IdleTimeout: {`+idle_timeout = "10m"`},
		AccessLog:   {`-access = "off"`, `+access = "all"`},
		Limits:      append([]string{"+max_sessions = 50000"}, limitLines()...),
		Scraped:     {`-listen = ""`, `+listen = "unix:/d/admin.sock"`},
	} {
		got := changes(sluiceConfig("copy", Plain, "/d", services[:1]), sluiceConfig("copy", f, "/d", services[:1]))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, want %q", f, got, want)
		}
	}
}

func limitLines() (lines []string) {
	for line := range strings.Lines(limits()) {
		lines = append(lines, "+"+strings.TrimSpace(line))
	}
	return lines
}

// The limits are keys that a frontend takes, and let loopback in.
func TestLimits(t *testing.T) {
	t.Parallel()
	text := limits()
	for _, want := range []string{"max_sessions = 40000\n", "max_sessions_per_client = 30000\n", `"10.0.0.0/24"`, `"10.3.249.0/24"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %.100s", want, text)
		}
	}
	if strings.Contains(text, `"127.`) {
		t.Error("they turn the load away")
	}
}

// changes lists lines that only one of two texts has.
func changes(before, after string) (lines []string) {
	for line := range strings.Lines(before) {
		if !strings.Contains(after, line) {
			lines = append(lines, "-"+strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(after) {
		if !strings.Contains(before, line) {
			lines = append(lines, "+"+strings.TrimSpace(line))
		}
	}
	return lines
}

func TestPlainArguments(t *testing.T) {
	t.Parallel()
	got, err := ParsePlain(plainArgs(services))
	if err != nil || !reflect.DeepEqual(got, services) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, arg := range []string{"", "echo", "echo=127.0.0.1:1", "echo==127.0.0.1:1", "a=b=c=d"} {
		if got, err := ParsePlain([]string{arg}); err == nil {
			t.Errorf("%q: got %+v", arg, got)
		}
	}
}

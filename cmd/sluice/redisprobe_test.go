//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// redisProbePassword is that of the user of probes.
const redisProbePassword = "the-password-of-the-probe"

// redisRoles starts a primary with two replicas, all of which have a user of no
// more rights than a probe needs, and returns the keys that log in as it.
func redisRoles(t *testing.T) (servers []*redisServer, login string) {
	t.Helper()
	primary := startRedis(t)
	servers = []*redisServer{primary, startRedisReplica(t, primary), startRedisReplica(t, primary)}
	for _, s := range servers {
		redisDo(t, s.address, "acl", "setuser", "sluice", "on", ">"+redisProbePassword, "+ping", "+info")
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "password"), redisProbePassword+"\n")
	return servers, fmt.Sprintf("probe = \"redis\"\nuser = \"sluice\"\npassword_file = %q\n", file)
}

func addressesOf(servers []*redisServer) (all []string) {
	for _, s := range servers {
		all = append(all, s.address)
	}
	return all
}

// A pool has the servers of the role that it wants, and follows when they change
// places; the log says why each is out, and never the password.
func TestRedisRoles(t *testing.T) {
	servers, login := redisRoles(t)
	d := startDaemon(t, rolePools(login, addressesOf(servers)...))
	d.awaitState("primary", "s0", "up")
	d.awaitState("replica", "s1", "up")
	d.awaitState("replica", "s2", "up")
	d.awaitReason("primary", "s1", "is a replica, and a primary is wanted")
	d.awaitReason("replica", "s0", "is a primary, and a replica is wanted")
	redisDo(t, d.frontend("write").Listen, "set", "kept", "1")

	servers[0].end(syscall.SIGKILL)
	d.awaitState("primary", "s0", "down") // a probe may have been under way
	d.awaitReason("replica", "s1", "is a replica without a link to its primary")
	servers[1].promote(t)
	servers[2].follow(t, servers[1])
	d.awaitState("primary", "s1", "up")
	d.awaitState("replica", "s2", "up")
	redisDo(t, d.frontend("write").Listen, "set", "kept", "2")
	eventually(t, "the read pool has the value", func() bool { return redisDo(t, d.frontend("read").Listen, "get", "kept") == "2" })
	if strings.Contains(d.out.String(), redisProbePassword) {
		t.Error("the password is in the log")
	}
}

// A primary whose replicas do not follow is out, and so is a replica that hears
// nothing of its primary.
func TestRedisLag(t *testing.T) {
	servers, login := redisRoles(t)
	d := startDaemon(t, rolePools(login+"min_replicas = 2\nmax_lag = \"3s\"\n", addressesOf(servers)...))
	d.awaitState("primary", "s0", "up")
	d.awaitState("replica", "s2", "up")
	pause := func(s *redisServer, sig syscall.Signal) {
		t.Helper()
		if err := s.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	pause(servers[1], syscall.SIGSTOP)
	d.awaitReason("primary", "s0", "is a primary of which 1 replicas are online and lag at most 3s, and 2 are wanted")
	pause(servers[1], syscall.SIGCONT)
	d.awaitState("primary", "s0", "up")
	pause(servers[0], syscall.SIGSTOP)
	d.awaitReason("replica", "s2", "s, more than 3s")
	pause(servers[0], syscall.SIGCONT)
	d.awaitState("replica", "s2", "up")
}

// B072: a primary that died, was replaced, and returns claims to be one until it is
// told better. With rise it gets no session in that time.
func TestRedisOldPrimaryReturns(t *testing.T) {
	servers, login := redisRoles(t)
	text := strings.ReplaceAll(rolePools(login, addressesOf(servers)...), "rise = 1", "rise = 1000")
	d := startDaemon(t, strings.ReplaceAll(text, "interval = \"100ms\"", "interval = \"20ms\""))
	d.awaitState("primary", "s0", "up") // the first probe alone decides: init = "probe"
	write := func(value int) {
		t.Helper()
		redisDo(t, d.frontend("write").Listen, "set", "kept", value)
	}
	write(0)
	servers[0].end(syscall.SIGKILL)
	d.awaitState("primary", "s0", "down")
	servers[1].promote(t)
	servers[2].follow(t, servers[1])
	d.mustReload(strings.ReplaceAll(text, "rise = 1000", "rise = 1"))
	d.awaitState("primary", "s1", "up")
	d.mustReload(text)

	before := d.backend("primary", "s0").Total
	servers[0].restart(t)
	redisDo(t, servers[0].address, "acl", "setuser", "sluice", "on", ">"+ofProbe, "+ping", "+info")
	probes := func() int {
		t.Helper()
		_, calls, _ := strings.Cut(redisDo(t, servers[0].address, "info", "commandstats"), "cmdstat_ping:calls=")
		n, _ := strconv.Atoi(calls[:max(strings.IndexByte(calls, ','), 0)])
		return n
	}
	for i := range 50 {
		write(i)
	}
	eventually(t, "it was probed while it claimed to be the primary", func() bool { return probes() >= 10 })
	servers[0].follow(t, servers[1])
	for i := range 50 {
		write(i)
	}
	if b := d.backend("primary", "s0"); b.Total != before || b.State != "down" {
		t.Errorf("it is %s and got %d sessions, want none", b.State, b.Total-before)
	}
	if got := redisDo(t, servers[1].address, "get", "kept"); got != "49" {
		t.Errorf("got %s from the new primary, want 49", got)
	}
}

// A password is changed on the server, then in its file: the watch notices.
func TestRedisPasswordIsChanged(t *testing.T) {
	server := startRedis(t)
	give := func(password string) {
		redisDo(t, server.address, "acl", "setuser", "sluice", "reset", "on", ">"+password, "+ping", "+info")
	}
	give(ofProbe)
	file := writeFile(t, filepath.Join(t.TempDir(), "password"), ofProbe+"\n")
	d := startDaemon(t, "[process]\nwatch = true\n"+rolePools(fmt.Sprintf(
		"probe = \"redis\"\nuser = \"sluice\"\npassword_file = %q\n", file), server.address))
	d.awaitState("primary", "s0", "up")
	give("another-password")
	d.awaitReason("primary", "s0", "WRONGPASS invalid username-password pair or user is disabled.")
	writeFile(t, file, "another-password\n")
	line := d.awaitWatch(reloaded, 1)[0]
	if got := fmt.Sprint(line["changes"]); !strings.Contains(got, "health.password changed") {
		t.Errorf("got changes %s", got)
	}
	d.awaitState("primary", "s0", "up")
	if status, answer := d.plan(mustRead(t, d.file)); status != 200 || len(answer.Changes) != 0 {
		t.Errorf("a plan of what is in force: got %d %+v", status, answer)
	}
	redisDo(t, server.address, "acl", "setuser", "sluice", "-info")
	d.awaitReason("primary", "s0", "NOPERM")
	for _, password := range []string{ofProbe, "another-password"} {
		if strings.Contains(d.out.String(), password) {
			t.Error("a password is in the log")
		}
	}
}

// mustRead returns the content of a file.
func mustRead(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The kinds of encryption, and what each refuses.
func TestRedisTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	cert, key := ca.issue(t, "db.test")
	var server *redisServer
	address := onFreePort(t, func(port string) bool {
		server = startRedis(t)
		for _, set := range [][]any{{"tls-cert-file", cert, "tls-key-file", key, "tls-ca-cert-file", ca.file, "tls-auth-clients", "no"}, {"tls-port", port}} {
			redisDo(t, server.address, append([]any{"config", "set"}, set...)...)
		}
		return true
	})
	checkTLS(t, "probe = \"redis\"\n", address, ca, other, "no answer: got ")

	redisDo(t, server.address, "config", "set", "tls-auth-clients", "yes")
	own := fmt.Sprintf("probe = \"redis\"\ntls = \"verify\"\ntls_ca_file = %q\n", ca.file)
	d := startDaemon(t, rolePools(own, address))
	d.awaitReason("primary", "s0", "no answer: got ") // "certificate required", unless a reset was faster
	d.mustReload(rolePools(own+fmt.Sprintf("tls_cert_file = %q\ntls_key_file = %q\n", cert, key), address))
	d.awaitState("primary", "s0", "up")
}

// Probes leave no word in the server's log, no client behind, and say nothing that
// they need not.
func TestRedisProbesLeaveNoTrace(t *testing.T) {
	server := startRedis(t)
	redisDo(t, server.address, "acl", "setuser", "sluice", "on", ">"+ofProbe, "+ping", "+info")
	file := writeFile(t, filepath.Join(t.TempDir(), "password"), ofProbe+"\n")
	logged := len(server.out.String())
	redisDo(t, server.address, "config", "resetstat")
	text := rolePools(fmt.Sprintf("probe = \"redis\"\nuser = \"sluice\"\npassword_file = %q\n", file), server.address)
	d := startDaemon(t, strings.ReplaceAll(text, "interval = \"100ms\"", "interval = \"5ms\""))
	stats := func(section string) string { return redisDo(t, server.address, "info", section) }
	eventually(t, "fifty probes", func() bool {
		var n int
		_, calls, _ := strings.Cut(stats("commandstats"), "cmdstat_hello:calls=")
		fmt.Sscanf(calls, "%d", &n)
		return n >= 50
	})
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	eventually(t, "no client is left but this test", func() bool { return strings.Contains(stats("clients"), "connected_clients:1\r") })
	for line := range strings.Lines(stats("commandstats")) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if !slices.Contains([]string{"# Commandstats\r\n", "hello", "ping", "info", "config|resetstat"}, name) {
			t.Errorf("got %s", line)
		}
	}
	if got := stats("errorstats"); strings.Contains(got, "errorstat_") {
		t.Errorf("got errors %s", got)
	}
	if got := server.out.String()[logged:]; got != "" {
		t.Errorf("the server has logged:\n%s", got)
	}
}

//go:build unix

package main

import (
	"fmt"
	"path/filepath"
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
	d.awaitReason("primary", "s0", "connection refused")
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

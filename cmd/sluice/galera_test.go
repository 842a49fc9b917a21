//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// galeraProvider is where Debian keeps the library that makes MariaDB a node.
const galeraProvider = "/usr/lib/galera/libgalera_smm.so"

// startGalera starts a cluster of so many nodes, each of which is synced. All know
// the users of startMariaDBs.
func startGalera(t *testing.T, nodes int) (servers []*mariaDB) {
	t.Helper()
	if _, err := os.Stat(galeraProvider); err != nil {
		t.Skipf("SKIPPED: Galera is not installed: %v", err)
	}
	var cluster []string
	for range nodes {
		s := newMariaDB(t)
		cluster = append(cluster, s.startNode(t, cluster))
		s.awaitSynced(t, len(cluster))
		servers = append(servers, s)
	}
	servers[0].exec(t, mysqlUser, "CREATE USER app@'%' IDENTIFIED BY 'app'", "GRANT ALL ON app.* TO app@'%'",
		"CREATE DATABASE app", "CREATE TABLE app.kept (value INT PRIMARY KEY)")
	return servers
}

// startNode starts a node of the cluster of members, or the first of a new one. It
// returns its address within the cluster.
func (m *mariaDB) startNode(t *testing.T, members []string) (cluster string) {
	t.Helper()
	m.address = onFreePort(t, func(port string) bool {
		cluster = net.JoinHostPort("127.0.0.1", fmt.Sprint(30_000+rand.IntN(1_000)))
		m.options = []string{"--wsrep-on=ON", "--wsrep-provider=" + galeraProvider, "--wsrep-sst-method=rsync",
			"--wsrep-cluster-address=gcomm://" + strings.Join(members, ","), "--wsrep-node-address=" + cluster,
			fmt.Sprintf("--wsrep-provider-options=gcache.size=4M;gmcast.listen_addr=tcp://%s;ist.recv_addr=127.0.0.1:%d",
				cluster, 31_000+rand.IntN(1_000)),
			fmt.Sprint("--wsrep-sst-receive-address=127.0.0.1:", 32_000+rand.IntN(700)), "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2"}
		if len(members) == 0 {
			m.options = append(m.options, "--wsrep-new-cluster")
		}
		return m.start(t, "127.0.0.1", port)
	})
	return cluster
}

// awaitSynced waits until the node takes queries, in a cluster of that size.
func (m *mariaDB) awaitSynced(t *testing.T, size int) {
	t.Helper()
	eventuallyIn(t, startTime, "the node is synced", func() bool {
		return m.ask(t, "SHOW STATUS LIKE 'wsrep_local_state_comment'")["Value"] == "Synced" &&
			m.status(t, "wsrep_cluster_size") == size
	})
}

// Each thing that makes a node no good takes it out, and the evidence says which.
func TestMySQLWsrepReady(t *testing.T) {
	servers := startGalera(t, 2)
	d := startDaemon(t, head+frontendText("f", free, "p")+
		probedPool("", "init = \"probe\"\nfall = 1\nrise = 1\ntimeout = \"5s\"\nwsrep_ready = true\n"+mysqlLogin(t),
			"A="+servers[0].address, "B="+servers[1].address))
	d.awaitState("p", "A", "up")
	d.awaitState("p", "B", "up")
	node := servers[1]
	for _, c := range []struct{ set, reset, why string }{
		{"wsrep_desync = ON", "wsrep_desync = OFF", "wsrep_local_state is 2 (Donor/Desynced), not 4 (Synced)"},
		{"wsrep_reject_queries = ALL", "wsrep_reject_queries = NONE", "wsrep_reject_queries is ALL"},
		{"wsrep_on = OFF", "wsrep_on = ON", "wsrep_on is OFF: takes no part in the cluster"},
	} {
		node.exec(t, "SET GLOBAL "+c.set)
		d.awaitReason("p", "B", c.why)
		node.exec(t, "SET GLOBAL "+c.reset)
		d.awaitState("p", "B", "up")
	}
	// One of two that lost the other does not know whether it is alone.
	servers[0].end(syscall.SIGKILL)
	d.awaitReason("p", "B", "wsrep_ready is OFF")
	if err := insertKept(t, node.address, 1); err == nil {
		t.Error("a node that is not ready has taken a write")
	}
}

// A server that is no node of a cluster is not ready as one.
func TestMySQLWsrepReadyWithoutGalera(t *testing.T) {
	m := startMariaDB(t)
	m.exec(t, mysqlUser)
	d := startDaemon(t, head+frontendText("f", free, "p")+
		probedPool("", "fall = 1\nwsrep_ready = true\n"+mysqlLogin(t), "A="+m.address))
	d.awaitReason("p", "A", "wsrep_on is OFF")
}

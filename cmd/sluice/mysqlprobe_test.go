//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The user that probes log in as; it may ask how replication goes, and nothing else.
const (
	mysqlSecret = "the-password-of-the-probe"
	mysqlUser   = "CREATE USER sluice@'%' IDENTIFIED BY '" + mysqlSecret + "'"
	mysqlGrant  = "GRANT REPLICA MONITOR ON *.* TO sluice@'%'"
)

// mysqlLogin are keys of [pool.health] that log in as that user.
func mysqlLogin(t *testing.T) string {
	t.Helper()
	file := writeFile(t, filepath.Join(t.TempDir(), "password"), mysqlSecret+"\n")
	return fmt.Sprintf("probe = \"mysql\"\nuser = \"sluice\"\npassword_file = %q\n", file)
}

// startMariaDBs starts a primary with so many replicas. All know the user of probes,
// and app, with the password "app", who may do everything but write on a replica.
func startMariaDBs(t *testing.T, replicas int, options ...string) (servers []*mariaDB) {
	t.Helper()
	for i := range replicas + 1 {
		own := append([]string{fmt.Sprint("--server-id=", i+1), "--log-basename=m", "--log-bin", "--log-slave-updates", "--gtid-strict-mode=ON",
			"--slave-net-timeout=4", "--sync-binlog=0"}, options...)
		servers = append(servers, startMariaDB(t, own...))
	}
	primary := servers[0]
	primary.exec(t, mysqlUser, mysqlGrant, "CREATE USER replica@'%' IDENTIFIED BY 'replica'",
		"GRANT REPLICATION SLAVE ON *.* TO replica@'%'", "CREATE USER app@'%' IDENTIFIED BY 'app'",
		"GRANT ALL ON app.* TO app@'%'", "CREATE DATABASE app", "CREATE TABLE app.kept (value INT PRIMARY KEY)")
	for _, r := range servers[1:] {
		r.exec(t, "SET GLOBAL read_only = ON", "RESET MASTER") // its own log has what made its files
		r.follow(t, primary)
	}
	return servers
}

// follow makes a server a replica of primary.
func (m *mariaDB) follow(t *testing.T, primary *mariaDB) {
	t.Helper()
	m.exec(t, "STOP SLAVE", fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%s, MASTER_USER='replica', "+
		"MASTER_PASSWORD='replica', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos", portOf(t, primary.address)), "START SLAVE")
}

// promote makes a replica the primary.
func (m *mariaDB) promote(t *testing.T) {
	t.Helper()
	m.exec(t, "STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = OFF")
}

// insertKept writes a value as app, over a connection of its own.
func insertKept(t *testing.T, address string, value int) error {
	t.Helper()
	client := mariaDBClient(t, address, "app", "app")
	defer client.Close()
	_, err := client.ExecContext(t.Context(), "INSERT INTO app.kept VALUES (?)", value)
	return err
}

// countKept returns how many values a server has; -1 if it does not tell.
func countKept(t *testing.T, address string) (n int) {
	t.Helper()
	client := mariaDBClient(t, address, "app", "app")
	defer client.Close()
	if err := client.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM app.kept").Scan(&n); err != nil {
		return -1
	}
	return n
}

func mariaDBAddresses(servers []*mariaDB) (all []string) {
	for _, s := range servers {
		all = append(all, s.address)
	}
	return all
}

// A pool has the servers of the role that it wants, and follows when they change
// places; the log says why each is out, and never the password.
func TestMySQLRoles(t *testing.T) {
	servers := startMariaDBs(t, 2)
	d := startDaemon(t, rolePools(mysqlLogin(t), mariaDBAddresses(servers)...))
	d.awaitState("primary", "s0", "up")
	d.awaitState("replica", "s1", "up")
	d.awaitState("replica", "s2", "up")
	d.awaitReason("primary", "s1", "read_only is ON, and a primary is wanted")
	d.awaitReason("replica", "s0", "has no source to replicate from, and a replica is wanted")
	if err := insertKept(t, d.frontend("write").Listen, 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a replica has the value", func() bool { return countKept(t, d.frontend("read").Listen) == 1 })
	testMySQLThreads(t, d, servers[2])

	// Replicas that look for their primary are still there to be read.
	servers[0].end(syscall.SIGKILL)
	d.awaitState("primary", "s0", "down")
	eventually(t, "a replica looks for its primary", func() bool {
		return servers[1].ask(t, "SHOW SLAVE STATUS")["Slave_IO_Running"] == "Connecting"
	})
	servers[1].promote(t)
	d.awaitState("replica", "s1", "down")
	d.awaitState("primary", "s1", "up")
	if err := insertKept(t, d.frontend("write").Listen, 2); err != nil {
		t.Fatal(err)
	}
	if got := d.backend("replica", "s2"); got.State != "up" {
		t.Errorf("got %s (%s), want that a replica without its primary stays up", got.State, got.LastChange.Reason)
	}
	servers[2].follow(t, servers[1])
	eventually(t, "the read pool has the value", func() bool { return countKept(t, d.frontend("read").Listen) == 3 })
	if strings.Contains(d.out.String(), mysqlSecret) {
		t.Error("the password is in the log")
	}
}

// A replica whose threads do not run is down, with what stopped them; not with the
// data that did.
func testMySQLThreads(t *testing.T, d *daemon, s *mariaDB) {
	t.Helper()
	s.exec(t, "STOP SLAVE IO_THREAD")
	d.awaitReason("replica", "s2", "Slave_IO_Running is No (error 0), and a replica is wanted")
	s.exec(t, "START SLAVE")
	d.awaitState("replica", "s2", "up")
	s.exec(t, "SET SESSION sql_log_bin = 0", "INSERT INTO app.kept VALUES (77)")
	if err := insertKept(t, d.frontend("write").Listen, 77); err != nil {
		t.Fatal(err)
	}
	d.awaitReason("replica", "s2", "Slave_SQL_Running is No (error 1062), and a replica is wanted")
	if got := d.backend("replica", "s2").LastChange.Reason; strings.Contains(got, "77") {
		t.Errorf("got reason %q, want no data in it", got)
	}
	s.exec(t, "DELETE FROM app.kept WHERE value = 77", "SET SESSION sql_log_bin = 1", "START SLAVE")
	d.awaitState("replica", "s2", "up")
}

// max_lag takes out a replica that is behind, whatever its threads do.
func TestMySQLLag(t *testing.T) {
	servers := startMariaDBs(t, 1)
	primary, replica := servers[0], servers[1]
	login := mysqlLogin(t) + "max_lag = \"1s\"\n"
	d := startDaemon(t, rolePools(login, mariaDBAddresses(servers)...))
	d.awaitState("replica", "s1", "up")
	replica.exec(t, "STOP SLAVE", "CHANGE MASTER TO MASTER_DELAY = 3600", "START SLAVE")
	primary.exec(t, "INSERT INTO app.kept VALUES (1)")
	d.awaitReason("replica", "s1", "s, more than 1s")
	replica.exec(t, "STOP SLAVE", "CHANGE MASTER TO MASTER_DELAY = 0", "START SLAVE")
	d.awaitState("replica", "s1", "up")
	// Without its primary nobody knows how far behind it is.
	primary.end(syscall.SIGKILL)
	d.awaitReason("replica", "s1", "does not say how far it lags: Seconds_Behind_Master is NULL, Slave_IO_Running is Connecting")
}

// Each way to encrypt, to a server that lets the user of probes in by no other.
func TestMySQLTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	cert, key := ca.issue(t, "db.test")
	m := newMariaDB(t)
	m.owns(t, ca.dir)
	if err := os.Chmod(filepath.Dir(ca.dir), 0o711); err != nil { // it is for its maker alone
		t.Fatal(err)
	}
	m.options = []string{"--ssl-ca=" + ca.file, "--ssl-cert=" + cert, "--ssl-key=" + key}
	m.address = onFreePort(t, func(port string) bool { return m.start(t, "127.0.0.1", port) })
	m.exec(t, mysqlUser+" REQUIRE SSL")
	checkTLS(t, mysqlLogin(t), m.address, ca, other, "login refused: error 1045: Access denied for user 'sluice'")

	m.exec(t, "ALTER USER sluice@'%' REQUIRE X509")
	own, ownKey := ca.issue(t, "sluice")
	encrypted := mysqlLogin(t) + "tls = \"require\"\n"
	d := startDaemon(t, rolePools(encrypted, m.address))
	d.awaitReason("primary", "s0", "login refused: error 1045: Access denied for user 'sluice'")
	d = startDaemon(t, rolePools(encrypted+fmt.Sprintf("tls_cert_file = %q\ntls_key_file = %q\n", own, ownKey), m.address))
	d.awaitState("primary", "s0", "up")
}

// A login by ed25519, and one over a unix socket.
func TestMySQLLogins(t *testing.T) {
	m := startMariaDB(t)
	m.exec(t, "INSTALL SONAME 'auth_ed25519'", "CREATE USER sluice@'%' IDENTIFIED VIA ed25519 USING PASSWORD('"+mysqlSecret+"')",
		"CREATE USER sluice@localhost IDENTIFIED BY '"+mysqlSecret+"'")
	d := startDaemon(t, rolePools(mysqlLogin(t), m.address, "unix:"+m.socket()))
	d.awaitState("primary", "s0", "up")
	d.awaitState("primary", "s1", "up")
	m.exec(t, "SET GLOBAL read_only = ON")
	d.awaitReason("primary", "s0", "read_only is ON")
	d.awaitReason("primary", "s1", "read_only is ON")
}

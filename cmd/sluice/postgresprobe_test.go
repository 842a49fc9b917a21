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

// ofProbe is the password of the user that probes log in as.
const ofProbe = "the-password-of-the-probe"

// postgresRoles starts a primary with a standby, both of which have a user of no
// more rights than a probe needs and who must log in with SCRAM, and returns the keys
// that log in as it.
func postgresRoles(t *testing.T, args ...string) (primary, standby *postgresServer, login string) {
	t.Helper()
	primary = startPostgresServer(t, args...)
	primary.ask(t, "create role sluice login password '"+ofProbe+"'")
	primary.guard(t, "host all sluice 127.0.0.1/32 scram-sha-256")
	standby = startPostgresStandby(t, primary)
	file := writeFile(t, filepath.Join(t.TempDir(), "password"), ofProbe+"\n")
	return primary, standby, fmt.Sprintf("probe = \"postgres\"\nuser = \"sluice\"\npassword_file = %q\n", file)
}

// guard puts a line before the others that say who may log in.
func (s *postgresServer) guard(t *testing.T, line string) {
	t.Helper()
	path := filepath.Join(s.data(), "pg_hba.conf")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(line+"\n"+string(text)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.ask(t, "select pg_reload_conf()")
}

// give copies a file to where the server may read it, and nobody else.
func (s *postgresServer) give(t *testing.T, from string) string {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to := writeFile(t, filepath.Join(s.home, filepath.Base(from)), string(text))
	if s.owner != nil {
		if err := os.Chown(to, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// A pool has the servers of the role that it wants, and follows when a standby is
// promoted; the log says why each is out, and never the password.
func TestPostgresRoles(t *testing.T) {
	primary, standby, login := postgresRoles(t)
	d := startDaemon(t, rolePools(login+"max_lag = \"1m\"\n", primary.address, standby.address))
	d.awaitState("primary", "s0", "up")
	d.awaitState("replica", "s1", "up")
	d.awaitReason("primary", "s1", "is a replica, and a primary is wanted")
	d.awaitReason("replica", "s0", "is a primary, and a replica is wanted")
	through := &postgresServer{address: d.frontend("write").Listen}
	through.ask(t, "create table kept (n int)")

	primary.ask(t, "alter role sluice set default_transaction_read_only = on")
	d.awaitReason("primary", "s0", "is a primary that takes no writes")
	primary.ask(t, "alter role sluice reset default_transaction_read_only")
	d.awaitState("primary", "s0", "up")

	primary.end(syscall.SIGKILL)
	d.awaitState("primary", "s0", "down") // a probe may have been under way
	standby.promote(t)
	d.awaitState("primary", "s1", "up")
	d.awaitReason("replica", "s1", "is a primary, and a replica is wanted")
	through.ask(t, "insert into kept values (1)")
	if strings.Contains(d.out.String(), ofProbe) {
		t.Error("the password is in the log")
	}
}

// A standby that does not keep up is out, for as long as that lasts; one that has
// nothing to do does not lag.
func TestPostgresLag(t *testing.T) {
	primary, standby, login := postgresRoles(t)
	primary.ask(t, "create table kept (n int)")
	d := startDaemon(t, rolePools(login+"max_lag = \"300ms\"\n", primary.address, standby.address))
	d.awaitState("replica", "s1", "up")
	eventually(t, "the standby has the table", func() bool {
		return standby.ask(t, "select count(*) from pg_tables where tablename = 'kept'") == "1"
	})
	standby.ask(t, "select pg_wal_replay_pause()")
	primary.ask(t, "insert into kept values (1)")
	d.awaitReason("replica", "s1", "more than 300ms")
	if got := d.backend("replica", "s1").LastChange.Reason; !strings.Contains(got, "lags ") {
		t.Errorf("got reason %q", got)
	}
	standby.ask(t, "select pg_wal_replay_resume()")
	d.awaitState("replica", "s1", "up")
	d.mustReload(rolePools(login+"max_lag = \"1ms\"\n", primary.address, standby.address))
	d.awaitState("replica", "s1", "up") // it has all

	primary.end(syscall.SIGKILL)
	d.awaitReason("replica", "s1", "is not connected to its primary")
}

// The kinds of encryption, and what each refuses.
func TestPostgresTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	cert, key := ca.issue(t, "db.test")
	s := startPostgresServer(t)
	s.ask(t, "create role sluice login password '"+ofProbe+"'")
	s.guard(t, "hostssl all sluice 127.0.0.1/32 scram-sha-256\nhost all sluice 127.0.0.1/32 reject")
	s.args = []string{"-c", "ssl=on", "-c", "ssl_cert_file=" + s.give(t, cert), "-c", "ssl_key_file=" + s.give(t, key),
		"-c", "ssl_ca_file=" + s.give(t, ca.file)}
	s.end(syscall.SIGINT)
	s.restart(t)
	t.Setenv("SLUICE_TEST_PASSWORD", ofProbe)
	login := "probe = \"postgres\"\nuser = \"sluice\"\npassword_env = \"SLUICE_TEST_PASSWORD\"\n"
	checkTLS(t, login, s.address, ca, other, "pg_hba.conf rejects connection")

	s.guard(t, "hostssl all sluice 127.0.0.1/32 cert")
	cert, key = ca.issue(t, "sluice")
	own := fmt.Sprintf("probe = \"postgres\"\nuser = \"sluice\"\ntls = \"verify\"\ntls_ca_file = %q\n", ca.file)
	d := startDaemon(t, rolePools(own, s.address))
	d.awaitReason("primary", "s0", "requires a valid client certificate")
	d.mustReload(rolePools(own+fmt.Sprintf("tls_cert_file = %q\ntls_key_file = %q\n", cert, key), s.address))
	d.awaitState("primary", "s0", "up")
}

// checkTLS goes through the ways to encrypt to a primary with a certificate of ca for
// db.test that takes no login without.
func checkTLS(t *testing.T, login, address string, ca, other *authority, plain string) {
	t.Helper()
	text := func(keys string, args ...any) string {
		return rolePools(login+fmt.Sprintf(keys, args...), address)
	}
	named := strings.Replace(address, "127.0.0.1", "localhost", 1)
	for _, c := range []struct{ text, reason string }{
		{text("tls = \"off\""), plain},
		{text("tls = \"require\""), ""},
		{text("tls = \"verify\""), "TLS: "},
		{text("tls = \"require\"\ntls_ca_file = %q", other.file), ""},
		{text("tls = \"verify\"\ntls_ca_file = %q", other.file), "certificate signed by unknown authority"},
		{text("tls = \"verify\"\ntls_ca_file = %q\ntls_server_name = \"db.test\"", ca.file), ""},
		{text("tls = \"verify\"\ntls_ca_file = %q\ntls_server_name = \"other.test\"", ca.file), "not other.test"},
		{text("tls = \"verify\"\ntls_ca_file = %q", ca.file), ""},
		{strings.ReplaceAll(text("tls = \"verify\"\ntls_ca_file = %q", ca.file), address, named), "not localhost"},
	} {
		d := startDaemon(t, c.text)
		if c.reason == "" {
			d.awaitState("primary", "s0", "up")
		} else {
			d.awaitReason("primary", "s0", c.reason)
		}
		d.end(syscall.SIGKILL)
	}
}

// Probes leave no word in the server's log, and no session behind.
func TestPostgresProbesLeaveNoTrace(t *testing.T) {
	s := startPostgresServer(t)
	s.ask(t, "create role sluice login password '"+ofProbe+"'")
	s.guard(t, "host all sluice 127.0.0.1/32 scram-sha-256")
	file := writeFile(t, filepath.Join(t.TempDir(), "password"), ofProbe+"\n")
	sessions := func() string { return s.ask(t, "select sessions from pg_stat_database where datname = 'postgres'") }
	eventually(t, "the server's own sessions are counted", func() bool { return sessions() != "0" })
	before := len(s.out.String())
	d := startDaemon(t, strings.ReplaceAll(rolePools(fmt.Sprintf(
		"probe = \"postgres\"\nuser = \"sluice\"\npassword_file = %q\n", file), s.address), "interval = \"100ms\"", "interval = \"5ms\""))
	d.awaitState("primary", "s0", "up")
	eventually(t, "fifty probes", func() bool {
		return s.ask(t, "select sessions > 100 from pg_stat_database where datname = 'postgres'") == "t"
	})
	if got := s.out.String()[before:]; got != "" {
		t.Errorf("the server has logged:\n%s", got)
	}
	lost := s.ask(t, "select sessions_abandoned + sessions_fatal + sessions_killed from pg_stat_database where datname = 'postgres'")
	if lost != "0" {
		t.Errorf("got %s sessions that ended badly", lost)
	}
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	eventually(t, "no session of a probe is left", func() bool {
		return s.ask(t, "select count(*) from pg_stat_activity where usename = 'sluice'") == "0"
	})
}

// The database is the one that the file names.
func TestPostgresDatabase(t *testing.T) {
	s := startPostgresServer(t)
	s.ask(t, "create role sluice login")
	s.ask(t, "create database kept")
	s.guard(t, "host kept sluice 127.0.0.1/32 trust\nhost all sluice 127.0.0.1/32 reject")
	d := startDaemon(t, rolePools("probe = \"postgres\"\nuser = \"sluice\"\n", s.address))
	d.awaitReason("primary", "s0", "pg_hba.conf rejects connection")
	d.mustReload(rolePools("probe = \"postgres\"\nuser = \"sluice\"\ndatabase = \"kept\"\n", s.address))
	d.awaitState("primary", "s0", "up")
}

// Over a unix socket a server encrypts nothing, so a probe asks for nothing.
func TestPostgresUnixSocket(t *testing.T) {
	s := startPostgresServer(t)
	s.ask(t, "create role sluice login")
	socket := "unix:" + filepath.Join(s.home, ".s.PGSQL."+portOf(t, s.address))
	d := startDaemon(t, rolePools("probe = \"postgres\"\nuser = \"sluice\"\ntls = \"verify\"\n", socket))
	d.awaitState("primary", "s0", "up")
}

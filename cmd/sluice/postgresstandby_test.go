//go:build unix

package main

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// startPostgresStandby starts a hot standby that streams from primary, and waits
// until it does.
func startPostgresStandby(t *testing.T, primary *postgresServer, args ...string) *postgresServer {
	t.Helper()
	s := newPostgres(t, args)
	host, port, err := net.SplitHostPort(primary.address)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.command(program(t, "pg_basebackup", postgresBin), "-D", s.data(), "-h", host, "-p", port, "-U", "postgres",
		"-R", "-c", "fast", "--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	s.address = onFreePort(t, func(port string) bool { return s.start(t, port) })
	s.awaitStreaming(t)
	return s
}

// awaitStreaming waits until a standby gets what its primary writes.
func (s *postgresServer) awaitStreaming(t *testing.T) {
	t.Helper()
	eventually(t, "the standby streams", func() bool {
		return s.ask(t, "select count(*) from pg_stat_wal_receiver where status = 'streaming'") == "1"
	})
}

// promote makes a standby a primary, and waits until it is one.
func (s *postgresServer) promote(t *testing.T) {
	t.Helper()
	if s.ask(t, "select pg_promote()") != "t" {
		t.Fatal("the standby was not promoted")
	}
}

// restart starts a server that has ended again, on the port that it had.
func (s *postgresServer) restart(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the port of postgres is free again", func() bool { return s.start(t, port) })
}

// ask runs sql, which may be several commands, as the superuser. It returns the
// first value of the last as a text; empty if there is none.
func (s *postgresServer) ask(t *testing.T, sql string) (value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, postgresURL(s.address))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	results, err := c.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if last := results[len(results)-1]; len(last.Rows) > 0 {
		value = string(last.Rows[0][0])
	}
	return value
}

// The helpers are what they say: a standby follows, and is a primary once promoted.
func TestPostgresStandby(t *testing.T) {
	primary := startPostgresServer(t)
	standby := startPostgresStandby(t, primary)
	primary.ask(t, "create table kept (n int); insert into kept values (7)")
	eventually(t, "the standby has the row", func() bool {
		return standby.ask(t, "select count(*) from pg_tables where tablename = 'kept'") == "1" &&
			standby.ask(t, "select n from kept") == "7"
	})
	standby.promote(t)
	standby.ask(t, "insert into kept values (8)")
	primary.end(syscall.SIGKILL)
	primary.restart(t)
}

//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// away is how long the service has no primary before one is promoted.
const away = 2 * time.Second

// holding is a frontend "write" whose pool "primary" has those servers that are a
// primary, and holds who comes while there is none.
func holding(health string, addresses ...string) string {
	var backends []string
	for i, address := range addresses {
		backends = append(backends, fmt.Sprintf("s%d=%s", i, address))
	}
	pool := poolText("primary", "single = true\non_down = \"close\"\nqueue_max = 1000\nhold_timeout = \"1m\"\nrelease_rate = 500\n", backends...)
	pool = strings.Replace(pool, "[pool.health]\n", "[pool.health]\ninit = \"probe\"\n"+health, 1)
	return head + frontendText("write", free, "primary") + pool
}

// victim is a server that is about to die.
type victim struct {
	*process
	address string
}

// kill ends it at once, and returns when nobody could reach it any more.
func (v victim) kill(t *testing.T) time.Time {
	t.Helper()
	if err := v.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		c, err := net.Dial("tcp", v.address)
		if err != nil {
			return time.Now()
		}
		c.Close()
	}
	t.Fatal("it lives on")
	return time.Time{}
}

// failOver kills a primary under load, promotes another some seconds later, and
// wants clients to see nothing of it but that they waited.
func (d *daemon) failOver(one func(address string) error, server victim, promote func()) {
	t := d.t
	t.Helper()
	d.awaitState("primary", "s0", "up")
	address := d.frontend("write").Listen
	load := startWrites(t, func() error { return one(address) })
	killed := server.kill(t)
	eventually(t, "all are held", func() bool { return d.pool("primary").Held >= writers }) // PostgreSQL's clients cancel, too
	if status, body := d.ask("GET", "/readyz/write", ""); status != 200 {
		t.Errorf("while it holds, the frontend is not ready: %s", body)
	}
	<-time.After(time.Until(killed.Add(away)))
	promote()
	promoted, before := time.Now(), load.succeeded()
	eventually(t, "clients write again", func() bool { return load.succeeded() > before+50 })
	load.stop()
	load.survived(t, killed, promoted)
	st := d.pool("primary")
	if st.Held != 0 || st.HeldTotal < writers || st.HoldTimeouts != 0 || len(st.Conflict) != 0 {
		t.Errorf("status %+v", st)
	}
}

// survived wants no write to have failed but those that had a connection at the
// kill: who came later, or waited for the promotion, was served.
func (l *writes) survived(t *testing.T, killed, promoted time.Time) {
	t.Helper()
	first, longest := time.Time{}, time.Duration(0)
	for _, w := range l.all {
		switch {
		case w.over.Before(killed), w.err != nil && w.begun.Before(killed) && w.over.Before(promoted):
		case w.err != nil:
			t.Errorf("came %v after the kill, ended %v after it: %v", w.begun.Sub(killed), w.over.Sub(killed), w.err)
		default:
			longest = max(longest, w.over.Sub(w.begun))
			if w.begun.After(killed) && (first.IsZero() || w.over.Before(first)) {
				first = w.over
			}
		}
	}
	t.Logf("%d writes; the first %v after the kill, %v after the promotion; the longest took %v", len(l.all),
		first.Sub(killed).Round(time.Millisecond), first.Sub(promoted).Round(time.Millisecond), longest.Round(time.Millisecond))
}

// setOnce writes to a Redis server on a connection of its own.
func setOnce(address string) error {
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * patience))
	if _, err := c.Write([]byte("SET kept 1\r\n")); err != nil {
		return err
	}
	got := make([]byte, 64)
	n, err := c.Read(got)
	if err == nil && string(got[:n]) != "+OK\r\n" {
		return fmt.Errorf("the server says %q", got[:n])
	}
	return err
}

// A Redis primary is killed under load, and a replica is promoted some seconds
// later: that is latency to clients, and no error.
func TestRealRedisFailover(t *testing.T) {
	primary := startRedis(t)
	replica := startRedisReplica(t, primary)
	for _, probe := range []string{
		"probe = \"redis\"\nrole = \"primary\"\n",
		"probe = \"tcp\"\nsend = \"INFO replication\\r\\n\"\nexpect = 'role:master'\n",
	} {
		d := startDaemon(t, holding(probe, primary.address, replica.address))
		d.failOver(setOnce, victim{primary.process, primary.address}, func() { replica.promote(t) })
		primary.end(syscall.SIGKILL)
		primary.restart(t)
		primary.follow(t, replica)
		primary, replica = replica, primary
	}
}

// insertOnce writes to a PostgreSQL server on a connection of its own.
func insertOnce(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	c, err := pgx.Connect(ctx, postgresURL(address))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, "insert into kept values (1)")
	return err
}

// The same of PostgreSQL, whose standby takes a while to be a primary.
func TestRealPostgresFailover(t *testing.T) {
	primary := startPostgresServer(t)
	standby := startPostgresStandby(t, primary)
	primary.ask(t, "create table kept (n int)")
	eventually(t, "the standby has the table", func() bool {
		return standby.ask(t, "select count(*) from pg_tables where tablename = 'kept'") == "1"
	})
	login := writeFile(t, t.TempDir()+"/password", "any\n")
	d := startDaemon(t, holding(fmt.Sprintf("probe = \"postgres\"\nrole = \"primary\"\nuser = \"postgres\"\npassword_file = %q\n", login), primary.address, standby.address))
	d.failOver(insertOnce, victim{primary.process, primary.address}, func() { standby.promote(t) })
	primary.end(syscall.SIGKILL)
}

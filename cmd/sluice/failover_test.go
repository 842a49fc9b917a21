//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
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

// writers are clients that connect, write, and close, without a pause and again
// and again.
type writers struct {
	t     *testing.T
	write func() error
	stop  chan struct{}
	all   sync.WaitGroup

	mu     sync.Mutex
	writes []write
}

// write is one attempt to connect and write.
type write struct {
	began, ended time.Time
	err          error
}

func startWriters(t *testing.T, n int, one func() error) *writers {
	w := &writers{t: t, write: one, stop: make(chan struct{})}
	for range n {
		w.all.Go(w.run)
	}
	return w
}

func (w *writers) run() {
	for {
		select {
		case <-w.stop:
			return
		default:
		}
		one := write{began: time.Now()}
		one.err = w.write()
		one.ended = time.Now()
		w.mu.Lock()
		w.writes = append(w.writes, one)
		w.mu.Unlock()
	}
}

// after returns how many that began after that moment have succeeded.
func (w *writers) after(at time.Time) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.writes {
		if one.began.After(at) && one.err == nil {
			n++
		}
	}
	return n
}

// survive ends the writers, and wants no write to have failed but those that were
// under way at the kill, and did not wait for the promotion. It returns when the first that began later was done, and
// how long the longest took.
func (w *writers) survive(killed, promoted time.Time) (first time.Time, longest time.Duration) {
	w.t.Helper()
	close(w.stop)
	w.all.Wait()
	slices.SortFunc(w.writes, func(a, b write) int { return a.ended.Compare(b.ended) })
	failed := 0
	for _, one := range w.writes {
		switch {
		case one.ended.Before(killed), one.err != nil && one.began.Before(killed) && one.ended.Before(promoted):
		case one.err != nil:
			failed++
			w.t.Errorf("began %v after the kill, ended %v after it: %v", one.began.Sub(killed), one.ended.Sub(killed), one.err)
		default:
			longest = max(longest, one.ended.Sub(one.began))
			if first.IsZero() {
				first = one.ended
			}
		}
	}
	w.t.Logf("%d writes, %d that waited or came later failed", len(w.writes), failed)
	return first, longest
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

// failOver kills a primary under load, promotes another, and wants clients to see
// nothing of it but that they waited.
func (d *daemon) failOver(one func(address string) error, server victim, promote func()) {
	t := d.t
	t.Helper()
	d.awaitState("primary", "s0", "up")
	address := d.frontend("write").Listen
	w := startWriters(t, 8, func() error { return one(address) })
	eventually(t, "there is load", func() bool { return w.after(time.Time{}) > 100 })
	killed := server.kill(t)
	defer func() {
		if t.Failed() {
			_, sessions := d.ask("GET", "/sessions", "")
			t.Logf("pool %+v\nsessions %s", d.pool("primary"), sessions)
		}
	}()
	eventually(t, "all are held", func() bool { return d.pool("primary").Held >= 8 }) // PostgreSQL's clients cancel, too
	if status, body := d.ask("GET", "/readyz/write", ""); status != 200 {
		t.Errorf("while it holds, the frontend is not ready: %s", body)
	}
	<-time.After(time.Until(killed.Add(away)))
	promote()
	promoted := time.Now()
	eventually(t, "there is load again", func() bool { return w.after(promoted) > 100 })
	first, longest := w.survive(killed, promoted)
	t.Logf("first write %v after the kill, %v after the promotion; the longest took %v",
		first.Sub(killed).Round(time.Millisecond), first.Sub(promoted).Round(time.Millisecond), longest.Round(time.Millisecond))
	st := d.pool("primary")
	if st.Held != 0 || st.HeldTotal == 0 || st.HoldTimeouts != 0 || len(st.Conflict) != 0 {
		t.Errorf("status %+v", st)
	}
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

//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mariaDB is a MariaDB server on a data directory of its own. Its root has no
// password, and comes in by the unix socket alone.
type mariaDB struct {
	*process
	address string
	dir     string // for the files of the server, and its socket
	owner   *syscall.Credential
	options []string // of the command line, after those that every server gets
	root    *sql.DB
}

// startMariaDB starts a MariaDB server on a free port of the loopback, with those
// options of its command line beside the usual ones.
func startMariaDB(t *testing.T, options ...string) *mariaDB {
	t.Helper()
	m := newMariaDB(t, options...)
	m.address = onFreePort(t, func(port string) bool { return m.start(t, "127.0.0.1", port) })
	return m
}

// small are options of a server whose files are made, moved and lost quickly: with
// the defaults they are five times as large, and take four times as long to make.
func small() []string {
	return []string{"--innodb-log-file-size=4M", "--innodb-buffer-pool-size=8M", "--innodb-flush-log-at-trx-commit=0",
		"--innodb-flush-method=nosync", "--performance-schema=OFF"}
}

// startTime bounds the start of a server, which may have to get all its files from
// another first. Chosen, not measured.
const startTime = time.Minute

// newMariaDB makes the files of a server that does not run yet.
func newMariaDB(t *testing.T, options ...string) *mariaDB {
	t.Helper()
	install := program(t, "mariadb-install-db")
	dir, err := os.MkdirTemp("", "mariadb") // a short name: the socket's path has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &mariaDB{dir: dir, owner: unprivileged(t), options: options}
	m.owns(t, dir)
	out, err := m.command(install, append(small(), "--datadir="+m.data(), "--auth-root-authentication-method=normal", "--skip-test-db")...).CombinedOutput()
	if err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	m.root = mariaDBClient(t, "unix:"+m.socket(), "root", "")
	return m
}

func (m *mariaDB) data() string   { return filepath.Join(m.dir, "data") }
func (m *mariaDB) socket() string { return filepath.Join(m.dir, "s") }

// owns gives a directory and what is in it to whom the server runs as.
func (m *mariaDB) owns(t *testing.T, dir string) {
	t.Helper()
	if m.owner == nil {
		return
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range append(files, dir) {
		err = errors.Join(err, os.Chown(name, int(m.owner.Uid), int(m.owner.Gid)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// command returns a program of MariaDB that reads no file of the system.
func (m *mariaDB) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, append([]string{"--no-defaults"}, args...)...)
	c.Dir = m.dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: m.owner}
	return c
}

// start starts the server on that port and waits until it answers. It returns
// false if it could not have the port. The server takes no care of its files.
func (m *mariaDB) start(t *testing.T, host, port string) (bound bool) {
	t.Helper()
	options := append(small(), "--datadir="+m.data(), "--socket="+m.socket(), "--bind-address="+host, "--port="+port,
		"--pid-file="+filepath.Join(m.dir, "pid"))
	m.process = startProcess(t, m.command(program(t, "mariadbd", "/usr/sbin"), append(options, m.options...)...))
	eventuallyIn(t, startTime, "mariadbd answers", func() bool {
		bound = m.root.PingContext(t.Context()) == nil
		return bound || m.ended()
	})
	if !bound && !strings.Contains(m.out.String(), "Address already in use") {
		t.Fatalf("mariadbd ended: %v\n%s", m.err, tail(m.out.String(), 4<<10))
	}
	return bound
}

// exec runs statements as root.
func (m *mariaDB) exec(t *testing.T, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := m.root.ExecContext(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// ask returns the columns of the first row that root gets, by name.
func (m *mariaDB) ask(t *testing.T, query string) map[string]string {
	t.Helper()
	rows, err := m.root.QueryContext(context.Background(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil || !rows.Next() {
		return nil
	}
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	row := map[string]string{}
	for i, name := range names {
		row[name] = values[i].String
	}
	return row
}

// status is a number of SHOW STATUS.
func (m *mariaDB) status(t *testing.T, name string) int {
	t.Helper()
	n, err := strconv.Atoi(m.ask(t, "SHOW GLOBAL STATUS LIKE '"+name+"'")["Value"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// mariaDBClient returns a client that tries everything just once, over one
// connection that it makes when it needs one.
func mariaDBClient(t *testing.T, address, user, password string) *sql.DB {
	t.Helper()
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.Logger = "tcp", address, user, password, &mysql.NopLogger{}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		c.Net, c.Addr = "unix", path
	}
	c.Timeout, c.ReadTimeout, c.WriteTimeout = patience, patience, patience
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

// A server that speaks first, and answers larger than any buffer on the way.
func TestRealMariaDB(t *testing.T) {
	m := startMariaDB(t, "--max-allowed-packet=64M")
	m.exec(t, "CREATE USER app@'%' IDENTIFIED BY 'a password'")
	b := startSluice(t, "", "", m.address)
	client := mariaDBClient(t, b.address, "app", "a password")
	const length = 20 << 20
	var text string
	if err := client.QueryRowContext(t.Context(), fmt.Sprintf("SELECT REPEAT('0123456789', %d)", length/10)).Scan(&text); err != nil {
		t.Fatal(err)
	}
	if len(text) != length || strings.Count(text, "0123456789") != length/10 {
		t.Errorf("got %d bytes, want %d of digits", len(text), length)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	b.quiet()
	b.await("the record of the session", "session")
	if r := b.lines("session")[0]; r["code"] != "--" || r["backend"] != "b0" {
		t.Errorf("got record %v, want that it has ended well", r)
	}
}

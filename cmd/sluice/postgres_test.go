//go:build unix

package main

import (
	"bufio"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// postgresBin is where Debian keeps the programs of the server.
const postgresBin = "/usr/lib/postgresql/*/bin"

// postgresServer is a PostgreSQL that trusts everybody and takes no care of its files.
type postgresServer struct {
	*process
	address string
	home    string // of its files, and of its unix socket
	owner   *syscall.Credential
	args    []string // of this one
}

// startPostgres starts a PostgreSQL server on a new cluster, and returns its
// address.
func startPostgres(t *testing.T) (address string) {
	t.Helper()
	return startPostgresServer(t).address
}

// startPostgresServer is startPostgres with args such as "-c", "ssl=on".
func startPostgresServer(t *testing.T, args ...string) *postgresServer {
	t.Helper()
	s := newPostgres(t, args)
	out, err := s.command(program(t, "initdb", postgresBin), "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8",
		"--no-locale", "--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.address = onFreePort(t, func(port string) bool { return s.start(t, port) })
	return s
}

func newPostgres(t *testing.T, args []string) *postgresServer {
	t.Helper()
	s := &postgresServer{home: t.TempDir(), owner: unprivileged(t), args: args}
	if s.owner != nil {
		// The directory above is for its maker alone.
		err := errors.Join(os.Chmod(filepath.Dir(s.home), 0o711), os.Chown(s.home, int(s.owner.Uid), int(s.owner.Gid)))
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *postgresServer) data() string { return filepath.Join(s.home, "data") }

// command is a program that works on the files of the server.
func (s *postgresServer) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = s.home
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	return c
}

// start starts the server on port, and waits until it answers there. It returns
// false if it could not have the port.
func (s *postgresServer) start(t *testing.T, port string) (bound bool) {
	t.Helper()
	s.process = startProcess(t, s.command(program(t, "postgres", postgresBin), append([]string{"-D", s.data(), "-p", port,
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + s.home,
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_wal_size=4GB"}, s.args...)...))
	eventually(t, "postgres answers", func() bool {
		bound = dataDirectory(net.JoinHostPort("127.0.0.1", port)) == s.data()
		return bound || s.ended()
	})
	if !bound && !strings.Contains(s.out.String(), "Address already in use") {
		t.Fatalf("postgres ended: %v\n%s", s.err, s.out.String())
	}
	// Sessions are cut off: a session left open must not hold up the end.
	p := s.process
	t.Cleanup(func() { _ = p.end(syscall.SIGINT) })
	return bound
}

// dataDirectory asks the server at address where its files are; empty if it
// does not answer.
func dataDirectory(address string) (dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, postgresURL(address))
	if err != nil {
		return ""
	}
	defer c.Close(ctx)
	// An error leaves dir empty.
	_ = c.QueryRow(ctx, "show data_directory").Scan(&dir)
	return dir
}

// unprivileged returns whom a server runs as that refuses to be run by root;
// nil is whoever runs the test.
func unprivileged(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	t.Skip("SKIPPED: there is no unprivileged user to run PostgreSQL as")
	return nil
}

func postgresURL(address string) string {
	return "postgres://postgres@" + address + "/postgres?sslmode=disable"
}

// connectPostgres returns a connection whose context, when it is canceled,
// cancels the query and not the connection.
func connectPostgres(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(postgresURL(address))
	if err != nil {
		t.Fatal(err)
	}
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: patience}
	}
	c, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c.Close(ctx) // fails where the server has ended it
	})
	return c
}

func TestRealPostgres(t *testing.T) {
	address := startPostgres(t)
	for name, test := range map[string]func(t *testing.T, b *sluice, address string){
		"query":     testPostgresQuery,
		"copy":      testPostgresCopy,
		"cancel":    testPostgresCancel,
		"terminate": testPostgresTerminate,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, startSluice(t, "", "", address), address)
		})
	}
}

func testPostgresQuery(t *testing.T, b *sluice, _ string) {
	c := connectPostgres(t, b.address)
	var sum int
	if err := c.QueryRow(t.Context(), "select sum(i) from generate_series(1, $1) as i", 1000).Scan(&sum); err != nil {
		t.Fatal(err)
	}
	if sum != 500500 {
		t.Errorf("got %d, want 500500", sum)
	}
}

// The rows that are copied: 100 MB in all.
const (
	copiedRows  = 100_000
	copiedBytes = 1000 // of the text of one row
)

// copied generates the rows, in the text format of COPY.
type copied struct {
	random *rand.ChaCha8
	texts  hash.Hash // of all texts so far
	row    int
	buffer [copiedBytes / 2]byte
	line   []byte
	rest   []byte // of line, not yet read
}

func newCopied() *copied {
	return &copied{random: rand.NewChaCha8([32]byte{1}), texts: md5.New()}
}

func (r *copied) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.rest) == 0 {
			if r.row == copiedRows {
				return n, io.EOF
			}
			r.next()
		}
		m := copy(p[n:], r.rest)
		n, r.rest = n+m, r.rest[m:]
	}
	return n, nil
}

func (r *copied) next() {
	r.row++
	r.random.Read(r.buffer[:]) // never fails
	r.line = fmt.Appendf(r.line[:0], "%d\t", r.row)
	from := len(r.line)
	r.line = hex.AppendEncode(r.line, r.buffer[:])
	r.texts.Write(r.line[from:])
	r.line = append(r.line, '\n')
	r.rest = r.line
}

// A hundred megabytes go each way, and arrive as they were sent.
func testPostgresCopy(t *testing.T, b *sluice, address string) {
	c := connectPostgres(t, b.address)
	if _, err := c.Exec(t.Context(), "create unlogged table copied (id int, text text)"); err != nil {
		t.Fatal(err)
	}
	rows, sent, received := newCopied(), sha256.New(), sha256.New()

	start := time.Now()
	tag, err := c.PgConn().CopyFrom(t.Context(), bufio.NewReader(io.TeeReader(rows, sent)), "copy copied from stdin")
	if err != nil || tag.RowsAffected() != copiedRows {
		t.Fatalf("got %v, %v; want %d rows", tag, err, copiedRows)
	}
	in := time.Since(start)
	after := b.backend(0)
	if after.BytesToBack < copiedRows*copiedBytes || after.BytesToClient > 1<<20 {
		t.Errorf("after the copy in: got %d bytes to_backend and %d to_client", after.BytesToBack, after.BytesToClient)
	}

	var count int
	var sum string
	direct := connectPostgres(t, address)
	if err := direct.QueryRow(t.Context(), "select count(*), md5(string_agg(text, '' order by id)) from copied").Scan(&count, &sum); err != nil {
		t.Fatal(err)
	}
	if want := hex.EncodeToString(rows.texts.Sum(nil)); count != copiedRows || sum != want {
		t.Errorf("the server has %d rows of sum %s, want %d of %s", count, sum, copiedRows, want)
	}

	start = time.Now()
	if _, err := c.PgConn().CopyTo(t.Context(), received, "copy (select * from copied order by id) to stdout"); err != nil {
		t.Fatal(err)
	}
	out := time.Since(start)
	if got, want := received.Sum(nil), sent.Sum(nil); string(got) != string(want) {
		t.Errorf("got rows of SHA-256 %x, want %x", got, want)
	}
	if got := b.backend(0).BytesToClient; got < copiedRows*copiedBytes {
		t.Errorf("after the copy out: got %d bytes to_client", got)
	}
	rate := func(d time.Duration) float64 { return copiedRows * copiedBytes / 1e6 / d.Seconds() }
	t.Logf("figures: COPY of 100 MB through sluice, MB a second: %.0f in, %.0f out", rate(in), rate(out))
}

// To cancel a query, a client sends a request on a connection of its own.
func testPostgresCancel(t *testing.T, b *sluice, address string) {
	c, direct := connectPostgres(t, b.address), connectPostgres(t, address)
	sleeping := func() (n int) {
		if err := direct.QueryRow(t.Context(), "select count(*) from pg_stat_activity where state = 'active' and pid = $1",
			c.PgConn().PID()).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, "select pg_sleep(30)")
		ended <- err
	}()
	eventually(t, "the query runs", func() bool { return sleeping() == 1 })

	cancel()
	select {
	case err := <-ended:
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "57014" {
			t.Fatalf("got %v, want the server's word that the query was canceled", err)
		}
	case <-time.After(patience):
		t.Fatal("the query was not canceled")
	}
	if n := sleeping(); n != 0 {
		t.Error("the server goes on with the query")
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("the connection did not survive: %v", err)
	}
	if total := b.frontend("front").Total; total != 2 {
		t.Errorf("got %d sessions, want the one of the query and the one that canceled it", total)
	}
}

// A session that the server ends is over for the client and for the balancer.
func testPostgresTerminate(t *testing.T, b *sluice, address string) {
	c, direct := connectPostgres(t, b.address), connectPostgres(t, address)
	var done bool
	if err := direct.QueryRow(t.Context(), "select pg_terminate_backend($1, 10000)", c.PgConn().PID()).Scan(&done); err != nil || !done {
		t.Fatalf("got %v, %v; want the session to be terminated", done, err)
	}
	var e *pgconn.PgError
	if err := c.Ping(t.Context()); !errors.As(err, &e) || e.Code != "57P01" {
		t.Errorf("got %v, want the server's word that it has terminated the connection", err)
	}
	b.quiet()
	b.await("the record of the session", "session")
	if r := b.lines("session")[0]; r["cause"] != "backend_closed" || r["code"] != "--" || r["backend"] != "b0" {
		t.Errorf("got record %v, want that the backend has closed it", r)
	}
}

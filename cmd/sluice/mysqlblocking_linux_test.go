package main

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/pool/health"
	"sluice/pool/health/mysql"

	driver "github.com/go-sql-driver/mysql"
)

// elsewhereAddress is one of the test's own network that is no loopback's: MariaDB
// never blocks 127.0.0.1.
const elsewhereAddress = "192.0.2.1"

// errHostBlocked is ER_HOST_IS_BLOCKED: max_connect_errors was reached.
const errHostBlocked = 1129

// startMariaDBElsewhere starts a server that blocks a host after five errors, in a
// network of this goroutine's own, at an address that has a name: MariaDB counts
// errors of hosts that it could look up alone.
func startMariaDBElsewhere(t *testing.T) *mariaDB {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: a network of its own needs root")
	}
	inNetwork(t)
	ip(t, "addr", "add", elsewhereAddress+"/32", "dev", "lo")
	ip(t, "link", "set", "lo", "up")
	hosts := writeFile(t, filepath.Join(t.TempDir(), "hosts"), "127.0.0.1 localhost\n"+elsewhereAddress+" balancer.example\n")
	if err := errors.Join(
		os.Chmod(hosts, 0o644), // for whoever the server runs as
		syscall.Unshare(syscall.CLONE_NEWNS),
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount(hosts, "/etc/hosts", "", syscall.MS_BIND, ""),
	); err != nil {
		t.Skipf("SKIPPED: no names of its own: %v", err)
	}
	m := newMariaDB(t, "--max-connect-errors=5", "--performance-schema=ON")
	m.address = net.JoinHostPort(elsewhereAddress, "3306") // all ports of the network are free
	if !m.start(t, elsewhereAddress, "3306") {
		t.Fatal("port 3306 is taken")
	}
	m.exec(t, mysqlUser, "CREATE USER app@'%' IDENTIFIED BY 'app'")
	return m
}

// counted are the errors that the server holds against the address of the test.
func (m *mariaDB) counted(t *testing.T) (blocking, denied int) {
	t.Helper()
	row := m.ask(t, "SELECT SUM_CONNECT_ERRORS AS blocking, COUNT_AUTHENTICATION_ERRORS AS denied "+
		"FROM performance_schema.host_cache WHERE IP = '"+elsewhereAddress+"'")
	blocking, _ = strconv.Atoi(row["blocking"])
	denied, _ = strconv.Atoi(row["denied"])
	return blocking, denied
}

// letsIn reports what a client of the address of the test is told that logs in.
func (m *mariaDB) letsIn(t *testing.T) error {
	t.Helper()
	client := mariaDBClient(t, m.address, "app", "app")
	defer client.Close()
	return client.PingContext(t.Context())
}

// quietSince fails the test if the server has logged something of a connection
// since its log had that length.
func (m *mariaDB) quietSince(t *testing.T, length int) {
	t.Helper()
	for line := range strings.Lines(m.out.String()[length:]) {
		if strings.Contains(strings.ToLower(line), "connection") || strings.Contains(line, "Access denied") {
			t.Errorf("the server logged %s", line)
		}
	}
}

// startDaemonElsewhere starts a balancer in the network of this goroutine, whose
// pool p probes backend A at the server with those keys. It answers over a unix
// socket, which is in every network.
func startDaemonElsewhere(t *testing.T, m *mariaDB, health string) *daemon {
	t.Helper()
	admin := filepath.Join(t.TempDir(), "admin")
	d := startDaemon(t, jsonLog+"[admin]\nlisten = \"unix:"+admin+"\"\n"+
		frontendText("f", "unix:"+filepath.Join(t.TempDir(), "f"), "p")+
		"[[pool]]\nname = \"p\"\n[[pool.backend]]\nid = \"A\"\naddress = \""+m.address+"\"\n"+
		"[pool.health]\ninterval = \"10ms\"\ndown_interval = \"10ms\"\nfall = 1\nrise = 1\n"+health)
	d.admin = admin
	return d
}

// failures is how many probes of backend A have failed.
func failures(t *testing.T, d *daemon) int {
	t.Helper()
	over := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", d.admin)
		}}, Timeout: patience}
	answer, err := over.Get("http://localhost/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text := new(strings.Builder)
	if err := answer.Write(text); err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(text.String(), "\nsluice_probe_failures_total{backend=\"A\",pool=\"p\"} ")
	line, _, _ := strings.Cut(after, "\n")
	n, _ := strconv.ParseFloat(strings.TrimSpace(line), 64)
	return int(n)
}

// B069: whatever happens to fifty probes, and whatever they say, the server lets in
// who comes from where they came from.
func TestMySQLProbesBlockNobody(t *testing.T) {
	const many = 50
	login := mysqlLogin(t)
	t.Run("pass", func(t *testing.T) {
		m := startMariaDBElsewhere(t)
		before, log := m.status(t, "Connections"), len(m.out.String())
		d := startDaemonElsewhere(t, m, login+"timeout = \"5s\"\nrole = \"primary\"\n")
		eventually(t, "fifty probes", func() bool { return m.status(t, "Connections") >= before+many })
		if got := failures(t, d); got != 0 {
			t.Errorf("%d probes failed", got)
		}
		d.end(syscall.SIGTERM)
		m.spares(t, 0)
		m.quietSince(t, log)
	})
	t.Run("the password is wrong", func(t *testing.T) {
		m := startMariaDBElsewhere(t)
		probe := func() health.Probe {
			return mysql.Probe(dialTarget, mysql.Options{User: "sluice", Password: "another password"})
		}
		for range many {
			if err := probe()(t.Context(), health.Target{Address: m.address}); err == nil || !strings.Contains(err.Error(), "error 1045: Access denied for user") {
				t.Fatalf("got %v", err)
			}
		}
		m.spares(t, many)
		m.exec(t, "FLUSH HOSTS")
		// One that goes on does not ask in vain every time.
		same := probe()
		for range many {
			if err := same(t.Context(), health.Target{Address: m.address}); err == nil || !strings.Contains(err.Error(), "error 1045: Access denied for user") {
				t.Fatalf("got %v", err)
			}
		}
		m.spares(t, 3)
	})
	t.Run("the server stands still", func(t *testing.T) {
		m := startMariaDBElsewhere(t)
		d := startDaemonElsewhere(t, m, login+"timeout = \"20ms\"\n")
		log := len(m.out.String())
		m.stands(t, func() {
			before := failures(t, d)
			eventually(t, "fifty probes fail", func() bool { return failures(t, d) >= before+many })
		})
		eventually(t, "the server is up again", func() bool { return len(d.lines("backend up")) > 0 })
		d.end(syscall.SIGTERM)
		m.spares(t, 0)
		m.quietSince(t, log)
	})
	t.Run("the server stands still for ever", func(t *testing.T) {
		m := startMariaDBElsewhere(t)
		const few = 10 // enough to block a host, if they counted
		probe := mysql.Probe(dialTarget, mysql.Options{User: "sluice", Password: mysqlSecret})
		m.stands(t, func() {
			for range few { // without a monitor each is given up
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				if err := probe(ctx, health.Target{Address: m.address}); err == nil {
					t.Error("a probe passed")
				}
				cancel()
			}
		})
		eventually(t, "the server has seen them", func() bool { return m.status(t, "Connection_errors_peer_address") == few })
		m.spares(t, 0)
	})
	t.Run("the server is full", func(t *testing.T) {
		m := startMariaDBElsewhere(t)
		m.exec(t, "SET GLOBAL max_connections = 10") // the least; root may have one more
		var clients []*sql.DB
		for range 10 {
			client := mariaDBClient(t, m.address, "app", "app")
			if err := client.PingContext(t.Context()); err != nil {
				break
			}
			clients = append(clients, client)
		}
		probe := mysql.Probe(dialTarget, mysql.Options{User: "sluice", Password: mysqlSecret})
		for range many {
			if err := probe(t.Context(), health.Target{Address: m.address}); err == nil || !strings.Contains(err.Error(), "error 1040: Too many connections") {
				t.Fatalf("got %v", err)
			}
		}
		for _, client := range clients {
			client.Close()
		}
		m.exec(t, "SET GLOBAL max_connections = 100")
		m.spares(t, 0)
	})
}

// A plain TCP probe, however politely it closes, does get its host blocked.
func TestTCPProbesBlockTheirHost(t *testing.T) {
	m := startMariaDBElsewhere(t)
	startDaemonElsewhere(t, m, "timeout = \"5s\"\n")
	eventually(t, "five errors", func() bool {
		blocking, _ := m.counted(t)
		return blocking >= 5
	})
	var said *driver.MySQLError
	if err := m.letsIn(t); !errors.As(err, &said) || said.Number != errHostBlocked {
		t.Errorf("got %v, want that the host is blocked", err)
	}
}

// spares fails the test if the server holds something against the address of the
// test that may block it, or more denials than that, or does not let it in.
func (m *mariaDB) spares(t *testing.T, mostDenied int) {
	t.Helper()
	blocking, denied := m.counted(t)
	if blocking != 0 || denied > mostDenied {
		t.Errorf("the server has counted %d errors that block, want none, and %d denials, want %d at most", blocking, denied, mostDenied)
	}
	if err := m.letsIn(t); err != nil {
		t.Errorf("the server does not let in a client of that host: %v", err)
	}
}

// stands runs f while the server stands still.
func (m *mariaDB) stands(t *testing.T, f func()) {
	t.Helper()
	defer m.cmd.Process.Signal(syscall.SIGCONT)
	if err := m.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f()
}

// dialTarget connects as a balancer does, on the thread of its caller.
func dialTarget(ctx context.Context, t health.Target) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", t.Address)
}

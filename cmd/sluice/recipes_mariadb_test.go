//go:build unix

package main

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// The node that takes the writes dies under load: who comes then has another, as
// soon as the cluster has understood. One that is left alone of two gets nobody.
func TestRecipeMariaDBGalera(t *testing.T) {
	nodes := startGalera(t, 3)
	d := startRecipe(t, "mariadb-galera",
		"0.0.0.0:3306", free, "0.0.0.0:3307", free,
		"10.0.0.31:3306", nodes[0].address, "10.0.0.32:3306", nodes[1].address, "10.0.0.33:3306", nodes[2].address,
		"/etc/sluice/mariadb.password", writeFile(t, filepath.Join(t.TempDir(), "password"), mysqlSecret+"\n"))
	for _, id := range []string{"galera-1", "galera-2", "galera-3"} {
		d.awaitState("galera-writer", id, "up")
		d.awaitState("galera-readers", id, "up")
	}
	writer, reader := d.frontend("galera-write").Listen, d.frontend("galera-read").Listen

	load := startWrites(t, func() error { return galeraInsert(writer) })
	if got := d.backend("galera-writer", "galera-2").Total; got != 0 {
		t.Errorf("%d sessions went to the second node, want all writes on the first", got)
	}
	figures := load.failover(t, func() { nodes[0].end(syscall.SIGKILL) }, func() {})
	t.Logf("figures: mariadb-galera: %s", figures)
	eventually(t, "a read finds what was written", func() bool { return countKept(t, reader) > 50 })

	nodes[1].exec(t, "SET GLOBAL wsrep_desync = ON")
	d.awaitReason("galera-writer", "galera-2", "wsrep_local_state is 2 (Donor/Desynced)")
	if err := galeraInsert(writer); err != nil {
		t.Errorf("a write while a node is desynced: %v", err)
	}
	nodes[1].exec(t, "SET GLOBAL wsrep_desync = OFF")
	d.awaitState("galera-writer", "galera-2", "up")

	nodes[1].end(syscall.SIGKILL)
	d.awaitReason("galera-readers", "galera-3", "wsrep_")
	d.awaitReason("galera-writer", "galera-3", "wsrep_")
}

// galeraInsert connects, writes once, and leaves.
func galeraInsert(address string) error {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName, c.Logger = "tcp", address, "app", "app", "app", &mysql.NopLogger{}
	c.Timeout, c.ReadTimeout, c.WriteTimeout = patience, patience, patience
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	client, err := connector.Connect(context.Background()) // sql.DB would try again by itself
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	defer client.Close()
	_, err = client.(driver.ExecerContext).ExecContext(context.Background(), fmt.Sprintf("REPLACE INTO kept VALUES (%d)", rand.Int32()), nil)
	return err
}

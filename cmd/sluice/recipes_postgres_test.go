//go:build unix

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A primary dies under load and its standby is promoted: nobody who comes then
// sees more of it than a statement that takes longer.
func TestRecipePostgresStandbys(t *testing.T) {
	const password = "the-password-of-the-probe"
	primary := startPostgresServer(t)
	primary.ask(t, "create role sluice login password '"+password+"'; create table kept (n int)")
	standby := startPostgresStandby(t, primary)
	d := startRecipe(t, "postgres-standbys",
		"0.0.0.0:5432", free, "0.0.0.0:5433", free, "10.0.0.21:5432", primary.address, "10.0.0.22:5432", standby.address,
		"/etc/sluice/postgres.password", writeFile(t, filepath.Join(t.TempDir(), "password"), password+"\n"))
	d.awaitState("postgres-primary", "pg-1", "up")
	d.awaitState("postgres-standbys", "pg-2", "up")
	d.awaitState("postgres-standbys", "pg-1", "down")
	writer, reader := d.frontend("postgres-write").Listen, d.frontend("postgres-read").Listen

	load := startWrites(t, func() error { return postgresOnce(writer, "insert into kept values (7)") })
	eventually(t, "the standby answers reads", func() bool {
		return postgresOnce(reader, "select 1 / (case when pg_is_in_recovery() then 1 else 0 end)") == nil
	})
	figures := load.failover(t, func() { primary.end(syscall.SIGQUIT) }, func() { standby.promote(t) })
	t.Logf("figures: postgres-standbys: %s", figures)
	d.awaitState("postgres-primary", "pg-2", "up")
}

// postgresOnce connects, has one statement done, and leaves.
func postgresOnce(address, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, postgresURL(address))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, sql)
	return err
}

package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice/pool/health"

	"github.com/go-sql-driver/mysql"
)

// What a server is asked. Each is a SHOW, which a node of Galera answers even if it
// is not ready, and a name that a server does not have is no error.
const (
	askVariables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN " +
		"('read_only', 'super_read_only', 'innodb_read_only', 'version', 'wsrep_on', 'wsrep_reject_queries')"
	askGalera = "SHOW GLOBAL STATUS WHERE Variable_name IN " +
		"('wsrep_ready', 'wsrep_cluster_status', 'wsrep_local_state', 'wsrep_local_state_comment')"
)

// row is one row of an answer, by names of columns; what is NULL is empty.
type row map[string]string

// fits asks what o wants to know, and returns why the server does not fit.
func (s session) fits(ctx context.Context, o Options) (err error) {
	defer recovered(&err)
	primary := o.Role == "primary"
	replicas := o.Role == "replica" || !primary && o.MaxLag > 0
	if !primary && !replicas && !o.WsrepReady {
		return nil // it has let us in
	}
	variables, err := s.pairs(ctx, askVariables, o)
	if err != nil {
		return err
	}
	if o.WsrepReady {
		if err := s.isSynced(ctx, variables, o); err != nil {
			return err
		}
	}
	if primary {
		return writable(variables)
	}
	if !replicas {
		return nil
	}
	sources, err := s.rows(ctx, sourcesQuery(variables["version"]), o)
	if err != nil {
		return err
	}
	return o.replicates(sources)
}

func (s session) isSynced(ctx context.Context, variables row, o Options) error {
	status, err := s.pairs(ctx, askGalera, o)
	if err != nil {
		return err
	}
	return synced(variables, status)
}

// pairs returns the rows of an answer of names and values.
func (s session) pairs(ctx context.Context, query string, o Options) (row, error) {
	rows, err := s.rows(ctx, query, o)
	pairs := row{}
	for _, r := range rows {
		pairs[strings.ToLower(r["Variable_name"])] = r["Value"]
	}
	return pairs, err
}

// rows returns the answer to a query.
func (s session) rows(ctx context.Context, query string, o Options) ([]row, error) {
	all, err := s.query(ctx, query)
	var said *mysql.MySQLError
	name := strings.Join(strings.Fields(query)[:3], " ")
	switch {
	case err == nil:
		return all, nil
	case errors.As(err, &said):
		return nil, fmt.Errorf("%s: %s", name, words(said, o.Password))
	case ctx.Err() != nil:
		return nil, errors.New(loggedIn.String())
	case s.wire.fault != nil:
		return nil, fmt.Errorf("%s: got %s", name, ending(s.wire.fault))
	}
	return nil, fmt.Errorf("%s: %s", name, health.Said(err.Error(), o.Password))
}

func (s session) query(ctx context.Context, query string) (all []row, err error) {
	answer, err := s.conn.(driver.QueryerContext).QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	names := answer.Columns()
	values := make([]driver.Value, len(names))
	for {
		err := answer.Next(values)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, named(names, values))
	}
}

func named(names []string, values []driver.Value) row {
	r := row{}
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			r[names[i]] = ""
		case []byte:
			r[names[i]] = string(v)
		default:
			r[names[i]] = fmt.Sprint(v)
		}
	}
	return r
}

// Package postgres asks a PostgreSQL server which role it has, and whether it is
// fit for it.
//
// It owns what is asked, and what follows from the answers. It does not know the
// schedule, which is package health's, nor how a server is reached: that is the
// Dial that it is given. A probe is one new connection:
//
//	dial, TLS --> login --> one query --> Terminate
//
// and needs a user that may connect to the database, and no more than that:
//
//	CREATE ROLE sluice LOGIN PASSWORD 'PASSWORD'
//
// Invariants:
//
//   - Nothing of the environment counts: no PG variable, no .pgpass, no service file.
//   - Nothing is tried twice, and no connection and no goroutine is left behind.
//   - The password is in no error.
package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"sluice/pool/health"

	"github.com/jackc/pgx/v5/pgconn"
)

// Options are how to log in, and what a server must be.
type Options struct {
	User     string
	Password string      // empty: none
	Database string      // empty: postgres
	TLS      *tls.Config // nil: none; without a ServerName it is the host probed

	Role   string        // "primary", "replica", or any
	MaxLag time.Duration // of a replica; 0: not looked at
}

// Probe returns a probe of servers that must be as o says. It is safe for
// concurrent use.
func Probe(dial health.Dial, o Options) health.Probe {
	return func(ctx context.Context, t health.Target) error {
		c, err := dial(ctx, t)
		if err != nil {
			return err
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		set, err := o.library(health.Bounded(c), t)
		if err != nil {
			return err
		}
		server, err := pgconn.ConnectConfig(ctx, set)
		if err != nil {
			return o.refusal(ctx, err)
		}
		err = o.look(ctx, server)
		c.SetDeadline(time.Now().Add(parting))
		_ = server.Close(ctx) // the verdict stands
		c.Close()             // what the library still does then ends
		<-server.CleanupDone()
		return err
	}
}

// parting bounds the last words to a server that takes none. Chosen.
const parting = 100 * time.Millisecond

// longestAnswer bounds each message of a server, which may be no PostgreSQL.
// Chosen: none of those that a probe causes is longer.
const longestAnswer = 64 << 10

// library returns the settings of a connection over c.
func (o Options) library(c net.Conn, t health.Target) (*pgconn.Config, error) {
	set, err := blank()
	if err != nil {
		return nil, err
	}
	set.User, set.Password, set.Database = o.User, o.Password, cmp.Or(o.Database, "postgres")
	set.TLSConfig = t.TLS(o.TLS)
	set.AfterNetConnect = handshake
	set.MaxProtocolMessageBodyLen = longestAnswer
	var dialed atomic.Bool
	set.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		if dialed.Swap(true) { // to cancel a query
			return nil, net.ErrClosed
		}
		return c, nil
	}
	return set, nil
}

// handshake ends what the library leaves to the first message, whose error would
// not be told from one of that.
func handshake(ctx context.Context, _ *pgconn.Config, c net.Conn) (net.Conn, error) {
	if encrypted, ok := c.(*tls.Conn); ok {
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return c, fmt.Errorf("%s%w", ofTLS, err)
		}
	}
	return c, nil
}

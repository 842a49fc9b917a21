// Package mysql asks a MySQL or MariaDB server which role it has, how far it is
// behind, and whether its node of a Galera cluster is ready.
//
// It owns what is asked, what follows from the answers, and the manners of a
// prober: these servers count a handshake that a client breaks off against the
// client's host, refuse that host, with all its clients, after max_connect_errors of
// them in a row, and write each into their log. It does not know the schedule, which
// is package health's, nor how a server is reached: that is the Dial that it is
// given. A probe is one new connection:
//
//	dial --> greeting, TLS, login --> SHOW ... --> COM_QUIT
//
// and needs a user without any rights, but for one that tells of replication, if a
// replica or a lag is asked for:
//
//	CREATE USER sluice@'10.%' IDENTIFIED BY 'PASSWORD';
//	GRANT REPLICA MONITOR ON *.* TO sluice@'10.%';       -- MariaDB 10.5 and later
//	GRANT REPLICATION CLIENT ON *.* TO sluice@'10.%';    -- MySQL, older MariaDB
//
// Invariants:
//
//   - A login that was begun is finished. One that is not done in time goes on
//     behind the verdict, and the next probe waits for it instead of beginning
//     another: there is one for each target at most.
//   - A login that is given up all the same, a minute later or a moment after
//     nobody probes any more, ends with RST as long as the server has not greeted.
//     One that waits to be accepted then counts against nobody.
//   - Who was refused does not knock at every probe. See [refusals].
//   - Each visit is a connection of its own and ends with COM_QUIT.
//   - The password is in no error, and neither is anything of a query that a
//     replica could not apply.
package mysql

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"sluice/pool/health"
)

// Options are how to log in, and what a server must be.
type Options struct {
	User     string
	Password string      // empty: none
	TLS      *tls.Config // nil: none; without a ServerName it is the host probed

	// Role is "primary", which takes writes: read_only, super_read_only and
	// innodb_read_only are off, as far as the server has them; "replica", which
	// has at least one source and replicates from all of them; or any.
	Role string
	// MaxLag bounds Seconds_Behind_Source (or _Master), in whole seconds, of a
	// replica and, if the role is any, of a server that has a source; 0: not
	// looked at.
	MaxLag time.Duration
	// WsrepReady wants the node of a Galera cluster to be ready, in the primary
	// component, and synced.
	WsrepReady bool
}

// Probe returns a probe of servers that must be as o says. It is safe for
// concurrent use.
func Probe(dial health.Dial, o Options) health.Probe {
	p := &prober{dial: dial, options: o, visits: map[health.Target]*visit{}}
	return p.probe
}

type prober struct {
	dial     health.Dial
	options  Options
	refusals refusals

	mu     sync.Mutex // guards visits
	visits map[health.Target]*visit
}

func (p *prober) probe(ctx context.Context, t health.Target) error {
	if err := p.refusals.recall(t, time.Now()); err != nil {
		return err
	}
	v := p.underWay(t)
	if v == nil {
		c, err := p.connect(ctx, t)
		if err != nil {
			return err
		}
		v = p.begin(t, c)
		health.Afterwards(ctx, func(ctx context.Context) { p.run(ctx, v) })
	}
	return v.await(ctx)
}

// connect dials for as long as ctx allows. When probing stops it goes on for a
// moment: to a server, a connection that is closed in its dial is one without a login.
func (p *prober) connect(ctx context.Context, t health.Target) (net.Conn, error) {
	dialing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		dialing, cancel = context.WithDeadline(dialing, deadline)
		defer cancel()
	}
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewell, cancel) })()
	return p.dial(dialing, t)
}

// underWay returns the visit that an earlier probe has begun, or nil.
func (p *prober) underWay(t health.Target) *visit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.visits[t]
}

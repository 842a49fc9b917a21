// Package redis asks a Redis server which role it has, and whether it is fit for it.
//
// It owns what is asked, and what follows from the answers. It does not know the
// schedule, which is package health's, nor how a server is reached: that is the
// Dial that it is given. A probe is one new connection:
//
//	dial, TLS --> HELLO with the login, PING --> INFO replication, INFO persistence --> FIN
//
// and needs a user that may do no more than this:
//
//	ACL SETUSER sluice on >PASSWORD +ping +info
//
// Invariants:
//
//   - Nothing is tried twice, and no connection and no goroutine is left behind.
//   - The password is in no error.
package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"sluice/pool/health"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options are how to log in, and what a server must be.
type Options struct {
	User     string      // empty: the default user
	Password string      // empty: no login
	TLS      *tls.Config // nil: none; without a ServerName it is the host probed

	Role        string        // "primary", "replica", or any
	MaxLag      time.Duration // of replicas, in whole seconds; 0: not looked at
	MinReplicas int           // of a primary, that are online and lag at most MaxLag
}

// Quiet silences the library for the whole process: it would write to standard
// error, where the log is. It is to be called before anything is probed.
func Quiet() { logging.Disable() }

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
		if set := t.TLS(o.TLS); set != nil {
			encrypted := tls.Client(c, set)
			if err := encrypted.HandshakeContext(ctx); err != nil {
				return fmt.Errorf("TLS: %s", health.Ending(cmp.Or(ctx.Err(), err)))
			}
			c = encrypted
		}
		a, err := o.ask(ctx, &wire{Conn: health.Bounded(c)})
		if err != nil {
			return err
		}
		return o.judge(a)
	}
}

// answers are what a server says of itself.
type answers struct {
	ping        error
	replication info
	persistence info
}

// ask logs in over c, asks, and closes c.
func (o Options) ask(ctx context.Context, c *wire) (answers, error) {
	client := redis.NewClient(o.library(c))
	defer client.Close()
	one := client.Conn()
	defer one.Close()
	ping := one.Ping(ctx).Err() // the first command logs in
	var replication, persistence *redis.StringCmd
	// Each command has its own error.
	_, _ = one.Pipelined(ctx, func(p redis.Pipeliner) error {
		replication, persistence = p.Info(ctx, "replication"), p.Info(ctx, "persistence")
		return nil
	})
	for _, err := range []error{replication.Err(), persistence.Err()} {
		if errors.Is(err, errUsed) && ping != nil {
			err = ping // it had the connection, and left none
		}
		if err != nil {
			return answers{}, o.refusal(cmp.Or(ctx.Err(), err), c.full)
		}
	}
	a := answers{replication: parse(replication.Val()), persistence: parse(persistence.Val())}
	if ping != nil {
		a.ping = o.refusal(cmp.Or(ctx.Err(), ping), c.full)
	}
	return a, nil
}

// errUsed answers a library that wants a second connection: the first has ended.
var errUsed = fmt.Errorf("the connection of the probe: %w", io.EOF)

// library makes the library do nothing but log in over c and send what it is
// told: no retry, no second connection, no word about itself.
func (o Options) library(c net.Conn) *redis.Options {
	var dialed atomic.Bool
	return &redis.Options{
		Username: o.User,
		Password: o.Password,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			if dialed.Swap(true) {
				return nil, errUsed
			}
			return c, nil
		},
		Protocol:                 2,
		PoolSize:                 1,
		MaxRetries:               -1,
		DialerRetries:            1,
		ReadTimeout:              -1, // the context's
		WriteTimeout:             -1,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// refusal says why there is no answer. A server that is full says so, and ends
// the connection.
func (o Options) refusal(err error, isFull bool) error {
	var said redis.Error
	if errors.As(err, &said) {
		return errors.New(health.Said(err.Error(), o.Password))
	}
	text := strings.TrimPrefix(health.Ending(err), "redis: Conn is in a bad state: ")
	if isFull {
		text = fmt.Sprintf("%q, and then %s", full, text)
	}
	return fmt.Errorf("no answer: got %s", health.Said(text, o.Password))
}

package balancer

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice/cmd/internal/config"
	"sluice/l4"
	"sluice/l4/greeting"
	"sluice/l4/session"
	"sluice/pool/health"
	"sluice/pool/health/mysql"
	"sluice/pool/health/postgres"
	"sluice/pool/health/redis"
)

// probe returns the probe that c asks for. It connects as sessions do, and begins
// with a header where they do, but for itself. What fails for want of descriptors
// or ports of ours is no evidence.
func (b *Balancer) probe(c config.Pool) health.Probe {
	p := c.Probe
	set := &session.Settings{ConnectTimeout: c.Health.Timeout, DialBudget: c.Health.Timeout}
	dial := func(ctx context.Context, t health.Target) (net.Conn, error) {
		c, err := l4.Dial(ctx, b.names, set, t.Address)
		if err != nil && session.FaultOf(err).Word == "local" {
			return nil, fmt.Errorf("%w: %w", health.ErrNoEvidence, err)
		}
		if err == nil && t.SendProxy != 0 {
			if _, err = c.Write(greeting.Own(t.SendProxy)); err != nil {
				c.Close()
				return nil, err
			}
		}
		return c, err
	}
	probe := kind(dial, p)
	return func(ctx context.Context, t health.Target) error { return probe(ctx, elsewhere(t, p)) }
}

// kind returns the probe of p's kind, which connects with dial.
func kind(dial health.Dial, p config.Probe) health.Probe {
	switch p.Kind {
	case "http":
		return health.HTTP(dial, health.Request{Path: p.Path, Host: p.Host, Passes: passes(p.Status)})
	case "redis":
		return redis.Probe(dial, redis.Options{User: p.User, Password: string(p.Password), TLS: encryption(p.TLS),
			Role: p.Role, MaxLag: p.MaxLag, MinReplicas: p.MinReplicas})
	case "postgres":
		return postgres.Probe(dial, postgres.Options{User: p.User, Password: string(p.Password), Database: p.Database,
			TLS: encryption(p.TLS), Role: p.Role, MaxLag: p.MaxLag})
	case "mysql":
		return mysql.Probe(dial, mysql.Options{User: p.User, Password: string(p.Password), TLS: encryption(p.TLS),
			Role: p.Role, MaxLag: p.MaxLag, WsrepReady: p.WsrepReady})
	}
	return plain(dial, p)
}

// plain returns a probe over bare TCP.
func plain(dial health.Dial, p config.Probe) health.Probe {
	switch {
	case p.Expect != "":
		return health.Ask(dial, []byte(p.Send), regexp.MustCompile(p.Expect))
	case p.Send != "":
		return health.Ask(dial, []byte(p.Send), nil)
	}
	return health.TCP(dial)
}

func passes(ranges []config.StatusRange) func(int) bool {
	return func(status int) bool {
		return slices.ContainsFunc(ranges, func(r config.StatusRange) bool { return r.First <= status && status <= r.Last })
	}
}

// elsewhere returns what is probed in the place of t. Who answers there need not
// understand what t's sessions begin with. A unix socket has no port to keep and
// no host: it takes both.
func elsewhere(t health.Target, p config.Probe) health.Target {
	if p.Port == 0 && p.Address == "" {
		return t
	}
	var host, port string
	if !strings.HasPrefix(t.Address, "unix:") {
		host, port, _ = net.SplitHostPort(t.Address) // it was checked
	}
	if p.Address != "" {
		host = p.Address
	}
	if p.Port != 0 {
		port = strconv.Itoa(p.Port)
	}
	if host == "" || port == "" {
		return t
	}
	return health.Target{Address: net.JoinHostPort(host, port)}
}

package health

import (
	"context"
	"net"
)

// Dial connects to a target by the path that sessions take. An error of ours
// wraps ErrNoEvidence.
type Dial func(ctx context.Context, t Target) (net.Conn, error)

// TCP returns a probe that connects, reads a greeting if one comes at once, and
// closes with FIN, never with RST, so that a server does not count an error. The
// connect alone decides; under a Monitor the rest happens after the verdict.
func TCP(dial Dial) Probe {
	return func(ctx context.Context, t Target) error {
		c, err := dial(ctx, t)
		if err != nil {
			return err
		}
		Afterwards(ctx, func(ctx context.Context) { part(ctx, c, hearGreeting) })
		return nil
	}
}

package l4

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"sluice/l4/resolve"
	"sluice/l4/session"
)

// retryFull is how long to wait before a unix socket whose queue is full is
// dialed again: no event tells when it has room.
const retryFull = 2 * time.Millisecond

// Dial connects to a backend's address as a session would: names through names,
// every address tried in time, keepalive and user timeout of set. It is what
// probes and /proxy use. The caller closes the connection. Errors wrap the
// address; session.FaultOf classes them.
func Dial(ctx context.Context, names *resolve.Cache, set *session.Settings, address string) (net.Conn, error) {
	list := []string{address}
	if !session.Literal(address) {
		var err error
		if list, err = lookup(ctx, names, address); err != nil {
			return nil, err
		}
	}
	deadline := time.Now().Add(set.ConnectTimeout)
	if d, ok := ctx.Deadline(); ok {
		deadline = d
	}
	walk := session.NewAddresses(list, deadline)
	for {
		next, until, ok := walk.Next(time.Now())
		if !ok {
			break
		}
		c, err := dialOne(ctx, set, next, until)
		if err == nil {
			return c, nil
		}
		if !walk.Failed(err) {
			break
		}
	}
	if host, ok := hostOf(address); ok {
		names.Failed(host)
	}
	return nil, walk.Err()
}

// lookup turns "name:port" into the "ip:port" of each address of the name.
func lookup(ctx context.Context, names *resolve.Cache, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := names.Lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return joined(addrs, port), nil
}

func joined(addrs []netip.Addr, port string) []string {
	list := make([]string, len(addrs))
	for i, a := range addrs {
		list[i] = net.JoinHostPort(a.String(), port)
	}
	return list
}

// hostOf returns the name in a backend's address, if it is a name.
func hostOf(address string) (string, bool) {
	if session.Literal(address) {
		return "", false
	}
	host, _, err := net.SplitHostPort(address)
	return host, err == nil
}

// dialOne connects to one literal address or path until the deadline.
func dialOne(ctx context.Context, set *session.Settings, address string, deadline time.Time) (stream, error) {
	d := net.Dialer{Deadline: deadline, KeepAlive: -1, KeepAliveConfig: keepAlive(set)}
	network, rest := network(address)
	for {
		c, err := d.DialContext(ctx, network, rest)
		switch {
		case err == nil:
			return accepted(c, set)
		case network == "unix" && errors.Is(err, syscall.EAGAIN) && time.Now().Before(deadline) && ctx.Err() == nil:
			pause(ctx, retryFull)
		default:
			return nil, fmt.Errorf("dial %s: %w", address, unwrapDial(err))
		}
	}
}

// accepted finishes a connect that succeeded.
func accepted(c net.Conn, set *session.Settings) (stream, error) {
	s := c.(stream)
	if selfConnected(c) {
		reset(s)
		return nil, fmt.Errorf("dial %s: %w", c.RemoteAddr(), syscall.ECONNREFUSED)
	}
	if tcp, ok := c.(*net.TCPConn); ok && set.UserTimeout > 0 {
		setUserTimeout(tcp, set.UserTimeout)
	}
	return s, nil
}

// unwrapDial takes off the net.OpError that would name the address once more.
func unwrapDial(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// learned tells names how a dial to an address of one of them went.
func learned(names *resolve.Cache, step session.Step, err error) {
	if step.Name == "" {
		return // a literal address
	}
	host, ok := hostOf(step.Name)
	switch {
	case !ok:
	case err != nil && session.FaultOf(err).Blame == session.OnBackend:
		names.Failed(host)
	case err != nil:
	default:
		if ap, err := netip.ParseAddrPort(step.Address); err == nil {
			names.Worked(host, ap.Addr())
		}
	}
}

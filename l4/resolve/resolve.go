// Package resolve turns the names of backends into addresses, off every hot
// path, and keeps the last good answer when the resolver fails.
//
// A name that is in use is looked up again every ten seconds by a timer, so a
// session almost never waits for a resolver: only those do that ask for a name
// before its first look-up is over. The package does not dial, and holds no
// opinion about which backend is up.
//
//	Lookup    what a session asks; also what keeps a name in use
//	Worked    which address a dial reached: it comes first from then on
//	Failed    no dial succeeded: the answer may be out of date
//
// Invariants: no look-up and no hook runs under the mutex; at most one look-up
// of a name runs at a time; a name that nobody asked for in a minute is
// forgotten, so the cache cannot outgrow the configuration.
package resolve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	refreshAfter = 10 * time.Second // since the last look-up
	forgetAfter  = time.Minute      // since the last question
	retryAfter   = time.Second      // between look-ups that failures ask for
	lookupTime   = 5 * time.Second  // of one look-up: resolv.conf's default for one try
	maxAddresses = 64               // of one name; more are dropped
)

// Cache holds the addresses of names. Safe for concurrent use.
type Cache struct {
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	failed func(host string, err error)
	ctx    context.Context // of every look-up: it ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex // guards what follows, entries included
	names  map[string]*entry
	closed bool
}

// New returns an empty cache; the caller closes it. lookup finds all addresses
// of a name; nil is the system's resolver. failed, which may be nil, is told of
// each failed look-up, from any goroutine.
func New(lookup func(ctx context.Context, host string) ([]netip.Addr, error), failed func(host string, err error)) *Cache {
	if lookup == nil {
		lookup = system
	}
	if failed == nil {
		failed = func(string, error) {}
	}
	c := &Cache{lookup: lookup, failed: failed, names: map[string]*entry{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func system(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Lookup returns the addresses of host, at least one, the one that worked last
// first and else in the resolver's order. The slice must not be changed. It
// waits only until the first look-up of host is over, and until ctx ends at the
// latest; the errors of later ones come at once. Each error is a *net.DNSError.
func (c *Cache) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	c.mu.Lock()
	e := c.askLocked(host)
	if e == nil {
		c.mu.Unlock()
		return nil, &net.DNSError{Err: "the cache of names is closed", Name: host}
	}
	addrs, err := e.addrs, e.err
	c.mu.Unlock()
	if len(addrs) > 0 {
		return addrs, nil
	}
	if err != nil {
		return nil, err
	}
	return c.wait(ctx, host, e)
}

// Known is Lookup for who must not wait: known is false while the first look-up
// of host is not over.
func (c *Cache) Known(host string) (addrs []netip.Addr, err error, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.askLocked(host)
	switch {
	case e == nil:
		return nil, &net.DNSError{Err: "the cache of names is closed", Name: host}, true
	case len(e.addrs) > 0:
		return e.addrs, nil, true
	}
	return nil, e.err, e.err != nil
}

// wait returns what the first look-up of host found, or that ctx ended.
func (c *Cache) wait(ctx context.Context, host string, e *entry) ([]netip.Addr, error) {
	select {
	case <-e.first:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(e.addrs) > 0:
		return e.addrs, nil
	case e.err != nil:
		return nil, e.err
	}
	return nil, &net.DNSError{UnwrapErr: ctx.Err(), Err: "no answer yet", Name: host, IsTimeout: true}
}

// Worked says that a dial of addr succeeded: it is tried first from now on.
func (c *Cache) Worked(host string, addr netip.Addr) {
	addr = addr.Unmap()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.names[host]
	if e == nil || e.worked == addr || !slices.Contains(e.addrs, addr) {
		return
	}
	e.worked = addr
	e.addrs = lead(slices.Clone(e.addrs), addr)
}

// Failed says that no address of host could be dialed: it is looked up again
// now, or as soon as the last look-up is a second old.
func (c *Cache) Failed(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.names[host]
	if e == nil || e.busy || c.closed {
		return
	}
	if wait := retryAfter - time.Since(e.looked); wait > 0 {
		e.timer.Reset(wait)
		return
	}
	c.lookLocked(host, e)
}

// Close gives up the look-ups under way and stops the timers. It does not wait.
// What is known stays known; a new name is an error.
func (c *Cache) Close() {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, e := range c.names {
		if e.timer != nil {
			e.timer.Stop()
		}
	}
}

// errNoAddress is an answer that cannot be used.
var errNoAddress = errors.New("the answer has no address")

// Package resolve turns the names of backends into addresses, off every hot
// path, and keeps the last good answer when the resolver fails.
//
// A name that is in use is looked up again every ten seconds by a timer, so a
// session almost never waits for a resolver; only the first one that ever asks
// for a name does. The package does not dial, and holds no opinion about which
// backend is up.
//
// Invariants: no look-up runs under the mutex; at most one look-up of a name
// runs at a time; a name that nobody asked for in a minute is forgotten, so the
// cache cannot outgrow the configuration.
package resolve

import (
	"context"
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

	mu     sync.Mutex // guards what follows, entries included
	names  map[string]*entry
	closed bool
}

// entry is what is known of one name.
type entry struct {
	addrs  []netip.Addr  // the last good answer, the one that worked last first; replaced, never edited
	err    error         // of the last look-up
	asked  time.Time     // the last question
	looked time.Time     // start of the last look-up
	busy   chan struct{} // closed when the look-up under way is over; nil if none is
	timer  *time.Timer   // the next look-up
}

// New returns an empty cache. lookup finds all addresses of a name; nil is the
// system's resolver. failed, which may be nil, is told of each failed look-up.
func New(lookup func(ctx context.Context, host string) ([]netip.Addr, error), failed func(host string, err error)) *Cache {
	if lookup == nil {
		lookup = system
	}
	if failed == nil {
		failed = func(string, error) {}
	}
	return &Cache{lookup: lookup, failed: failed, names: map[string]*entry{}}
}

func system(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Lookup returns the addresses of host, the one that worked last first. It
// waits only if no look-up of host ever succeeded, and then until ctx ends at
// the latest. The slice must not be changed.
func (c *Cache) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	c.mu.Lock()
	e := c.entryLocked(host)
	addrs, err, busy := e.addrs, e.err, e.busy
	c.mu.Unlock()
	if len(addrs) > 0 {
		return addrs, nil
	}
	if busy == nil {
		return nil, err
	}
	select {
	case <-busy:
	case <-ctx.Done():
		return nil, &net.DNSError{Err: "no answer yet", Name: host, IsTimeout: true}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(e.addrs) > 0 {
		return e.addrs, nil
	}
	return nil, e.err
}

// entryLocked returns host's entry with a look-up under way if it is due.
func (c *Cache) entryLocked(host string) *entry {
	e := c.names[host]
	if e == nil {
		e = &entry{}
		c.names[host] = e
	}
	now := time.Now()
	e.asked = now
	if len(e.addrs) == 0 && now.Sub(e.looked) >= retryAfter {
		c.refreshLocked(host, e, now)
	}
	return e
}

// refreshLocked starts a look-up unless one is under way.
func (c *Cache) refreshLocked(host string, e *entry, now time.Time) {
	if e.busy != nil || c.closed {
		return
	}
	e.busy, e.looked = make(chan struct{}), now
	if e.timer != nil {
		e.timer.Stop()
	}
	go c.refresh(host, e)
}

// refresh looks host up once and arranges for the next time.
func (c *Cache) refresh(host string, e *entry) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	found, err := c.lookup(ctx, host)
	if err == nil && len(found) == 0 {
		err = &net.DNSError{Err: "the answer has no address", Name: host}
	}
	if err != nil {
		c.failed(host, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.err = err
	if err == nil {
		e.addrs = merge(e.addrs, found)
	}
	close(e.busy)
	e.busy = nil
	if !c.closed {
		e.timer = time.AfterFunc(refreshAfter-min(time.Since(e.looked), lookupTime), func() { c.due(host, e) })
	}
}

// merge returns found, unmapped and without repeats, led by the address that
// worked last if found has it still.
func merge(old, found []netip.Addr) []netip.Addr {
	addrs := make([]netip.Addr, 0, len(found))
	for _, a := range found {
		if a = a.Unmap(); !slices.Contains(addrs, a) && len(addrs) < maxAddresses {
			addrs = append(addrs, a)
		}
	}
	if len(old) > 0 {
		lead(addrs, old[0])
	}
	return addrs
}

// lead moves first to the front of addrs, if it is there.
func lead(addrs []netip.Addr, first netip.Addr) {
	if i := slices.Index(addrs, first); i > 0 {
		copy(addrs[1:i+1], addrs[:i])
		addrs[0] = first
	}
}

// due looks a name up again, or forgets it.
func (c *Cache) due(host string, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(e.asked) >= forgetAfter {
		if c.names[host] == e {
			delete(c.names, host)
		}
		return
	}
	c.refreshLocked(host, e, now)
}

// Worked says that a dial of addr succeeded: it is tried first from now on.
func (c *Cache) Worked(host string, addr netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.names[host]
	if e == nil || len(e.addrs) == 0 || e.addrs[0] == addr || !slices.Contains(e.addrs, addr) {
		return
	}
	e.addrs = slices.Clone(e.addrs)
	lead(e.addrs, addr)
}

// Failed says that no address of host could be dialed: it is looked up again
// now, but not more than once a second.
func (c *Cache) Failed(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.names[host]
	if now := time.Now(); e != nil && now.Sub(e.looked) >= retryAfter {
		c.refreshLocked(host, e, now)
	}
}

// Close stops the timers. A look-up under way ends by itself.
func (c *Cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, e := range c.names {
		if e.timer != nil {
			e.timer.Stop()
		}
	}
}

package resolve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"
)

// entry is what is known of one name. The cache's mutex guards it.
//
//	asked for --> look-up --> waits for the timer --> look-up --> ...
//	                              |
//	                              +--> forgotten
type entry struct {
	addrs  []netip.Addr  // the last good answer; replaced, never edited
	worked netip.Addr    // the one that worked last; zero if none did
	err    error         // of the last look-up
	asked  time.Time     // the last question
	looked time.Time     // start of the last look-up
	busy   bool          // a look-up is under way
	first  chan struct{} // closed when the first look-up is over
	timer  *time.Timer   // calls due; runs unless busy or closed; nil before the first look-up is over
}

// askLocked returns host's entry, with a look-up under way if it has no address
// and the last one is not too recent. It returns nil for a new name of a cache
// that is closed.
func (c *Cache) askLocked(host string) *entry {
	e := c.names[host]
	if e == nil {
		if c.closed {
			return nil
		}
		e = &entry{first: make(chan struct{})}
		c.names[host] = e
	}
	e.asked = time.Now()
	if len(e.addrs) == 0 && e.asked.Sub(e.looked) >= retryAfter {
		c.lookLocked(host, e)
	}
	return e
}

// lookLocked starts a look-up unless one is under way.
func (c *Cache) lookLocked(host string, e *entry) {
	if e.busy || c.closed {
		return
	}
	e.busy, e.looked = true, time.Now()
	if e.timer != nil {
		e.timer.Stop()
	}
	go c.look(host, e)
}

// look looks host up once, and reports a failure.
func (c *Cache) look(host string, e *entry) {
	ctx, cancel := context.WithTimeout(c.ctx, lookupTime)
	defer cancel()
	found, err := c.lookup(ctx, host)
	if err == nil && len(found) == 0 {
		err = errNoAddress
	}
	if err != nil {
		err = asDNS(host, err)
	}
	if c.learn(host, e, found, err) && err != nil {
		c.failed(host, err)
	}
}

// learn takes in the result of a look-up and arranges for the next. It reports
// whether there will be one.
func (c *Cache) learn(host string, e *entry, found []netip.Addr, err error) (next bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.busy, e.err = false, err
	if err == nil {
		e.addrs = lead(distinct(found), e.worked)
	}
	if e.timer == nil {
		close(e.first)
	}
	if c.closed {
		return false
	}
	wait := refreshAfter - min(time.Since(e.looked), lookupTime)
	if e.timer == nil {
		e.timer = time.AfterFunc(wait, func() { c.due(host, e) })
	} else {
		e.timer.Reset(wait)
	}
	return true
}

// due is the timer: it looks a name up again, or forgets it. A timer that was
// stopped may still come, if it fired before.
func (c *Cache) due(host string, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case c.names[host] != e, e.busy, now.Sub(e.looked) < retryAfter:
	case now.Sub(e.asked) >= forgetAfter:
		e.timer.Stop()
		delete(c.names, host)
	default:
		c.lookLocked(host, e)
	}
}

// asDNS makes every error one of a resolver, by which callers know that it says
// nothing about the backend.
func asDNS(host string, err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return err
	}
	return &net.DNSError{
		UnwrapErr: err, Err: err.Error(), Name: host,
		IsTimeout:  errors.Is(err, context.DeadlineExceeded),
		IsNotFound: errors.Is(err, errNoAddress),
	}
}

// distinct returns addrs unmapped, without repeats and bounded in number.
func distinct(addrs []netip.Addr) []netip.Addr {
	list := make([]netip.Addr, 0, min(len(addrs), maxAddresses))
	for _, a := range addrs {
		if a = a.Unmap(); !slices.Contains(list, a) && len(list) < maxAddresses {
			list = append(list, a)
		}
	}
	return list
}

// lead moves first to the front of addrs, if it is there.
func lead(addrs []netip.Addr, first netip.Addr) []netip.Addr {
	if i := slices.Index(addrs, first); i > 0 {
		copy(addrs[1:i+1], addrs[:i])
		addrs[0] = first
	}
	return addrs
}

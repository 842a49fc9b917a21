package access

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// shardsOf a table keep the loops of a large machine apart. Chosen.
	shardsOf = 64
	// idleMax bounds the clients of one shard that have no session: with all shards
	// some 65,000, and 5 MB. Such a client is there for a second at most, so that
	// takes as many new clients a second. Chosen.
	idleMax = 1024
)

// Limits bound one client. 0 is no limit.
type Limits struct {
	Sessions int // at the same time
	Rate     int // new sessions per second, of which as many may come at once
}

// None reports whether nothing is bounded.
func (l Limits) None() bool { return l.Sessions <= 0 && l.Rate <= 0 }

// Verdict is what becomes of a new session of a client.
type Verdict uint8

// The verdicts.
const (
	Let      Verdict = iota // it was counted in
	TooMany                 // the client has all its sessions
	TooOften                // it began too many
)

// Clients counts the sessions of each client: an IPv4 address, or a /64 of IPv6.
// The zero value is ready to use. Safe for concurrent use.
//
// It holds who has a session, and whose bucket is not full again. Where there are
// more than idleMax of the latter in a shard, the one that left first is
// forgotten, so that it has a full bucket again before its time.
type Clients struct {
	once   sync.Once
	seed   maphash.Seed
	epoch  time.Time
	shards [shardsOf]shard
}

// key is a client without a pointer, so that nothing looks into the maps.
type key struct {
	prefix uint64
	v4     bool
}

// client is one client's count.
type client struct {
	sessions int32
	queued   bool  // it is in the queue of its shard
	full     int64 // nanoseconds since the epoch when its bucket is full again
}

type shard struct {
	mu    sync.Mutex // guards what follows
	table map[key]client
	queue []key // clients that had no session at some time, in that order
	head  int   // of the queue
}

func keyOf(a netip.Addr) key {
	if a = a.Unmap(); a.Is4() {
		b := a.As4()
		return key{uint64(binary.BigEndian.Uint32(b[:])), true}
	}
	b := a.As16()
	return key{binary.BigEndian.Uint64(b[:8]), false}
}

// of returns the shard of a client, and how many nanoseconds it is since the
// epoch.
func (c *Clients) of(k key) (*shard, int64) {
	c.once.Do(func() { c.seed, c.epoch = maphash.MakeSeed(), time.Now() })
	s := &c.shards[maphash.Comparable(c.seed, k)%shardsOf]
	return s, int64(time.Since(c.epoch))
}

// Enter counts a new session of a in, unless a limit of l is reached. Then
// nothing is counted. Leave is its counterpart.
func (c *Clients) Enter(a netip.Addr, l Limits) Verdict {
	k := keyOf(a)
	s, now := c.of(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	e := s.table[k]
	if l.Sessions > 0 && int(e.sessions) >= l.Sessions {
		return TooMany
	}
	if l.Rate > 0 && !e.take(now, l.Rate) {
		return TooOften
	}
	e.sessions++
	if s.table == nil {
		s.table = make(map[key]client)
	}
	s.table[k] = e
	return Let
}

// take takes a token out of a bucket of rate, which fills in a second.
func (e *client) take(now int64, rate int) bool {
	each := int64(time.Second) / int64(rate)
	full := max(e.full, now)
	if full-now > each*int64(rate-1) {
		return false
	}
	e.full = full + each
	return true
}

// Leave counts a session out that Enter let in.
func (c *Clients) Leave(a netip.Addr) { c.leave(a, 0) }

// Undo counts a session out that never began: its token goes back.
func (c *Clients) Undo(a netip.Addr, l Limits) {
	back := int64(0)
	if l.Rate > 0 {
		back = int64(time.Second) / int64(l.Rate)
	}
	c.leave(a, back)
}

func (c *Clients) leave(a netip.Addr, back int64) {
	k := keyOf(a)
	s, now := c.of(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	e := s.table[k]
	e.sessions--
	e.full -= back
	if !e.idle() || e.full > now {
		if e.idle() && !e.queued {
			e.queued = true
			s.queue = append(s.queue, k)
		}
		s.table[k] = e
		return
	}
	if !e.queued {
		delete(s.table, k)
		return
	}
	s.table[k] = e
}

func (e *client) idle() bool { return e.sessions <= 0 }

// forgetAtOnce is how many a shard looks at for each that enters or leaves, so
// that the queue gets shorter while nobody waits for it.
const forgetAtOnce = 2

// forget drops clients at the head of the queue that are due, or too many.
func (s *shard) forget(now int64) {
	for range forgetAtOnce {
		if !s.forgetFirst(now, len(s.queue)-s.head > idleMax) {
			return
		}
	}
}

// forgetFirst takes the first client out of the queue, unless it has to stay a
// while. It returns false if nothing was taken.
func (s *shard) forgetFirst(now int64, must bool) bool {
	if s.head == len(s.queue) {
		return false
	}
	k := s.queue[s.head]
	e := s.table[k]
	if e.idle() && e.full > now && !must {
		return false
	}
	s.head++
	if s.head == len(s.queue) || s.head > idleMax {
		s.queue = append(s.queue[:0], s.queue[s.head:]...)
		s.head = 0
	}
	if e.queued = false; e.idle() {
		delete(s.table, k)
	} else {
		s.table[k] = e
	}
	return true
}

// Len returns how many clients there are, without those that may be forgotten.
func (c *Clients) Len() (n int) {
	_, now := c.of(key{})
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for s.forgetFirst(now, false) {
		}
		n += len(s.table)
		s.mu.Unlock()
	}
	return n
}

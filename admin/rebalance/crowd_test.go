package rebalance

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// crowd are the clients of a pool: those whose session is closed come back. It is
// used inside a bubble, whose clock is that of its sessions.
type crowd struct {
	t      *testing.T
	pool   *pool.Pool
	linger time.Duration // how long who was told to end is counted still
	back   time.Duration // how long a client takes to come back; less than 0: it does not
	began  time.Time

	mu      sync.Mutex // guards what follows
	present []*visit
	ended   []time.Duration // since the start, of each session that was told to end
	over    State
}

// visit is a session.
type visit struct {
	client netip.Addr
	lease  pool.Lease
	since  time.Time // of its last progress, and of its start
	ending bool
}

func newCrowd(t *testing.T, p *pool.Pool) *crowd {
	return &crowd{t: t, pool: p, began: time.Now()}
}

// fill has clients hold so many sessions on each backend.
func (c *crowd) fill(active ...int) {
	c.t.Helper()
	drain, ready := pool.Drain, pool.Ready
	for i, n := range active {
		for j := range active {
			state := &drain
			if i == j {
				state = &ready
			}
			if err := c.pool.Patch(string(rune('A'+j)), pool.Patch{Admin: state}); err != nil {
				c.t.Fatal(err)
			}
		}
		for range n {
			if !c.come(netip.AddrFrom4([4]byte{10, byte(i), byte(len(c.present) >> 8), byte(len(c.present))})) {
				c.t.Fatalf("backend %d takes no more than %d", i, n)
			}
		}
	}
	for j := range active {
		c.pool.Patch(string(rune('A'+j)), pool.Patch{Admin: &ready})
	}
}

func (c *crowd) come(client netip.Addr) bool {
	v := &visit{client: client, since: time.Now()}
	if c.pool.Acquire(&v.lease, pool.Query{Client: client}) != nil {
		return false
	}
	v.lease.Connected()
	c.present = append(c.present, v)
	return true
}

// end is Work.End.
func (c *crowd) end(m session.Match, n int) (ended int) {
	if m.State != "relaying" || m.On == nil || n < 1 {
		c.t.Errorf("asked to end %d of %+v", n, m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(c.present, func(a, b *visit) int { return cmp.Compare(a.since.UnixNano(), b.since.UnixNano()) })
	for _, v := range c.present {
		if ended == n {
			break
		}
		if v.ending || v.lease.Backend() != m.On || time.Since(v.since) < max(m.MinIdle, m.MinAge) {
			continue
		}
		v.ending = true
		ended++
		c.ended = append(c.ended, time.Since(c.began))
		go c.leave(v)
	}
	return ended
}

// leave is the end of a session, and its client's return.
func (c *crowd) leave(v *visit) {
	time.Sleep(c.linger)
	c.mu.Lock()
	v.lease.Release()
	c.present = slices.DeleteFunc(c.present, func(o *visit) bool { return o == v })
	c.mu.Unlock()
	if c.back >= 0 {
		time.Sleep(c.back)
		c.mu.Lock()
		c.come(v.client)
		c.mu.Unlock()
	}
}

func (c *crowd) work() Work {
	return Work{Loads: c.pool.Loads, End: c.end, Over: func() State {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.over
	}}
}

func (c *crowd) endWith(s State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = s
}

// run runs a rebalance to its end.
func (c *crowd) run(o Order) Progress {
	c.t.Helper()
	var d Desk
	ended := make(chan Progress)
	c.began = time.Now()
	if _, err := d.Start("p", "me", o, c.work(), func(p Progress) { ended <- p }); err != nil {
		c.t.Fatal(err)
	}
	p := <-ended
	d.Close()
	if int(p.Closed) != len(c.ended) {
		c.t.Errorf("it says that it closed %d, and closed %d", p.Closed, len(c.ended))
	}
	return p
}

// wantPace fails if the rate was exceeded anywhere: by more than one step at the
// start.
func (c *crowd) wantPace(rate int) {
	c.t.Helper()
	step := max(shortestStep, time.Second/time.Duration(rate)+1)
	for i, at := range c.ended {
		if due := float64(rate) * (at + 2*step).Seconds(); float64(i) > due+1 {
			c.t.Fatalf("at %v %d sessions were closed, at %d a second", at, i+1, rate)
		}
	}
}

// disperse gives everything back, once all are back who are on their way.
func (c *crowd) disperse() {
	time.Sleep(time.Minute)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.present {
		v.lease.Release()
	}
}

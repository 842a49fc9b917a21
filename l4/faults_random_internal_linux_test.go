package l4

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/l4/session"
)

// faultSeeds is how many seeds of faults are tried, and faultSeed the one to try
// again.
var (
	faultSeeds = flag.Int("faultseeds", 40, "seeds of TestRandomFaults, of each kind")
	faultSeed  = flag.Uint64("faultseed", 0, "the one seed of TestRandomFaults")
)

// gentle are fates that nobody may notice, but for the time they take.
var gentle = map[string][]fate{
	"accept4":     errnos(syscall.EINTR, syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.EAGAIN),
	"epoll_pwait": append(errnos(syscall.EINTR), fate{short: true}),
	"epoll_add":   errnos(syscall.EINTR),
	"socket":      errnos(syscall.EINTR),
	"connect":     errnos(syscall.EINTR),
	"write":       errnos(syscall.EINTR),
	"recv":        append(errnos(syscall.EINTR, syscall.EAGAIN), fate{short: true}),
	"send":        append(errnos(syscall.EINTR, syscall.EAGAIN), fate{short: true}),
	"fill":        append(errnos(syscall.EINTR, syscall.EAGAIN, syscall.EINVAL, syscall.ENOMEM), fate{short: true}),
	"empty":       append(errnos(syscall.EINTR, syscall.EAGAIN), fate{short: true}),
	"pipe2":       errnos(syscall.EINTR, syscall.EMFILE, syscall.ENFILE),
	"pipe_size":   errnos(syscall.EINTR, syscall.EPERM),
	"shutdown":    errnos(syscall.EINTR),
	"setsockopt":  errnos(syscall.EINTR, syscall.ENOBUFS),
	"getsockopt":  errnos(syscall.EINTR),
	"linger":      errnos(syscall.EINTR),
	"unsent":      errnos(syscall.EINTR),
	"info":        errnos(syscall.EINTR),
}

// harsh are fates that may cost a session.
var harsh = map[string][]fate{
	"epoll_add": errnos(syscall.ENOSPC, syscall.ENOMEM),
	"socket":    errnos(syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS),
	"connect":   errnos(syscall.ECONNREFUSED, syscall.EADDRNOTAVAIL, syscall.EPERM),
	"recv":      errnos(syscall.ENOBUFS, syscall.ECONNRESET),
	"send":      errnos(syscall.ENOBUFS, syscall.ENOMEM),
	"empty":     errnos(syscall.ENOMEM),
	"unsent":    errnos(syscall.ENOBUFS),
	"info":      errnos(syscall.ENOBUFS),
}

// lot is what a seed makes of a trial.
type lot struct {
	*rand.Rand
	rough bool
	often map[string]int // one call in so many is gentle to us; 0 is none
	rare  map[string]int // the same for harsh
}

// newLot throws the dice. A seed has some kinds of faults and not others, so
// that each is also seen alone.
func newLot(seed uint64, rough bool) *lot {
	l := &lot{rand.New(rand.NewPCG(seed, 1)), rough, map[string]int{}, map[string]int{}}
	for _, n := range nths { // a map has no order to repeat
		if l.IntN(2) == 0 {
			l.often[n.call] = 2 + l.IntN(1<<(1+l.IntN(6)))
		}
		if rough && l.IntN(3) == 0 {
			l.rare[n.call] = 4 + l.IntN(60)
		}
	}
	if n := l.often["accept4"]; n > 0 { // it backs off
		l.often["accept4"] = n + 4
	}
	return l
}

func (l *lot) plan(call string, _ int, dice *rand.Rand) fate {
	for _, kind := range []struct {
		every int
		fates []fate
	}{{l.rare[call], harsh[call]}, {l.often[call], gentle[call]}} {
		if kind.every > 0 && len(kind.fates) > 0 && dice.IntN(kind.every) == 0 {
			return kind.fates[dice.IntN(len(kind.fates))]
		}
	}
	return fate{}
}

func (l *lot) shape() shape {
	s := shape{loops: 1 + l.IntN(2), buffer: 1 + l.IntN(7), set: patient()}
	if l.IntN(2) == 0 {
		s.buffer = 1 << (3 + l.IntN(14))
	}
	if l.rough && l.IntN(2) == 0 {
		s.set.IdleTimeout = 20 * time.Millisecond
	}
	return s
}

// role of at most some KB, fewer where a loop moves some bytes at a time.
func (l *lot) role(buffer int) role {
	size := l.IntN(1 << l.IntN(18))
	if buffer < 64 {
		size %= 3000
	}
	r := role{size: size, piece: 1 + l.IntN(1+size), tight: l.IntN(3) == 0, how: "end"}
	if l.IntN(6) == 0 {
		r.how = "reset"
	}
	if l.rough && l.IntN(6) == 0 {
		r.how = "hang"
	}
	return r
}

// Sessions of random bytes both ways under random faults, from a seed.
func TestRandomFaults(t *testing.T) {
	for _, rough := range []bool{false, true} {
		for seed := range uint64(*faultSeeds) {
			if *faultSeed != 0 && seed+1 != *faultSeed {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", map[bool]string{false: "gentle", true: "harsh"}[rough], seed+1), func(t *testing.T) {
				t.Parallel()
				tryLot(t, seed+1, newLot(seed+1, rough))
			})
		}
	}
}

func tryLot(t *testing.T, seed uint64, l *lot) {
	k := newFaulty(t, seed, nil)
	s := l.shape()
	s.header = seed%2 == 0
	k.hold = []int{0, 8}[l.IntN(2)]
	k.shrink = []int{0, 4 << 10, 64 << 10}[l.IntN(3)]
	k.tight = l.IntN(2) == 0
	tr := startTrial(t, k, s)
	k.arm(l.plan)
	go tr.listener.Serve()
	plays := make([]*play, 6)
	var all sync.WaitGroup
	for i := range plays {
		p := &play{id: uint32(i), roles: [2]role{l.role(s.buffer), l.role(s.buffer)}}
		if p.roles[0].how == "hang" && p.roles[1].how == "hang" {
			p.roles[0].how = "end"
		}
		if k.tight || p.roles[0].tight || p.roles[1].tight { // the kernel waits for more room, up to 200 ms at a time
			p.roles[0].size, p.roles[1].size = p.roles[0].size%9000, p.roles[1].size%9000
		}
		p.roles[l.IntN(2)].midway = tr.incident(l, p)
		if s.header && i%3 > 0 { // the peer speaks for itself, so that its record is found
			p.header = "PROXY UNKNOWN\r\n"
		}
		plays[i] = p
		all.Go(func() { tr.run(p) })
	}
	all.Wait()
	tr.alive()
	k.arm(nil)
	last := &play{id: 100, roles: [2]role{{size: 2000, piece: 700, how: "end"}, {size: 1000, piece: 1000, how: "end"}}}
	if !tr.front.cutting.Load() {
		tr.run(last)
	}
	tr.until("the sessions are over", func() bool { return tr.front.Status().Active == 0 })
	tr.close()
	for _, p := range plays {
		r, ok := tr.recordOf[p.addr]
		err := p.check(r, ok)
		if err == nil && !l.rough && p.roles[0].how == "end" && p.roles[1].how == "end" && !p.whole() {
			err = fmt.Errorf("it is not whole")
		}
		if err != nil {
			t.Errorf("%v: %v\nrecord %+v", p, err, r)
		}
	}
	if !tr.front.cutting.Load() && !last.whole() && !l.rough {
		t.Errorf("after the faults: %v", last)
	}
	if t.Failed() {
		t.Logf("loops %d, buffer %d, hold %d, shrink %d, often %v, rare %v, faults %v", s.loops, s.buffer, k.hold, k.shrink, l.often, l.rare, k.failed)
	}
}

// incident is what happens in the middle of a play; nil is nothing.
func (tr *trial) incident(l *lot, p *play) func() {
	whole := tr.poolConfig()
	half := whole
	half.Backends = whole.Backends[l.IntN(2):][:1]
	n := l.IntN(8)
	if !l.rough {
		n %= 4
	}
	switch n {
	case 0:
		return func() { tr.pool.Apply(half); tr.pool.Apply(whole) }
	case 1:
		return func() { tr.front.Use(tr.config); tr.sessions() }
	case 2, 3:
		return nil
	case 7:
		over, cancel := context.WithCancel(context.Background())
		cancel()
		return func() { go tr.front.Shutdown(over) }
	default:
		orders := []session.Cause{session.Killed, session.OnDown, session.Removed, session.Drained}
		cause := orders[l.IntN(len(orders))]
		return func() {
			for _, row := range tr.sessions() {
				if row.Client.String() == p.addr {
					tr.engine.End(session.Match{Key: row.Key}, cause)
				}
			}
		}
	}
}

package balance_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

const manyClients = 20000

// The table is the same in every process and version: these are its words.
func TestSourceHashNeverChanges(t *testing.T) {
	t.Parallel()
	p := running(bounded(t, 0), specs(7))
	got := ""
	for _, text := range []string{
		"10.0.0.1", "10.0.0.2", "192.0.2.7", "203.0.113.250", "255.255.255.255", "2001:db8::1", "2001:db8:0:1::1", "::1",
	} {
		b, sure := p.Preview(pool.Query{Client: netip.MustParseAddr(text)})
		if !sure {
			t.Errorf("%s: not sure", text)
		}
		got += b.ID()[len("node-"):]
	}
	if want := "60603034"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The order in the file and what happened before mean nothing; several instances
// agree.
func TestSourceHashInstancesAgree(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(21, 22))
	for range 5 {
		ss := specs(2 + rng.IntN(20))
		for i := range ss {
			ss[i].Weight = 1 + rng.IntN(9)
		}
		want := homes(running(bounded(t, 0), ss), manyClients)
		other := slices.Clone(ss)
		rng.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		p := running(bounded(t, 0), other[:1])
		for _, s := range other[1:] {
			if err := p.Add(s); err != nil {
				t.Fatal(err)
			}
		}
		if n := moved(want, homes(p, manyClients)); n != 0 {
			t.Fatalf("%d backends: %d clients of %d disagree", len(ss), n, manyClients)
		}
	}
}

// Losing one of n moves its clients, which spread over the others, and few more;
// with it back all is as before.
func TestSourceHashMovesFew(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 5, 10, 100} {
		p := running(bounded(t, 0), specs(n))
		before := homes(p, manyClients)
		for _, lost := range []string{"node-0", fmt.Sprintf("node-%d", n/2), fmt.Sprintf("node-%d", n-1)} {
			drain, ready := pool.Drain, pool.Ready
			p.Patch(lost, pool.Patch{Admin: &drain})
			after := homes(p, manyClients)
			own, others, to := 0, 0, map[string]int{}
			for i := range before {
				switch {
				case before[i] == lost:
					own++
					to[after[i]]++
				case before[i] != after[i]:
					others++
				}
			}
			// A share of 1/n, and of the others at most one in 50 in addition.
			if own > manyClients/n*5/4 || others > manyClients/50 {
				t.Errorf("without %s of %d: it had %d of %d clients, and %d of others moved", lost, n, own, manyClients, others)
			}
			for id, k := range to {
				if n > 2 && n < 20 && k > 2*own/(n-1) {
					t.Errorf("without %s of %d: %d of its %d clients went to %s", lost, n, k, own, id)
				}
			}
			p.Patch(lost, pool.Patch{Admin: &ready})
			if k := moved(before, homes(p, manyClients)); k != 0 {
				t.Errorf("with %s of %d back: %d clients are elsewhere than before", lost, n, k)
			}
		}
	}
}

func TestSourceHashGoesByWeight(t *testing.T) {
	t.Parallel()
	ss := specs(4)
	for i, w := range []int{1, 2, 5, 1000} {
		ss[i].Weight = w
	}
	had := map[string]int{}
	const n = 200000
	for _, id := range homes(running(bounded(t, 0), ss), n) {
		had[id]++
	}
	for _, s := range ss {
		want := float64(n) * float64(s.Weight) / 1008
		if got := float64(had[s.ID]); got < 0.8*want || got > 1.2*want {
			t.Errorf("weight %d: got %v clients, want about %.0f", s.Weight, got, want)
		}
	}
}

func TestSourceHashGoesByPrefix(t *testing.T) {
	t.Parallel()
	p := running(bounded(t, 0), specs(50))
	home := func(text string) string {
		b, _ := p.Preview(pool.Query{Client: netip.MustParseAddr(text)})
		return b.ID()
	}
	if a, b := home("2001:db8:1:2::1"), home("2001:db8:1:2:ffff::9"); a != b {
		t.Errorf("one /64: got %s and %s", a, b)
	}
	if a, b := home("10.1.2.3"), home("::ffff:10.1.2.3"); a != b {
		t.Errorf("one IPv4 address: got %s and %s", a, b)
	}
	nets, hosts := map[string]bool{}, map[string]bool{}
	for i := range 50 {
		nets[home(fmt.Sprintf("2001:db8:1:%x::1", i))] = true
		hosts[home(fmt.Sprintf("10.1.2.%d", i))] = true
	}
	if len(nets) < 20 || len(hosts) < 20 {
		t.Errorf("50 prefixes have %d backends, 50 hosts %d", len(nets), len(hosts))
	}
}

// A client without an address goes anywhere.
func TestSourceHashWithoutAnAddress(t *testing.T) {
	t.Parallel()
	p := running(bounded(t, 0), specs(5))
	for range 1000 {
		if _, err := take(t, p, pool.Query{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range p.Status().Backends {
		if s.Active < 100 {
			t.Errorf("%s: got %d sessions of 1000", s.ID, s.Active)
		}
	}
	if b, sure := p.Preview(pool.Query{}); b == nil || sure {
		t.Errorf("Preview: got %v, %v", b, sure)
	}
}

// The clients of one that is full, or that they avoid, spread over all the others,
// each on its own.
func TestSourceHashSpreadsTheClientsOfOne(t *testing.T) {
	t.Parallel()
	ss := specs(10)
	p := running(bounded(t, 0), ss)
	before := homes(p, manyClients)
	home, _ := p.Preview(pool.Query{Client: client(0)})
	to, own := map[string]int{}, 0
	for i := range before {
		if before[i] != home.ID() {
			continue
		}
		own++
		q := pool.Query{Client: client(i), Avoid: []*pool.Backend{home}}
		b, _ := p.Preview(q)
		again, _ := p.Preview(q)
		if b == nil || b == home || b != again {
			t.Fatalf("client %d: got %v and %v", i, b, again)
		}
		to[b.ID()]++
	}
	for _, s := range ss {
		if k := to[s.ID]; s.ID != home.ID() && (k < own/9/2 || k > own/9*2) {
			t.Errorf("%s: got %d of the %d clients of %s", s.ID, k, own, home.ID())
		}
	}
}

// However skewed the clients are, nobody holds more than ceil(c*total*w/W), and
// with the load gone everybody is at home again.
func TestSourceHashBound(t *testing.T) {
	t.Parallel()
	for _, percent := range []int{101, 125, 200} {
		rng := rand.New(rand.NewPCG(23, uint64(percent)))
		ss, weight := specs(7), 0
		for i := range ss {
			ss[i].Weight = 1 + rng.IntN(5)
			weight += ss[i].Weight
		}
		p := running(bounded(t, percent), ss)
		before := homes(p, 1000)
		var held []*pool.Lease
		for range 3000 {
			if len(held) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(held))
				held[i].Release()
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			}
			want, sure := p.Preview(pool.Query{Client: client(0)})
			l, err := take(t, p, pool.Query{Client: client(rng.IntN(3) / 2)}) // one has two thirds
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, l)
			if l.Backend() == nil || want == nil || !sure {
				t.Fatalf("got %v, want %v, sure %v", l.Backend(), want, sure)
			}
			w, total := 0, len(held)
			for _, s := range ss {
				if s.ID == l.Backend().ID() {
					w = s.Weight
				}
			}
			most := (percent*total*w + 100*weight - 1) / (100 * weight)
			if got := int(l.Backend().Active()); got > most {
				t.Fatalf("%d %%: a backend of weight %d/%d got its session %d of %d, at most %d are its",
					percent, w, weight, got, total, most)
			}
		}
		for _, l := range held {
			l.Release()
		}
		if n := moved(before, homes(p, 1000)); n != 0 {
			t.Errorf("%d %%: %d clients are not at home with no load", percent, n)
		}
	}
}

// Without a bound one client's sessions stay together.
func TestSourceHashWithoutABound(t *testing.T) {
	t.Parallel()
	p := running(bounded(t, 0), specs(5))
	for range 100 {
		take(t, p, pool.Query{Client: client(1)})
	}
	home, _ := p.Preview(pool.Query{Client: client(1)})
	if n := home.Active(); n != 100 {
		t.Errorf("got %d of 100 sessions at home", n)
	}
}

// With everybody else full a bound refuses nobody.
func TestSourceHashBoundYields(t *testing.T) {
	t.Parallel()
	ss := specs(3)
	ss[0].MaxSessions, ss[1].MaxSessions = 1, 1
	p := running(bounded(t, 101), ss)
	for i := range 50 {
		if _, err := take(t, p, pool.Query{Client: client(i)}); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
	}
}

// A slow start moves nobody but the newcomer's own clients, more with each step
// and none back.
func TestSourceHashStartsSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ss := specs(5)
		c := pool.Config{Strategy: bounded(t, 0), Policy: pool.Policy{SlowStart: 16 * time.Second}, Backends: ss[:4]}
		p := pool.New("p", c, pool.Hooks{})
		if err := p.Add(ss[4]); err != nil {
			t.Fatal(err)
		}
		full := homes(running(bounded(t, 0), ss), manyClients)
		var last []string
		for step := range 17 {
			now := homes(p, manyClients)
			late := 0
			for i := range now {
				switch {
				case now[i] == full[i]:
				case full[i] != "node-4":
					t.Fatalf("step %d: a client of %s has %s", step, full[i], now[i])
				case last != nil && last[i] == "node-4":
					t.Fatalf("step %d: a client of node-4 was sent back to %s", step, now[i])
				default:
					late++
				}
			}
			own := manyClients / 5
			if want := own * (16 - max(step, 1)) / 16; late < want*9/10-20 || late > want*11/10+20 {
				t.Errorf("step %d: %d clients wait for node-4, want about %d", step, late, want)
			}
			last = now
			time.Sleep(time.Second)
			synctest.Wait()
		}
		p.Close()
	})
}

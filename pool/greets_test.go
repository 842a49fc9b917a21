package pool_test

import (
	"testing"

	"sluice/pool"
)

// The version of the PROXY header is read at each dial, so that a reload
// changes it for the sessions that come.
func TestSendProxyFollowsTheFile(t *testing.T) {
	t.Parallel()
	of := func(version int) pool.Config {
		c := config(t, "A", pool.Policy{})
		c.Backends[0].SendProxy = version
		return c
	}
	p := pool.New("p", of(2), pool.Hooks{})
	var l pool.Lease
	if err := p.Acquire(&l, pool.Query{}); err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if got := l.Backend().SendProxy(); got != 2 {
		t.Errorf("got version %d, want 2", got)
	}
	if lines := words(p.Apply(of(1))); lines != "pool p: backend A send_proxy v2 -> v1" {
		t.Errorf("got %q, want one line of send_proxy", lines)
	}
	if got := l.Backend().SendProxy(); got != 1 {
		t.Errorf("got version %d after the reload, want 1", got)
	}
}

// What the API adds says nothing of a PROXY header: it has the pool's, and a
// reload of the pool's changes it. What the API deleted stays so.
func TestSendProxyOfWhatTheAPIAdds(t *testing.T) {
	t.Parallel()
	of := func(version int) pool.Config {
		c := config(t, "A", pool.Policy{SendProxy: version})
		c.Backends[0].SendProxy = version
		return c
	}
	p := pool.New("p", of(2), pool.Hooks{})
	if err := p.Remove("A"); err != nil {
		t.Fatal(err)
	}
	if err := p.Add(pool.Spec{ID: "B", Address: "10.0.0.9:1", Weight: 1}); err != nil {
		t.Fatal(err)
	}
	for _, version := range []int{2, 1, 0} {
		p.Apply(of(version))
		var l pool.Lease
		if err := p.Acquire(&l, pool.Query{}); err != nil {
			t.Fatal(err)
		}
		if b := l.Backend(); b.ID() != "B" || b.SendProxy() != version {
			t.Errorf("got version %d to %s, want %d to B, the only one", b.SendProxy(), b.ID(), version)
		}
		l.Release()
	}
}

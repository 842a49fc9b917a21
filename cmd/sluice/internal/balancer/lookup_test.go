package balancer

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
)

// A failed look-up counts in every pool that has a backend of that name.
func TestFailedLookupsCountInTheirPools(t *testing.T) {
	b, _, stop := started(t, frontendText("f", "one")+frontendText("g", "two")+frontendText("h", "three")+
		poolText("one", "none", "db.invalid:1", "127.0.0.1:1")+poolText("two", "none", "db.invalid:2")+poolText("three", "none", "127.0.0.1:2"))
	defer stop()
	for range 3 {
		b.lookupFailed("db.invalid", errors.New("no such host"))
	}
	for i, want := range []int64{3, 3, 0} {
		if st := b.view.Load().pools[i].Status(); st.LookupFailures != want {
			t.Errorf("pool %s: got %d failures, want %d", st.Name, st.LookupFailures, want)
		}
	}
}

// A stop does not wait for a name server that does not answer a reload, or a dry
// run.
func TestStopEndsLookups(t *testing.T) {
	asked := make(chan bool, 100)
	was := net.DefaultResolver
	defer func() { net.DefaultResolver = was }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		asked <- true
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	text := frontendText("f", "p") + poolText("p", "none", "127.0.0.1:1")
	slow := strings.Replace(text, "127.0.0.1:0", "slow.test:7000", 1)
	for _, ask := range []func(b *Balancer) error{
		func(b *Balancer) error { _, err := b.Reload(t.Context(), "test"); return err },
		func(b *Balancer) error { _, err := b.Plan(t.Context(), []byte(slow)); return err },
	} {
		b, f, stop := started(t, text)
		f.set(slow)
		ctx, cancel := b.looking() // as theirs
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- ask(b) }()
		<-asked
		stop()
		if err := <-ended; !errors.Is(err, ErrStopping) {
			t.Errorf("got %v, want %v", err, ErrStopping)
		}
		if ctx.Err() != context.Canceled {
			t.Errorf("got %v, want %v: the stop waited", ctx.Err(), context.Canceled)
		}
		for len(asked) > 0 {
			<-asked
		}
	}
}

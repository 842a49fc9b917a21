package l4_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/l4"
	"sluice/l4/l4test"
	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"
)

// B049: the address dialed is that of the backend picked, whatever happens to
// the list meanwhile.
func TestRemovalWhileDialing(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		var all []pool.Spec
		for i := range 8 {
			id := string(rune('A' + i))
			all = append(all, pool.Spec{ID: id, Address: "b." + id + ":" + port(l4test.Serve(t, l4test.Tag(id)).Addr), Weight: 1})
		}
		slow := resolve.New(func(ctx context.Context, host string) ([]netip.Addr, error) {
			<-time.After(20 * time.Millisecond)
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}, nil)
		r := start(t, setup{specs: all, names: slow})
		for i := range 7 {
			c := r.dial()
			eventually(t, "it is looking", func() bool { return r.front.Status().Active == 1 })
			r.apply(all[i+1:])
			got := line(t, c)
			c.Close()
			if rec := r.record(); rec.Backend != got || !strings.HasSuffix(all[got[0]-'A'].Address, port(rec.Address)) {
				t.Errorf("backend %s answered, the record says %s at %s", got, rec.Backend, rec.Address)
			}
		}
	})
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// B046: every address of a name is tried, and the one that worked comes first.
func TestEveryAddressOfANameIsTried(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		p := port(l4test.Serve(t, l4test.Tag("A")).Addr)
		names := resolve.New(func(ctx context.Context, host string) ([]netip.Addr, error) {
			if host != "db.test" {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.1")}, nil
		}, nil)
		r := start(t, setup{specs: specs("db.test:"+p, "none.test:"+p), names: names})
		for range 50 {
			c := r.dial()
			if got := line(t, c); got != "A" {
				t.Fatalf("got %q", got)
			}
			c.Close()
			if rec := r.record(); rec.Address != "127.0.0.1:"+p || rec.Backend != "A" {
				t.Errorf("record %+v", rec)
			}
		}
		for _, b := range r.pool.Status().Backends {
			if b.DialFailures != 0 {
				t.Errorf("backend %s has %d failures: one has an address that works, of the other nothing is known", b.ID, b.DialFailures)
			}
		}
	})
}

// Dial is what probes and /proxy use: the same walk over addresses.
func TestDialWalksAddresses(t *testing.T) {
	t.Parallel()
	set := defaults()
	set.ConnectTimeout = 500 * time.Millisecond
	p := port(l4test.Serve(t, l4test.Tag("A")).Addr)
	names := resolve.New(func(ctx context.Context, host string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.1")}, nil
	}, nil)
	defer names.Close()
	c, err := l4.Dial(t.Context(), names, &set, "db.test:"+p)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for address, word := range map[string]string{l4test.Refuse(t): "refused", l4test.Hole(t): "timeout", "unix:" + t.TempDir() + "/none": "refused"} {
		_, err := l4.Dial(t.Context(), names, &set, address)
		if f := session.FaultOf(err); f.Word != word || f.Blame != session.OnBackend || !strings.Contains(fmt.Sprint(err), strings.TrimPrefix(address, "unix:")) {
			t.Errorf("%s: %v is %+v, want %s", address, err, f, word)
		}
	}
	if _, err := l4.Dial(canceled(), names, &set, l4test.Hole(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled dial: %v", err)
	}
}

// No port of ours towards one backend: the next has ports of its own.
func TestUnroutableCountsAgainstNobody(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		set := defaults()
		set.ConnectTimeout = 500 * time.Millisecond
		// 255.255.255.255 is no address of a peer: ENETUNREACH or EACCES without
		// a packet. Whatever the kernel says is read from a dial of our own.
		_, err := net.DialTimeout("tcp", "[fe80::1]:80", time.Second) // no zone: EINVAL or ENETUNREACH
		f := session.FaultOf(err)
		r := start(t, setup{set: set, specs: specs("[fe80::1]:80", l4test.Serve(t, l4test.Tag("B")).Addr)})
		c := r.dial()
		if got := line(t, c); got != "B" {
			t.Errorf("got %q", got)
		}
		c.Close()
		if got, want := words(r.record())[0], "A:"+f.Word; got != want {
			t.Errorf("attempt %s, want %s", got, want)
		}
		want := int64(0)
		if f.Blame == session.OnBackend {
			want = 1
		}
		if n := r.pool.Status().Backends[0].DialFailures; n != want {
			t.Errorf("%v: %d failures, want %d", err, n, want)
		}
	})
}

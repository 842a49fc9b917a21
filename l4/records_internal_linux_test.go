package l4

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"

	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"

	"golang.org/x/sys/unix"
)

// More sessions end in one turn of a loop than may wait to be handed over: at
// the end of a linger, or after the process did not run for a while. Who takes
// the records keeps up, so none is lost.
func TestNoRecordIsLostWhenManySessionsEndAtOnce(t *testing.T) {
	const sessions = recordsMax + recordsAtOnce
	strategy, err := balance.ByName("round_robin", "")
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine("epoll", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p := pool.New("p", pool.Config{Strategy: strategy}, pool.Hooks{})
	defer p.Close()
	var got atomic.Int64
	cfg := &Config{Name: "f", Names: resolve.New(nil, nil), Pool: p, Record: func(session.Record) { got.Add(1) }}
	f := e.NewFrontend(*cfg)

	e.driver.(*looping).onAll(func(_ int, l *loop) {
		entry := newEntry(f, cfg, "", 0)
		for range sessions {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				t.Error(err)
				return
			}
			unix.Close(pair[1])
			f.enter(cfg, netip.Addr{})
			l.begin(entry, pair[0], netip.AddrPort{})
			l.close(l.current, session.Cut)
		}
	})
	f.Shutdown(context.Background())
	if n := got.Load(); n != sessions || e.Dropped() != 0 {
		t.Errorf("got %d records of %d, %d counted as dropped", n, sessions, e.Dropped())
	}
}

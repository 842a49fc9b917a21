package l4_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// sockets counts this process's sockets in a state of net/tcp_states.h, in hex,
// that have addr on either side.
func sockets(t testing.TB, state, addr string) (n int) {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	number, _ := strconv.Atoi(port)
	want := fmt.Sprintf(":%04X", number)
	ours := map[string]bool{}
	for _, link := range descriptors(t) {
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			ours[strings.TrimSuffix(inode, "]")] = true
		}
	}
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		c := strings.Fields(s.Text())
		if len(c) > 9 && c[3] == state && ours[c[9]] && (strings.HasSuffix(c[1], want) || strings.HasSuffix(c[2], want)) {
			n++
		}
	}
	return n
}

const closeWait = "08"

// descriptors lists what this process's descriptors are links to.
func descriptors(t testing.TB) (links []string) {
	t.Helper()
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(names) == 0 {
		t.Skip("no /proc/self/fd")
	}
	for _, name := range names {
		if link, err := os.Readlink(name); err == nil {
			links = append(links, link)
		}
	}
	return links
}

func count(links []string, prefix string) (n int) {
	for _, l := range links {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

// B014, B036: thousands of short sessions with every kind of ending leave
// nothing: no socket, no goroutine, no count.
func TestSweepOfShortSessions(t *testing.T) {
	onEnginesAlone(t, func(t *testing.T, start starter) {
		sessions, at := 4000, 100
		if testing.Short() {
			sessions = 1000
		}
		set := defaults()
		set.HalfCloseTimeout = 500 * time.Millisecond
		habits := []func(*net.TCPConn){l4test.Echo, l4test.Reset, l4test.Source(5000), l4test.ReadAllThenReply, l4test.Sink}
		var backends []string
		for _, h := range habits {
			backends = append(backends, l4test.Serve(t, h).Addr)
		}
		r := start(t, setup{set: set, specs: specs(backends...)})
		before := runtime.NumGoroutine()
		var wg sync.WaitGroup
		for range at {
			wg.Go(func() {
				for range sessions / at {
					shortSession(t, r.addr)
				}
			})
		}
		wg.Wait()
		for range sessions {
			r.record()
		}
		eventually(t, "nothing is active", func() bool { return r.front.Status().Active == 0 })
		r.quiet()
		if n := sockets(t, closeWait, r.addr); n != 0 {
			t.Errorf("%d sockets are in CLOSE_WAIT", n)
		}
		eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+20 })
		if st := r.front.Status(); st.Total != int64(sessions) {
			t.Errorf("total %d, want %d", st.Total, sessions)
		}
	})
}

// shortSession is a client of a random kind.
func shortSession(t *testing.T, addr string) {
	dialed, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer dialed.Close()
	c := dialed.(*net.TCPConn)
	c.SetDeadline(time.Now().Add(2 * l4test.Patience))
	switch rand.IntN(6) {
	case 0: // leaves at once
	case 1:
		l4test.Abort(c)
	case 2:
		io.WriteString(c, "hello")
	case 3:
		io.WriteString(c, "hello")
		l4test.Abort(c)
	case 4:
		io.WriteString(c, "hello")
		c.CloseWrite()
		io.ReadAll(c)
	case 5: // gives up if there is no answer
		io.WriteString(c, "hello")
		c.SetDeadline(time.Now().Add(20 * time.Millisecond))
		io.ReadFull(c, make([]byte, 1+rand.IntN(10)))
	}
}

// B006, in short: clients that give up on a backend that never answers.
func TestClientsOfASilentBackendLeaveNothing(t *testing.T) {
	onEnginesAlone(t, func(t *testing.T, start starter) {
		set := defaults()
		set.HalfCloseTimeout = 300 * time.Millisecond
		silent := l4test.Serve(t, l4test.Silent(t))
		r := start(t, setup{set: set, specs: specs(silent.Addr)})
		const clients = 300
		for range clients {
			c := r.dial()
			io.WriteString(c, "hello")
			c.Close()
		}
		for range clients {
			if rec := r.record(); rec.Cause != session.HalfCloseTimeout && rec.Cause != session.ClientReset {
				t.Errorf("record %+v", rec)
			}
		}
		r.quiet()
		if n := sockets(t, closeWait, r.addr); n != 0 {
			t.Errorf("%d sockets are in CLOSE_WAIT", n)
		}
	})
}

// B007: the half-close bound does not wait for the idle one.
func TestHalfCloseBoundIsItsOwn(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		set := defaults()
		set.IdleTimeout, set.HalfCloseTimeout = time.Hour, 400*time.Millisecond
		r := start(t, setup{set: set})
		e := r.ends()
		io.WriteString(e[session.Backend], "bye")
		e[session.Backend].CloseWrite()
		if got, err := io.ReadAll(e[session.Client]); err != nil || string(got) != "bye" {
			t.Errorf("the client got %q, %v", got, err)
		}
		if st := r.front.Status(); st.HalfClosed != 1 {
			t.Errorf("half-closed %d, want 1", st.HalfClosed)
		}
		rec := r.mustEnd(session.HalfCloseTimeout, "cD", 0, 3)
		if rec.Total < 400*time.Millisecond || rec.Total > 3*time.Second {
			t.Errorf("it took %v", rec.Total)
		}
		const finWait2 = "05"
		if n := sockets(t, finWait2, r.addr); n != 0 {
			t.Errorf("%d sockets are in FIN_WAIT2", n)
		}
	})
}

// B016, B017: ending many sessions at once, of clients that stopped reading and
// of clients that have all, is bounded by one linger, and no client that has all
// sees a reset before it.
func TestEndingManySessionsAtOnce(t *testing.T) {
	onEnginesAlone(t, func(t *testing.T, start starter) {
		stalled, idle := 80, 20
		r := start(t, setup{})
		var writers sync.WaitGroup
		for range stalled {
			c, b := r.pair()
			c.SetReadBuffer(4096)
			b.SetWriteBuffer(4096)
			writers.Go(func() { io.Copy(b, l4test.Pattern(8<<20)) })
		}
		var clients []*end
		for range idle {
			e := r.ends()
			e[session.Client].read()
			e[session.Backend].read()
			go e[session.Backend].send(0, 10_000)
			e[session.Client].wait(10_000)
			clients = append(clients, e[session.Client])
		}
		began := time.Now()
		cut := make(chan int)
		go func() { cut <- r.front.Shutdown(canceled()) }()
		for _, c := range clients {
			c.mustSee(10_000, "end")
			c.Close()
		}
		if n := <-cut; n != stalled+idle {
			t.Errorf("cut %d, want %d", n, stalled+idle)
		}
		if took := time.Since(began); took > session.LingerTime+2*time.Second {
			t.Errorf("it took %v", took)
		}
		writers.Wait()
	})
}

package l4_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"

	"golang.org/x/sys/unix"
)

// B022: the kernel moves the bytes. A copy through user space would allocate
// next to nothing either, but not keep its buffers out of the heap and not move
// them in half a system call for each megabyte.
func TestBulkIsSpliced(t *testing.T) {
	onEnginesAlone(t, func(t *testing.T, start starter) {
		set := defaults()
		set.IdleTimeout = time.Minute // no feature may cost the splice
		r := start(t, setup{set: set})
		e := r.ends()
		const size = 64 << 20
		e[session.Client].read()
		e[session.Backend].send(0, 1<<20) // warm
		e[session.Client].wait(1 << 20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		pipes := 0
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			e[session.Backend].send(1<<20, size)
		}()
		e[session.Client].wait(size / 2)
		pipes = count(descriptors(t), "pipe:")
		<-sent
		e[session.Client].wait(size)
		runtime.ReadMemStats(&after)
		t.Logf("64 MiB: %d allocations, %d KiB, %d pipe descriptors", after.Mallocs-before.Mallocs, (after.TotalAlloc-before.TotalAlloc)>>10, pipes)
		if pipes < 2 {
			t.Errorf("no pipe is in use while 64 MiB are moved")
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
			t.Errorf("moving 64 MiB allocated %d bytes", n)
		}
	})
}

// An idle session holds two sockets and no pipe, before and after it moved
// bytes; bytes in flight take one for a direction.
func TestIdleSessionsHoldTwoDescriptors(t *testing.T) {
	onEnginesAlone(t, func(t *testing.T, start starter) {
		set := defaults()
		set.HalfCloseTimeout = 400 * time.Millisecond // windows of a tenth of a second
		// An echo that holds no pipe of its own.
		echo := l4test.Serve(t, func(c *net.TCPConn) { io.Copy(c, onlyReader{c}) })
		r := start(t, setup{set: set, specs: specs(echo.Addr)})
		forgetPipes(t)
		before := len(descriptors(t))
		const sessions = 50
		var clients []io.Closer
		ping := func(c io.ReadWriter) {
			io.WriteString(c, "ping")
			io.ReadFull(c, make([]byte, 4))
		}
		for range sessions {
			c := r.dial()
			ping(c)
			clients = append(clients, c)
		}
		// Of each session: client, both sockets of ours, backend.
		want := before + 4*sessions
		eventually(t, "idle sessions hold two descriptors each", func() bool {
			runtime.GC() // the pool of pipes lives until then
			n := len(descriptors(t))
			return n <= want+2 && n >= want-2
		})
		for _, c := range clients {
			c.Close()
			r.record()
		}
		eventually(t, "all descriptors are back", func() bool {
			runtime.GC()
			return len(descriptors(t)) <= before+2
		})
	})
}

// forgetPipes waits until pipes of earlier tests are gone.
func forgetPipes(t *testing.T) {
	eventually(t, "no pipe is left of earlier tests", func() bool {
		runtime.GC()
		return count(descriptors(t), "pipe:") <= pipesAtStart
	})
}

// pipesAtStart counts the pipes that the test binary was born with.
var pipesAtStart = func() int {
	names, _ := filepath.Glob("/proc/self/fd/*")
	n := 0
	for _, name := range names {
		if link, _ := os.Readlink(name); strings.HasPrefix(link, "pipe:") {
			n++
		}
	}
	return n
}()

// B019: steady messages churn no pipes: as many as directions, whatever the
// number of messages.
func TestMessagesDoNotChurnPipes(t *testing.T) {
	onEnginesAlone(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Echo).Addr)})
		forgetPipes(t)
		c := r.dial()
		buf := make([]byte, 100)
		seen := map[string]bool{}
		for range 2000 {
			c.Write(buf)
			io.ReadFull(c, buf)
			if len(seen) < 50 {
				for _, l := range descriptors(t) {
					if l[:5] == "pipe:" {
						seen[l] = true
					}
				}
			}
		}
		if len(seen) > 10 { // a pipe is one inode; GC may take some from the pool
			t.Errorf("%d pipes were used for one session", len(seen))
		}
	})
}

// B024: readers that stall cost no CPU.
func TestStalledReadersCostNoCPU(t *testing.T) {
	onEnginesAlone(t, func(t *testing.T, start starter) {
		set := defaults()
		set.IdleTimeout = time.Hour
		r := start(t, setup{set: set})
		const sessions = 30
		var moved sync.WaitGroup
		for range sessions {
			c, b := r.pair()
			c.SetReadBuffer(4096)
			b.SetWriteBuffer(4096)
			moved.Go(func() { io.Copy(b, l4test.Pattern(16<<20)) })
		}
		defer moved.Wait()
		// All is quiet once no counter moves any more.
		last, still := int64(-1), 0
		eventually(t, "everything has stalled", func() bool {
			n := r.pool.Status().Backends[0].BytesToClient
			if n != last {
				last, still = n, 0
			}
			still++
			<-time.After(10 * time.Millisecond)
			return still > 30
		})
		before := cpu(t)
		const d = 2 * time.Second
		time.Sleep(d) // the time is what is measured
		used := cpu(t) - before
		t.Logf("%d stalled sessions used %v of CPU in %v", sessions, used, d)
		if used > d/4 {
			t.Errorf("used %v of CPU in %v", used, d)
		}
		go r.front.Shutdown(canceled())
	})
}

// cpu returns the user and system time of the process.
func cpu(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Skip(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// B026: what a slow client does not read is not read from the backend.
func TestBackPressure(t *testing.T) {
	onEnginesAlone(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		const sessions = 10
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var sent [sessions]int64
		var wg sync.WaitGroup
		for i := range sessions {
			e := r.ends()
			wg.Go(func() { sent[i] = pump(e[session.Backend], 256<<20) })
		}
		wg.Wait()
		runtime.ReadMemStats(&after)
		// What fits between: the kernel's buffers of both hops, and a pipe.
		room := 2*(largest(t, "tcp_rmem")+largest(t, "tcp_wmem")) + 1<<20
		for _, n := range sent {
			if n > room {
				t.Errorf("the backend got rid of %d bytes that nobody reads", n)
			}
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 20<<20 {
			t.Errorf("the heap grew by %d bytes", grown)
		}
		t.Logf("%d sessions: backends sent %v", sessions, fmt.Sprint(sent))
		go r.front.Shutdown(canceled())
	})
}

// largest returns the largest buffer that the kernel gives a socket by itself.
func largest(t *testing.T, name string) (n int64) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
	if err != nil {
		t.Skip(err)
	}
	fmt.Sscan(strings.Fields(string(text))[2], &n)
	return n
}

// B141: counts move while a session lives, and are exact in the end.
func TestCountsMoveWhileASessionLives(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		e := r.ends()
		e[session.Client].read()
		e[session.Backend].read()
		bytes := func() [2]int64 {
			b := r.pool.Status().Backends[0]
			return [2]int64{b.BytesToBack, b.BytesToClient}
		}
		for round := int64(1); round <= 3; round++ {
			e[session.Client].send((round-1)*1000, 1000)
			e[session.Backend].send((round-1)*2500, 2500)
			began := time.Now()
			eventually(t, "the counts move", func() bool { return bytes() == [2]int64{round * 1000, round * 2500} })
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("round %d: the counts took %v", round, took)
			}
		}
		e[session.Client].wait(7500) // a close with unread bytes would be a reset
		e[session.Client].Close()
		e[session.Backend].saw()
		e[session.Backend].Close()
		r.mustEnd(session.ClientClosed, "--", 3000, 7500)
	})
}

// B141: counts keep up with a stream that never pauses, too.
func TestCountsKeepUpWithBulk(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		client, backend := r.pair()
		var arrived atomic.Int64
		var both sync.WaitGroup
		defer both.Wait()
		defer client.Close()
		both.Go(func() {
			for piece := make([]byte, 64<<10); ; <-time.After(2 * time.Millisecond) {
				if _, err := backend.Write(piece); err != nil {
					return
				}
			}
		})
		both.Go(func() {
			for piece := make([]byte, 64<<10); ; {
				n, err := client.Read(piece)
				if arrived.Add(int64(n)); err != nil {
					return
				}
			}
		})
		for range 3 {
			before := arrived.Load()
			eventually(t, "the stream goes on", func() bool { return arrived.Load() > before+2<<20 })
			told, began := arrived.Load(), time.Now()
			eventually(t, "the counts keep up", func() bool { return r.pool.Status().Backends[0].BytesToClient >= told })
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("the counts took %v", took)
			}
		}
	})
}

// B104: with user_timeout set, Linux ends a connection whose reader keeps the
// window shut for that long, although it answers every probe (seen on 6.18;
// tcp_probe_timer). Off, which is the default, such a reader lives on.
func TestUserTimeoutEndsAReaderThatStalls(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, timeout := range []time.Duration{0, time.Second} {
			t.Run(timeout.String(), func(t *testing.T) {
				t.Parallel()
				set := defaults()
				set.UserTimeout = timeout
				r := start(t, setup{set: set})
				client, backend := r.pair()
				client.SetReadBuffer(64 << 10)
				client.SetDeadline(time.Now().Add(time.Minute))
				const size = 24 << 20
				go func() {
					io.Copy(backend, l4test.Pattern(size))
					backend.CloseWrite()
				}()
				if timeout > 0 {
					rec := r.mustEnd(session.ClientReset, "CD")
					if rec.Total < timeout || rec.Total > 15*time.Second {
						t.Errorf("it took %v", rec.Total)
					}
					return
				}
				<-time.After(4 * time.Second)
				if n, err := io.Copy(io.Discard, client); n != size || err != nil {
					t.Errorf("got %d of %d bytes, then %v", n, size, err)
				}
			})
		}
	})
}

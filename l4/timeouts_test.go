package l4_test

import (
	"io"
	"net"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// B099, B106: idle is the session's, not a direction's and not a read's.
func TestIdleTimeout(t *testing.T) {
	const idle = 800 * time.Millisecond
	onEngines(t, func(t *testing.T, start starter) {
		limited := defaults()
		limited.IdleTimeout = idle
		trickle := func(r *rig, e [2]*end, from session.Side, d time.Duration) {
			var at int64
			for began := time.Now(); time.Since(began) < d; at++ {
				e[from].send(at, 1)
				<-time.After(idle / 8)
			}
			e[from.Other()].wait(at)
		}
		t.Run("silence ends it", func(t *testing.T) {
			t.Parallel()
			r := start(t, setup{set: limited})
			e := r.ends()
			e[session.Client].read()
			e[session.Backend].read()
			began := time.Now()
			e[session.Client].mustSee(0, "end")
			if took := time.Since(began); took < idle-50*time.Millisecond || took > 2*idle {
				t.Errorf("it took %v, want %v and somewhat more", took, idle)
			}
			e[session.Client].Close()
			e[session.Backend].Close()
			r.mustEnd(session.Idle, "cD", 0, 0)
		})
		sides(t, func(t *testing.T, from session.Side) { // one byte now and then, one way only
			r := start(t, setup{set: limited})
			e := r.ends()
			e[session.Client].read()
			e[session.Backend].read()
			trickle(r, e, from, 4*idle)
			e[session.Client].mustSee(e[session.Client].arrived.Load(), "end") // idle from now on
			e[session.Backend].Close()
			e[session.Client].Close()
			rec := r.mustEnd(session.Idle, [2]string{"sD", "cD"}[from])
			if rec.Total < 5*idle-100*time.Millisecond || rec.Last < idle/2 {
				t.Errorf("record %+v", rec)
			}
		})
		t.Run("off", func(t *testing.T) {
			t.Parallel()
			r := start(t, setup{})
			e := r.ends()
			e[session.Client].read()
			<-time.After(3 * idle)
			e[session.Backend].send(0, 10)
			e[session.Client].wait(10)
		})
	})
}

// A session ends for its age however busy it is, with an end and not a reset, and
// nothing of what went through it before is lost.
func TestMaxAge(t *testing.T) {
	const age = 600 * time.Millisecond
	onEngines(t, func(t *testing.T, start starter) {
		sides(t, func(t *testing.T, from session.Side) { // who is busy
			set := defaults()
			set.MaxAge, set.AgeJitter, set.IdleTimeout = age, 20, time.Minute
			r := start(t, setup{set: set})
			e := r.ends()
			e[session.Client].read()
			e[session.Backend].read()
			var at int64
			for ended := false; !ended; {
				select {
				case <-e[from].over:
					ended = true
				case <-time.After(age / 50):
					if e[from].send(at, 1000) != nil {
						t.Fatal("the session took no more before it ended")
					}
					at += 1000
				}
			}
			e[from].mustSee(0, "end")
			e[from].Close()
			if saw := e[from.Other()].saw(); saw.how != "end" || saw.bytes == 0 {
				t.Errorf("the other end saw %v", saw)
			}
			e[from.Other()].Close()
			if rec := r.mustEnd(session.MaxAge, "KD"); rec.Total < age*8/10 {
				t.Errorf("it ended at the age of %v, want %v at least", rec.Total, age*8/10)
			}
		})
	})
}

// The half-close limit counts from the last byte, not from the end.
func TestHalfCloseTimeoutCountsFromTheLastByte(t *testing.T) {
	const half = 600 * time.Millisecond
	onEngines(t, func(t *testing.T, start starter) {
		sides(t, func(t *testing.T, who session.Side) {
			set := defaults()
			set.HalfCloseTimeout = half
			r := start(t, setup{set: set})
			e := r.ends()
			e[who].CloseWrite()
			e[who].read()
			e[who.Other()].read()
			e[who.Other()].mustSee(0, "end")
			var at int64
			var last time.Duration
			for began := time.Now(); time.Since(began) < 3*half; at++ {
				last = time.Since(began)
				if err := e[who.Other()].send(at, 1); err != nil {
					t.Fatal(err)
				}
				<-time.After(half / 8)
			}
			e[who].mustSee(at, "end")
			e[session.Client].Close()
			e[session.Backend].Close()
			if rec := r.mustEnd(session.HalfCloseTimeout, [2]string{"cD", "sD"}[who]); rec.Total < last+half {
				t.Errorf("record %+v", rec)
			}
		})
	})
}

// A limit of a few milliseconds is late under load, and loses nothing.
func TestTinyLimits(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		set := defaults()
		set.IdleTimeout, set.HalfCloseTimeout = time.Second, time.Millisecond
		r := start(t, setup{set: set})
		for range 10 {
			e := r.ends()
			e[session.Client].read()
			go func() {
				e[session.Backend].send(0, 4<<20)
				e[session.Backend].CloseWrite()
			}()
			e[session.Client].mustSee(4<<20, "end")
			e[session.Client].Close()
			e[session.Backend].Close()
			r.record()
		}
	})
}

// B021: small messages wait for nobody's acknowledgement: two writes and one
// answer would meet Nagle's algorithm and a delayed ACK, 40 ms each time, or
// every third where only one of the sockets delays. A busy machine delays too,
// but not each time it is asked; and other tests would keep this process busy.
func TestSmallMessagesAreNotDelayed(t *testing.T) {
	onEnginesAlone(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		client, backend := r.pair()
		client.SetDeadline(time.Now().Add(6 * l4test.Patience))
		backend.SetDeadline(time.Now().Add(6 * l4test.Patience))
		go func() {
			for buf := make([]byte, 64); ; {
				if _, err := io.ReadFull(backend, buf); err != nil {
					return
				}
				backend.Write(buf[:32])
				backend.Write(buf[32:])
			}
		}()
		const rounds, exchanges = 10, 30
		var slow []int
		for range rounds {
			slow = append(slow, slowExchanges(t, client, exchanges))
			if slow[len(slow)-1] <= exchanges/10 {
				return
			}
		}
		t.Errorf("of %d exchanges, these took more than 20 ms, round after round: %v", exchanges, slow)
	})
}

// slowExchanges asks n times, in two writes each, and returns how many answers
// took more than 20 ms.
func slowExchanges(t *testing.T, client *net.TCPConn, n int) (slow int) {
	buf := make([]byte, 64)
	for range n {
		began := time.Now()
		client.Write(buf[:32])
		client.Write(buf[32:])
		if _, err := io.ReadFull(client, buf); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > 20*time.Millisecond {
			slow++
		}
	}
	return slow
}

//go:build unix

package l4_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"

	"golang.org/x/sys/unix"
)

// An urgent byte is dropped, and the bytes around it arrive: at the end of the
// stream as well, where a splice takes the mark for the end.
func TestUrgentByteIsDropped(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		sides(t, func(t *testing.T, who session.Side) {
			for _, after := range []int64{0, 5000} {
				r := start(t, setup{})
				e := r.ends()
				other := e[who.Other()]
				other.read()
				if err := sendUrgent(e[who].TCPConn); err != nil {
					t.Fatal(err)
				}
				e[who].send(0, 1000)
				other.wait(1000)
				if err := sendUrgent(e[who].TCPConn); err != nil {
					t.Fatal(err)
				}
				e[who].send(1000, after)
				e[who].CloseWrite()
				other.mustSee(1000+after, "end")
				e[who].read()
				other.Close()
				e[who].mustSee(0, "end")
				r.mustEnd(closed[who], "--")
			}
		})
	})
}

// What is behind an urgent byte in the middle of bulk arrives at once, with
// nothing sent after it: a splice stops at the mark and says that it is all.
func TestBulkBehindAnUrgentByteArrives(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		sides(t, func(t *testing.T, who session.Side) {
			for _, after := range []int64{10, 100 << 10, 2 << 20} {
				r := start(t, setup{})
				e := r.ends()
				other := e[who.Other()]
				other.read()
				e[who].send(0, 2<<20)
				if err := sendUrgent(e[who].TCPConn); err != nil {
					t.Fatal(err)
				}
				e[who].send(2<<20, after)
				other.wait(2<<20 + after)
				e[who].read()
				other.Close()
				e[who].mustSee(0, "end")
				e[who].Close()
			}
		})
	})
}

// A backend that answers and resets in the middle of an upload has not ended: the
// splice towards it may take the error before any event tells of it.
func TestResetInTheMiddleOfAnUploadIsNoEnd(t *testing.T) {
	times := 300
	if testing.Short() {
		times = 60
	}
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		for range times {
			e := r.ends()
			uploaded := make(chan struct{})
			go func() {
				defer close(uploaded)
				for chunk := make([]byte, 256<<10); ; {
					if _, err := e[session.Client].Write(chunk); err != nil {
						return
					}
				}
			}()
			io.CopyN(io.Discard, e[session.Backend].TCPConn, 4<<20)
			e[session.Backend].send(0, 2000)
			io.CopyN(io.Discard, e[session.Backend].TCPConn, 1<<20)
			e[session.Backend].SetLinger(0)
			e[session.Backend].Close()
			if rec := r.record(); rec.Cause != session.BackendReset {
				t.Errorf("cause %s, want %s", rec.Cause, session.BackendReset)
			}
			e[session.Client].Close()
			<-uploaded
		}
	})
}

// Many sessions of every shape at once: sizes, chunks, paces, socket buffers,
// urgent bytes, and who ends when. Each end must get every byte and an end.
func TestRandomStreams(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		sessions := 120
		if testing.Short() {
			sessions = 30
		}
		set := defaults()
		set.HalfCloseTimeout = 4 * time.Second
		r := start(t, setup{set: set})
		var wg sync.WaitGroup
		for i := range sessions {
			e := r.ends()
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			sizes := [2]int64{}
			waits := rng.IntN(3)       // this side ends only when it has seen the other end
			urgent := rng.IntN(4) == 0 // one each way: of two at once the kernel keeps one
			for side := range e {
				sizes[side] = []int64{0, 1, rng.Int64N(5000), rng.Int64N(3 << 20)}[rng.IntN(4)]
			}
			for side := range e {
				if rng.IntN(3) == 0 { // slow: tens of ms for a window of some KB
					e[side].SetReadBuffer(1)
					e[side].SetWriteBuffer(1)
					sizes = [2]int64{min(sizes[0], 30_000), min(sizes[1], 30_000)}
				}
				e[side].read()
			}
			for side := range e {
				rng := rand.New(rand.NewPCG(seed+1+uint64(side), uint64(i)))
				urgent := urgent
				wg.Go(func() {
					for at := int64(0); at < sizes[side]; {
						n := min(1+rng.Int64N(1+rng.Int64N(200_000)), sizes[side]-at)
						if err := e[side].send(at, n); err != nil {
							t.Errorf("session %d: %v", i, err)
							return
						}
						at += n
						if urgent && at > sizes[side]/2 {
							sendUrgent(e[side].TCPConn)
							urgent = false
						}
						if rng.IntN(4) == 0 {
							<-time.After(time.Duration(rng.IntN(3000)) * time.Microsecond)
						}
					}
					if side == waits {
						<-e[side].over
					}
					e[side].CloseWrite()
				})
			}
			wg.Go(func() {
				for side := range e {
					<-e[side].over
					if want := (seen{sizes[1-side], "end"}); e[side].final != want {
						t.Errorf("session %d: side %d saw %v, want %v", i, side, e[side].final, want)
					}
				}
				e[0].Close()
				e[1].Close()
			})
		}
		wg.Wait()
		for range sessions {
			if rec := r.record(); !rec.Cause.Normal() {
				t.Errorf("record %+v", rec)
			}
		}
	})
}

func sendUrgent(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) { _, sent = unix.SendmsgN(int(fd), []byte{'!'}, nil, nil, unix.MSG_OOB) })
	if err != nil {
		return err
	}
	return sent
}

// A reset is told once. Where the write towards the side that reset takes it,
// reading meets what looks like an end, which must not go out as one.
func TestResetUnderTrafficStaysAReset(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		sides(t, func(t *testing.T, who session.Side) {
			r := start(t, setup{})
			for range 100 {
				e := r.ends()
				living := e[who.Other()]
				e[who].read()
				living.read()
				sent := make(chan error, 1)
				go func() {
					var err error
					for n := int64(0); err == nil; n += 100 {
						err = living.send(n, 100)
					}
					sent <- err
				}()
				e[who].send(0, 1000)
				e[who].wait(1000)
				l4test.Abort(e[who].TCPConn)
				// The living end is told once as well: by its write or by its
				// read. EPIPE would say that an end came before.
				err, got := <-sent, living.saw()
				rec := r.record()
				if got.how == "end" && !errors.Is(err, syscall.ECONNRESET) {
					t.Fatalf("writing failed with %v, reading saw %v, the record says %s", err, got, rec.Cause)
				}
				living.Close()
			}
		})
	})
}

// A reset behind a reader that takes nothing is noticed all the same: else the
// session would be held for as long as the reader is.
func TestResetBehindAStalledReaderIsNoticed(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		sides(t, func(t *testing.T, who session.Side) {
			set := defaults()
			set.HalfCloseTimeout = 800 * time.Millisecond // windows of 50 ms
			r := start(t, setup{set: set})
			e := r.ends()
			e[who].SetWriteDeadline(time.Now().Add(2 * time.Second))
			if err := e[who].send(0, 1<<30); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("sending ended with %v, want a stall", err)
			}
			l4test.Abort(e[who].TCPConn)
			r.mustEnd([2]session.Cause{session.ClientReset, session.BackendReset}[who], [2]string{"CD", "SD"}[who])
			if _, err := io.Copy(io.Discard, onlyReader{e[who.Other()]}); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the reader saw %v, want a reset", err)
			}
		})
	})
}

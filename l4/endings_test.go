package l4_test

import (
	"io"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// promptly is far below the second that a polite ending may take.
const promptly = 700 * time.Millisecond

func TestDataAndEndInOneWrite(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		for range 200 {
			e := r.ends()
			// Both are in the relay's queue before it looks.
			e[session.Client].send(0, 10)
			e[session.Client].CloseWrite()
			e[session.Client].read()
			e[session.Backend].read()
			e[session.Backend].mustSee(10, "end")
			e[session.Backend].Close()
			e[session.Client].mustSee(0, "end")
			e[session.Client].Close()
			r.mustEnd(session.ClientClosed, "--", 10, 0)
		}
	})
}

func TestBothEndsAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		for range 100 {
			e := r.ends()
			for _, e := range e {
				e.read()
				go func() {
					e.send(0, 1000+int64(e.side))
					e.CloseWrite()
				}()
			}
			e[session.Client].mustSee(1001, "end")
			e[session.Backend].mustSee(1000, "end")
			if rec := r.record(); !rec.Cause.Normal() || rec.ToBackend != 1000 || rec.ToClient != 1001 {
				t.Fatalf("record %+v", rec)
			}
			e[session.Client].Close()
			e[session.Backend].Close()
		}
	})
}

// FIN, then RST: the end came first, so it was a close; the reset tells that
// nothing more is wanted, and passes on.
func TestEndThenReset(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, who := range []session.Side{session.Client, session.Backend} {
			r := start(t, setup{})
			e := r.ends()
			e[who.Other()].read()
			e[who].send(0, 1000)
			e[who].CloseWrite()
			l4test.Abort(e[who].TCPConn)
			began := time.Now()
			if got := e[who.Other()].saw(); got.bytes != 1000 || got.how != "end" {
				t.Errorf("saw %v, want 1000 end", got)
			}
			e[who.Other()].Close()
			r.mustEnd(closed[who], "--")
			if took := time.Since(began); took > promptly {
				t.Errorf("it took %v", took)
			}
		}
	})
}

// The window of the last copy must not end the watch for a reset of the side
// that has ended.
func TestResetLongAfterTheEndIsSeen(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		sides(t, func(t *testing.T, who session.Side) {
			set := defaults()
			set.IdleTimeout, set.HalfCloseTimeout = time.Hour, time.Hour
			r := start(t, setup{set: set})
			e := r.ends()
			e[who.Other()].read()
			e[who].send(0, 1000)
			e[who].CloseWrite()
			e[who.Other()].mustSee(1000, "end")
			time.Sleep(1500 * time.Millisecond) // the time is what is tested: longer than a window
			l4test.Abort(e[who].TCPConn)
			r.mustEnd(closed[who], "--")
		})
	})
}

// What was queued before a reset still arrives, if it is taken in time.
func TestResetBehindBackPressure(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, who := range []session.Side{session.Client, session.Backend} {
			r := start(t, setup{})
			e := r.ends()
			other := e[who.Other()]
			sent := pump(e[who], 32<<20)
			l4test.Abort(e[who].TCPConn)
			other.read()
			got := other.saw()
			if got.how != "reset" || got.bytes > sent || got.bytes == 0 {
				t.Errorf("side %d saw %v after %d were sent, want a reset", other.side, got, sent)
			}
			r.mustEnd(reset[who], [2]string{"CD", "SD"}[who])
		}
	})
}

// pump sends until nobody takes any more, max bytes at most, and returns how
// many went out.
func pump(e *end, max int64) int64 {
	var sent int64
	for sent < max {
		e.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := io.Copy(e.TCPConn, l4test.PatternAt(streamAt[e.side]+sent, min(max-sent, 256<<10)))
		sent += n
		if err != nil {
			break
		}
	}
	e.SetWriteDeadline(time.Now().Add(2 * l4test.Patience))
	return sent
}

// B012: the client closes outright while the backend streams without end.
func TestStreamEndsWhenTheClientLeaves(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, how := range []string{"close", "reset"} {
			r := start(t, setup{})
			e := r.ends()
			failed := make(chan time.Time, 1)
			go func() {
				e[session.Backend].send(0, 1<<40)
				failed <- time.Now()
			}()
			io.CopyN(io.Discard, e[session.Client], 100_000)
			left := time.Now()
			if how == "close" {
				e[session.Client].Close()
			} else {
				l4test.Abort(e[session.Client].TCPConn)
			}
			select {
			case at := <-failed:
				if took := at.Sub(left); took > promptly {
					t.Errorf("%s: the backend went on for %v", how, took)
				}
			case <-time.After(l4test.Patience):
				t.Fatalf("%s: the backend streams on", how)
			}
			// A close with unread input is a reset on the wire; one with none is an
			// end, and a reset that the stream provokes.
			if rec := r.record(); rec.Cause != session.ClientReset && (how == "reset" || rec.Cause != session.ClientClosed) {
				t.Errorf("%s: record says %s", how, rec.Cause)
			}
		}
	})
}

// A client that ended and then closed provokes a reset with what still comes.
func TestClientClosesBehindItsEnd(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		e := r.ends()
		e[session.Backend].read()
		e[session.Client].Close() // nothing unread: FIN
		e[session.Backend].mustSee(0, "end")
		began := time.Now()
		for e[session.Backend].send(0, 1000) == nil {
			if time.Since(began) > l4test.Patience {
				t.Fatal("the backend streams on")
			}
		}
		r.mustEnd(session.ClientClosed, "--", 0, -1)
	})
}

// The backend answers and closes while the client uploads (HTTP's 413): the
// answer must arrive, and the end of it as an end.
func TestBackendClosesWhileTheClientUploads(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for range 20 {
			r := start(t, setup{})
			e := r.ends()
			go func() {
				io.ReadFull(e[session.Backend], make([]byte, 100_000))
				e[session.Backend].send(0, 300)
				e[session.Backend].CloseWrite()
				e[session.Backend].Close() // with unread input: RST
			}()
			e[session.Client].send(0, 8<<20) // may fail on the way
			e[session.Client].read()
			got := e[session.Client].saw()
			if got.bytes != 300 || got.how != "end" {
				t.Errorf("the client saw %v, want 300 end", got)
			}
			e[session.Client].Close()
			r.mustEnd(session.BackendClosed, "--", -1, 300)
		}
	})
}

// A slow reader is not an idle one, and not a half-closed one that is over.
func TestSlowReaderIsNeverEnded(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for _, half := range []bool{false, true} {
			t.Run(map[bool]string{false: "idle", true: "half-closed"}[half], func(t *testing.T) {
				t.Parallel()
				set := defaults()
				set.IdleTimeout, set.HalfCloseTimeout = time.Second, time.Second
				r := start(t, setup{set: set})
				e := r.ends()
				const size = 4 << 20
				e[session.Client].SetReadBuffer(128 << 10)
				go func() {
					e[session.Backend].send(0, size)
					e[session.Backend].CloseWrite()
				}()
				if half {
					e[session.Client].CloseWrite()
				}
				// 1.3 MB a second: a send queue of megabytes reports room only
				// after a third of it has gone.
				slow := &slowReader{c: e[session.Client], step: 32 << 10, pause: 25 * time.Millisecond}
				v := &l4test.Verify{At: streamAt[session.Backend]}
				if _, err := io.Copy(v, slow); err != nil || v.N != size {
					t.Errorf("the client got %d of %d bytes, then %v", v.N, size, err)
				}
				e[session.Client].Close()
				first := session.BackendClosed
				if half {
					first = session.ClientClosed
				}
				r.mustEnd(first, "--", 0, size)
			})
		}
	})
}

type slowReader struct {
	c     io.Reader
	step  int
	pause time.Duration
}

func (s *slowReader) Read(b []byte) (int, error) {
	<-time.After(s.pause)
	return s.c.Read(b[:min(len(b), s.step)])
}

// An order while the client writes: what was read arrives, both ends see an
// end, and neither a reset while the polite part lasts.
func TestOrderWhileTheClientWrites(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		e := r.ends()
		e[session.Client].read()
		e[session.Backend].read()
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			e[session.Client].send(0, 1<<40)
		}()
		e[session.Backend].wait(1 << 20)
		go r.front.Shutdown(canceled())
		e[session.Client].mustSee(0, "end")
		e[session.Client].CloseWrite()
		<-wrote
		got := e[session.Backend].saw()
		e[session.Backend].Close()
		rec := r.mustEnd(session.Shutdown, "KD", -1, 0)
		if got.how != "end" || got.bytes != rec.ToBackend {
			t.Errorf("the backend saw %v, the record says %d", got, rec.ToBackend)
		}
	})
}

// B009, the other half: an answer of a megabyte and a normal close is an end.
func TestNormalCloseIsAnEnd(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Source(1<<20)).Addr)})
		c := r.dial()
		c.Write([]byte("?"))
		v := &l4test.Verify{}
		if _, err := io.Copy(v, c); err != nil || v.N != 1<<20 {
			t.Errorf("got %d bytes, then %v", v.N, err)
		}
		c.Close()
		r.mustEnd(session.BackendClosed, "--", 1, 1<<20)
	})
}

package l4_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// end is one end of a session: it sends its own stretch of the pattern and
// checks the stretch that the other end sends.
type end struct {
	*net.TCPConn
	t       testing.TB
	side    session.Side
	arrived atomic.Int64
	over    chan struct{} // closed when reading is over
	final   seen          // valid then
}

// seen is what an end got in all.
type seen struct {
	bytes int64
	how   string // end, reset, or what was wrong
}

func (s seen) String() string { return fmt.Sprintf("%d %s", s.bytes, s.how) }

// streamAt is where in the pattern each side's stream begins.
var streamAt = [2]int64{session.Client: 0, session.Backend: 777}

// ends returns both ends of a new session, neither of which reads yet.
func (r *rig) ends() [2]*end {
	client, backend := r.pair()
	var e [2]*end
	for side, c := range [2]*net.TCPConn{session.Client: client, session.Backend: backend} {
		e[side] = &end{TCPConn: c, t: r.t, side: session.Side(side), over: make(chan struct{})}
	}
	return e
}

// read reads to the end, beside the test.
func (e *end) read() {
	v := &l4test.Verify{At: streamAt[e.side.Other()]}
	go func() {
		defer close(e.over)
		_, err := io.Copy(io.MultiWriter(v, counter{&e.arrived}), onlyReader{e.TCPConn})
		e.final = seen{v.N, ending(err)}
	}()
}

// counter counts what is written to it.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// onlyReader keeps io.Copy from splicing.
type onlyReader struct{ io.Reader }

// ending names how reading ended.
func ending(err error) string {
	switch {
	case err == nil:
		return "end"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	}
	return err.Error()
}

// send writes n bytes of the side's stream from offset at on.
func (e *end) send(at, n int64) error {
	_, err := io.Copy(e.TCPConn, l4test.PatternAt(streamAt[e.side]+at, n))
	return err
}

// wait waits until n bytes have arrived.
func (e *end) wait(n int64) {
	e.t.Helper()
	eventually(e.t, fmt.Sprintf("%d bytes arrive at side %d", n, e.side), func() bool { return e.arrived.Load() >= n })
}

// saw returns what the end got in all.
func (e *end) saw() seen {
	e.t.Helper()
	select {
	case <-e.over:
		return e.final
	case <-time.After(2 * l4test.Patience):
		e.t.Fatalf("side %d never met the end of what it reads\n%s", e.side, stacks())
		return seen{}
	}
}

func (e *end) mustSee(n int64, how string) {
	e.t.Helper()
	if got, want := e.saw(), (seen{n, how}); got != want {
		e.t.Errorf("side %d saw %v, want %v", e.side, got, want)
	}
}

// mustEnd checks the next record. n is the payload to the backend and to the
// client; less than 0 is any.
func (r *rig) mustEnd(cause session.Cause, code string, n ...int64) session.Record {
	r.t.Helper()
	rec := r.record()
	if rec.Cause != cause || rec.Code != code {
		r.t.Errorf("record says %s %s, want %s %s", rec.Cause, rec.Code, cause, code)
	}
	if len(n) == 2 && (n[0] >= 0 && rec.ToBackend != n[0] || n[1] >= 0 && rec.ToClient != n[1]) {
		r.t.Errorf("record says %d to the backend, %d to the client; want %v", rec.ToBackend, rec.ToClient, n)
	}
	return rec
}

// sides runs test once with each side in the leading part, beside each other.
func sides(t *testing.T, test func(t *testing.T, who session.Side)) {
	for who, name := range [2]string{"client", "backend"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, session.Side(who))
		})
	}
}

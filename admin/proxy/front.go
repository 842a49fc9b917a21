package proxy

import (
	"context"
	"errors"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sluice/admin/internal/answer"
	"sluice/l4"
	"sluice/l4/session"
	"sluice/pool"
)

// frontName is the name under which /proxy counts and logs.
const frontName = "/proxy"

// linger is how long what was cut has to end. As for sessions.
const linger = time.Second

// uploadGrace is how long a client may go on sending a body that nobody needs.
// Chosen: as long as the header of its next request may take.
const uploadGrace = 5 * time.Second

// errShutdown is why the context of a request ended that was cut.
var errShutdown = errors.New("the process is shutting down")

// Options are what a Front is made of. All but Record are required.
type Options struct {
	Dial     Dial
	Settings session.Settings     // as a frontend has them: of the search for a backend, and of half-closed connections
	Record   func(session.Record) // gets one record for each request; nil drops it
	Left     func(net.Conn)       // told when an upgraded client connection is closed, which the server does not see
	ErrorLog *log.Logger          // for what net/http has to say
}

// Front is the frontend that /proxy is: counters, and what its requests share.
// Safe for concurrent use.
type Front struct {
	options Options
	lines   lines
	gate    gate
	buffers buffers
	ended   context.Context // ends when what is left must go
	end     context.CancelCauseFunc

	born           int64 // nanoseconds; with total it makes ids unique across restarts
	total, redials atomic.Int64
	finished       session.Tally

	mu       sync.Mutex // guards rejected
	rejected map[string]int64
}

// New returns a front that takes requests at once.
func New(o Options) *Front {
	f := &Front{
		options: o, lines: newLines(o.Dial), gate: newGate(), born: time.Now().UnixNano(), rejected: map[string]int64{},
	}
	f.ended, f.end = context.WithCancelCause(context.Background())
	return f
}

// Way is where one request goes, and how.
type Way struct {
	Pool            *pool.Pool
	Path            string         // for the backend, escaped as the client sent it
	ResponseTimeout time.Duration  // until the response header; 0 is for ever
	TrustedFrom     []netip.Prefix // peers whose forwarding headers are believed
	Private         bool           // its Authorization header is for us, not for the backend
}

// Forward passes a request on to a backend and its response back. Once a drain
// has begun it refuses. It panics with http.ErrAbortHandler when the client must
// not take what it got for a whole answer.
func (f *Front) Forward(w http.ResponseWriter, r *http.Request, way Way) {
	if !f.gate.enter() {
		w.Header().Set("Connection", "close")
		f.Reject(w, "shutdown", answer.Refuse(http.StatusServiceUnavailable, "%v", errShutdown))
		return
	}
	defer f.gate.leave()
	x := newExchange(f, r, way)
	defer x.end()
	x.run(w)
}

// Reject answers a request that must not be forwarded, and counts it under the
// reason, which is one of a few words.
func (f *Front) Reject(w http.ResponseWriter, reason string, err error) {
	f.mu.Lock()
	f.rejected[reason]++
	f.mu.Unlock()
	answer.Error(w, err)
}

// rejections returns how many requests were rejected, and why.
func (f *Front) rejections() (total int64, by map[string]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.rejected {
		total += n
	}
	return total, maps.Clone(f.rejected)
}

// Status shows /proxy as what it counts as. listen may be nil.
func (f *Front) Status(listen net.Addr, pool string) l4.Status {
	rejected, by := f.rejections()
	return l4.Status{
		Name:       frontName,
		Listen:     textOf(listen),
		Pool:       pool,
		Active:     int64(f.gate.count()),
		Total:      f.total.Load(),
		Rejected:   rejected,
		RejectedBy: by,
		Redials:    f.redials.Load(),
		EndedBy:    f.finished.ByCause(),
		Durations:  f.finished.Durations(),
	}
}

// Prune closes the idle connections to backends that are in none of the pools
// any more. Those in use close when their request is over, within keptFor.
func (f *Front) Prune(pools []*pool.Pool) { f.lines.prune(pools) }

// Drain refuses new requests and waits for those under way, upgraded connections
// included. When ctx ends first it cuts them, and returns how many that were.
func (f *Front) Drain(ctx context.Context) (cut int) {
	idle := f.gate.shut()
	select {
	case <-idle:
		return 0
	case <-ctx.Done():
	}
	cut = f.gate.count()
	f.end(errShutdown)
	within(idle, linger)
	return cut
}

// Close cuts what Drain has not waited for, and closes the connections to the
// backends.
func (f *Front) Close() {
	idle := f.gate.shut()
	f.end(errShutdown)
	within(idle, linger)
	f.lines.prune(nil)
}

// within waits for done, but not longer than d.
func within(done <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// id returns the session id of the n-th request.
func (f *Front) id(n int64) string {
	return strconv.FormatInt(f.born, 36) + "-p" + strconv.FormatInt(n, 36)
}

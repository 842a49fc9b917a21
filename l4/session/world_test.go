package session_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// late is how long after a deadline this engine notices it.
const late = 2 * time.Millisecond

// began is when every world begins.
var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world is all that a session cannot see by itself: the clock, the pool, the
// resolver and the network. It drives a session as an engine would.
type world struct {
	*session.Session
	t     testing.TB
	now   time.Time
	armed time.Time // when the timer fires
	pool  *pool.Pool
	set   session.Settings
	lag   time.Duration

	headers session.HeaderRules
	admit   func(netip.Addr) session.Cause

	// network says what becomes of a dial, by host: "ok", "hang", or a word of
	// faults, each after a time if one follows: "refused 300ms".
	network map[string]string
	// names says what the resolver answers, by name: hosts, "error" or "hang",
	// each after a time if one comes last: "10.1.0.1 10.1.0.2 40ms".
	names map[string]string

	woken int      // times
	log   []string // dials and look-ups, each with the time it was given
}

// defaults are those of a frontend in the file.
func defaults() session.Settings {
	return session.Settings{
		Attempts: 3, ConnectTimeout: 2 * time.Second, DialBudget: 6 * time.Second,
		HalfCloseTimeout: time.Minute,
	}
}

// newWorld returns a world with the backends of text, whose session has not
// started. A word is an id, with "@name" if its address is one, and with "/n"
// if it has a limit. Backend A is at 10.0.0.1:80, B at 10.0.0.2:80, and so on.
func newWorld(t testing.TB, text string, policy pool.Policy) *world {
	t.Helper()
	strategy, err := balance.ByName("round_robin", "")
	if err != nil {
		t.Fatal(err)
	}
	c := pool.Config{Strategy: strategy, Policy: policy, Backends: specs(text)}
	w := &world{
		Session: new(session.Session), t: t, now: began, set: defaults(),
		pool:    pool.New("p", c, pool.Hooks{}),
		network: map[string]string{}, names: map[string]string{},
	}
	t.Cleanup(w.pool.Close)
	return w
}

func specs(text string) (ss []pool.Spec) {
	for i, word := range strings.Fields(text) {
		s := pool.Spec{Weight: 1}
		word, limit, _ := strings.Cut(word, "/")
		fmt.Sscan(limit, &s.MaxSessions)
		id, name, named := strings.Cut(word, "@")
		s.ID, s.Address = id, fmt.Sprintf("10.0.0.%d:80", i+1)
		if named {
			s.Address = name + ":80"
		}
		ss = append(ss, s)
	}
	return ss
}

var client = netip.MustParseAddrPort("192.0.2.7:4711")

func (w *world) start() {
	w.Start(w.now, w.origin(), 1234, client)
}

// origin is what the sessions of this world share.
func (w *world) origin() *session.Origin {
	return &session.Origin{
		Process: "cafe", Frontend: "f", Listen: "127.0.0.1:5432",
		Pool: w.pool, Settings: &w.set, Lag: w.lag, Headers: w.headers, Admit: w.admit,
	}
}

// connect looks for a backend until there is one or there is none, and returns
// the last step.
func (w *world) connect() session.Step {
	step := w.Next(w.now)
	for range 1000 {
		switch step.Do {
		case session.Lookup:
			addrs, err := w.resolve(step)
			step = w.Resolved(w.now, addrs, err)
		case session.Queue:
			step = w.Queue(w.now, func() { w.woken++ })
		case session.Dial:
			step = w.Dialed(w.now, w.dial(step))
		default:
			return step
		}
	}
	w.t.Fatalf("the session looks for a backend without end: %s", w.trace())
	return step
}

// dial plays one dial.
func (w *world) dial(step session.Step) error {
	host, _, _ := net.SplitHostPort(step.Address)
	how, took := w.outcome(step, w.network[host])
	switch {
	case how == "hang":
		return fmt.Errorf("dial %s: %w", step.Address, os.ErrDeadlineExceeded)
	case how == "ok" || how == "":
		w.now = w.now.Add(took)
		return nil
	}
	err, ok := faults[how]
	if !ok {
		w.t.Fatalf("no fault is called %q", how)
	}
	w.now = w.now.Add(took)
	return fmt.Errorf("dial %s: %w", step.Address, err)
}

// resolve plays one look-up.
func (w *world) resolve(step session.Step) (addrs []string, err error) {
	host, port, _ := net.SplitHostPort(step.Address)
	how, took := w.outcome(step, w.names[host])
	switch how {
	case "hang":
		return nil, &net.DNSError{Err: "no answer yet", Name: host, IsTimeout: true}
	case "error":
		w.now = w.now.Add(took)
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	case "odd": // an error that is no DNSError
		w.now = w.now.Add(took)
		return nil, context.DeadlineExceeded
	}
	w.now = w.now.Add(took)
	for _, a := range strings.Fields(how) {
		addrs = append(addrs, net.JoinHostPort(a, port))
	}
	return addrs, nil
}

// outcome logs the step and splits what becomes of it from how long that takes.
// What takes longer than the step may hangs, and then the time is spent.
func (w *world) outcome(step session.Step, text string) (how string, took time.Duration) {
	if step.Deadline.IsZero() {
		w.t.Errorf("a step without a deadline: %+v", step)
	}
	may := step.Deadline.Sub(w.now)
	host, _, _ := net.SplitHostPort(step.Address)
	w.log = append(w.log, fmt.Sprintf("%s %v", host, may.Round(10*time.Millisecond)))
	words := strings.Fields(text)
	if n := len(words); n > 0 {
		if d, err := time.ParseDuration(words[n-1]); err == nil {
			took, words = d, words[:n-1]
		}
	}
	how = strings.Join(words, " ")
	if how == "hang" || took > may {
		w.now = w.now.Add(max(may, 0) + late)
		return "hang", 0
	}
	return how, took
}

func (w *world) trace() string { return strings.Join(w.log, ", ") }

// source is our own address towards any backend.
const source = "10.9.9.9:555"

// finish closes the session and checks what holds for each: no lease is left,
// and the record makes sense.
func (w *world) finish() session.Record {
	w.t.Helper()
	r := w.Close(w.now, source, 3)
	if n := w.active(); n != 0 {
		w.t.Errorf("after Close: %d sessions are still counted on backends", n)
	}
	if r.Cause == "" || len(r.Code) != 2 {
		w.t.Errorf("after Close: cause %q, code %q", r.Cause, r.Code)
	}
	if r.Dial < 0 || r.Queue < 0 || r.Dial+r.Queue > r.Total || r.Last < 0 || r.Last > r.Total {
		w.t.Errorf("after Close: dial %v, last %v of a total of %v", r.Dial, r.Last, r.Total)
	}
	return r
}

// active returns the sessions that the pool's backends count now.
func (w *world) active() (n int64) {
	for _, b := range w.pool.Status().Backends {
		n += b.Active
	}
	return n
}

// failures lists how many failed dials each backend counts: "A1 B0".
func (w *world) failures() string {
	var words []string
	for _, b := range w.pool.Status().Backends {
		words = append(words, fmt.Sprintf("%s%d", b.ID, b.DialFailures))
	}
	return strings.Join(words, " ")
}

// attempts lists what became of each: "A:refused B:".
func attempts(r session.Record) string {
	var words []string
	for _, a := range r.Attempts {
		words = append(words, a.Backend+":"+a.Error)
	}
	return strings.Join(words, " ")
}

// connected returns a world whose session has just reached backend A.
func connected(t testing.TB, set session.Settings, lag time.Duration) *world {
	t.Helper()
	w := newWorld(t, "A", pool.Policy{})
	w.set, w.lag = set, lag
	w.start()
	if step := w.connect(); step.Do != session.Relay {
		t.Fatalf("connect: got %+v, want relay", step)
	}
	return w
}

func (w *world) after(d time.Duration) time.Time {
	w.now = w.now.Add(d)
	return w.now
}

// faults names errors as the network yields them.
var faults = map[string]error{
	"refused":  refusedError(),
	"timeout":  os.NewSyscallError("connect", syscall.ETIMEDOUT),
	"reset":    os.NewSyscallError("connect", syscall.ECONNRESET),
	"nohost":   os.NewSyscallError("connect", syscall.EHOSTUNREACH),
	"nonet":    os.NewSyscallError("connect", syscall.ENETUNREACH),
	"noport":   os.NewSyscallError("connect", syscall.EADDRNOTAVAIL),
	"nofiles":  os.NewSyscallError("socket", syscall.EMFILE),
	"eof":      io.EOF,
	"canceled": context.Canceled,
}

func refusedError() error { return os.NewSyscallError("connect", syscall.ECONNREFUSED) }

var (
	verbs = map[session.Verb]string{
		session.None: "-", session.HalfClose: "half-close", session.Finish: "finish",
		session.Linger: "linger", session.Abort: "abort", session.Cut: "cut",
		session.Reset: "reset", session.Redial: "redial",
	}
	steps = map[session.Do]string{
		session.Header: "header", session.Lookup: "lookup", session.Queue: "queue", session.Wait: "wait", session.Dial: "dial", session.Relay: "relay", session.End: "end",
	}
)

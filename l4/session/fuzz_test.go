package session_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// FuzzSession tells a session events at any time and in any order, those that no
// engine should produce included, and compares it with what must hold always.
// The first three bytes are the settings; then a byte is an event, and its
// argument follows.
func FuzzSession(f *testing.F) {
	for _, seed := range []string{
		"",
		"\x02\x00\x02ndmmeExc",               // dial, bytes, both ends
		"\x03\x04\x03nDdDnDdx",               // refusals, and out of backends
		"\x12\x09\x01nrdTmTxTxTxTc",          // a name, then silence to the end
		"\x33\x1f\x02nRnrDDdmeETxxx",         // names that fail, half-closed and silent
		"\x02\x01\x02ngdnrdxc",               // the client leaves during the dial
		"\x02\x01\x02ndaaEeTxTxmc",           // an order, and the linger to its end
		"\x02\x01\x02ndmEf0xTx",              // a reset after an end of stream
		"\x02\x01\x02drEmxgaceEndrc",         // everything out of order
		"\x41\x01\x01nDnDnD",                 // a full backend
		"\x00\x00\x00nnnnddddccccnnddmm",     // again and again
		"\x03\x01\x02na\x02a\x03dmExTx",      // orders while dialing
		"\x02\x01\x02ndma\x02xTxTx",          // its backend went down
		"\x02\x05\x02ndT5mT5xT1xT1xT1xT1xT1", // a stalled writer
		"\x0c\x01\x10nqT\x03hwdmeE",          // queued, and served
		"\x0c\x01\x10nqlc",                   // queued, and gone
		"\x0c\x01\x10nqT\x06wc",              // queued in vain
		"\x0d\x01\x12nD\x00qhwdmeE",          // queued after a refusal
		"\x08\x81\x00o\x00nqwo\x01wdmeE",     // held, and served
		"\x08\x81\x00o\x00nqT\x08wc",         // held in vain
		"\x0c\x81\x10nqo\x00wT\x05o\x01w",    // queued, held, and queued in vain
		"\x08\x81\x00nD\x00qo\x00o\x01wdmeE", // held after a refusal, and tried again
		"\x09\x82\x01na\x02qnD\x00qlc",       // held after an order
		"\x22\x00\x01ndmTmTmTmTmTxTxTx",      // as old as it may be
		"A70nd0x01\x072x001x0",               // and older, where a send queue moved
		"\x02\x00\x06np\x00p\x02ndmeEc",      // a header in parts
		"\x02\x00\x0ep\x04ndp\x01",           // something else where a header has to be
		"\x02\x00\x06np\x00P\x00dmgaxc",      // none in time
		"\x02\x00\x0enp\x00gP\x01pc",         // gone before it
		strings.Repeat("\x03ndmeE", 20),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		z := newFuzz(t, data)
		for len(z.data) > 0 && !t.Failed() {
			z.event(z.byte())
			z.check()
		}
		z.close()
		z.check()
	})
}

// fuzz is one run: a session, and what a simple model knows of it.
type fuzz struct {
	*world
	data []byte
	held *pool.Lease // of another session

	upset bool // a weight was changed
	holds bool // sessions wait while no backend is eligible

	awaits bool   // a header
	begun  []byte // of it

	step     session.Step  // the last
	picked   time.Time     // the first Next, later by what was waited since
	waits    time.Time     // since when it waits
	woken    bool          // while it waits
	relaying bool          // a backend was reached
	ended    [2]bool       // by side
	broken   [2]bool       // by side: writing to it gave EPIPE
	first    session.Side  // that ended
	moved    [2]int64      // by side
	progress time.Time     // the last that the session was told, or found
	queues   [2]int        // at the last look since
	verb     session.Verb  // the first that ended the relay, or Cut
	cause    session.Cause // the first; "search" for any of a search
	closed   bool
	record   session.Record
}

func newFuzz(t *testing.T, data []byte) *fuzz {
	z := &fuzz{data: data, held: new(pool.Lease)}
	a, b, c := z.byte(), z.byte(), z.byte()
	ids := []string{"A", "B", "C", "D"}[:1+a%4]
	for i := range ids {
		if a>>4&(1<<i) != 0 {
			ids[i] += "@" + strings.ToLower(ids[i]) + ".test"
		}
		if c>>4&(1<<i) != 0 {
			ids[i] += "/1"
		}
	}
	z.world = newWorld(t, strings.Join(ids, " "), pool.Policy{
		MaxFailures: int(b >> 6), QueueMax: int(a >> 3 & 1), QueueFor: 2 * time.Second,
		HoldFor: time.Duration(b>>7) * 5 * time.Second, RetryAfter: time.Hour,
	})
	z.holds = z.pool.Holds()
	z.set.Attempts = 1 + int(c%5)
	z.set.DialBudget = time.Duration(1+b%8) * time.Second
	z.set.IdleTimeout = time.Duration(b>>2&3) * 4 * time.Second
	z.set.HalfCloseTimeout = time.Duration(b>>4&3) * 3 * time.Second
	z.lag = time.Duration(c&3) * 250 * time.Millisecond
	if (a^c)>>5&1 != 0 {
		z.set.MaxAge, z.set.AgeJitter = 7*time.Second, int(b%101)
	}
	if c&4 != 0 {
		z.awaitHeader(session.AcceptHeaders + session.HeaderMode(c>>3&1))
	}
	if a&4 != 0 {
		z.pool.Acquire(z.held, pool.Query{})
		t.Cleanup(z.held.Release)
	}
	z.start()
	z.progressed()
	return z
}

// byte returns the next byte, 0 when there is none.
func (z *fuzz) byte() byte {
	if len(z.data) == 0 {
		return 0
	}
	b := z.data[0]
	z.data = z.data[1:]
	return b
}

// pauses are the times that may pass between two events.
var pauses = []time.Duration{
	0, time.Nanosecond, time.Millisecond, 100 * time.Millisecond, time.Second, 2 * time.Second,
	3*time.Second + time.Millisecond, 8 * time.Second, time.Hour,
}

// errors that dials and sockets end with.
var fuzzErrors = []error{
	faults["refused"], faults["timeout"], faults["nonet"], faults["nofiles"], faults["canceled"], faults["reset"], syscall.EPIPE,
}

func pick[T any](list []T, b byte) T { return list[int(b)%len(list)] }

func (z *fuzz) event(b byte) {
	switch b {
	case 'n':
		z.stepped(z.Next(z.now))
	case 'r':
		z.stepped(z.Resolved(z.now, []string{"10.1.0.1:80", "10.1.0.2:80", "[2001:db8::3]:80"}[:z.byte()%4], nil))
	case 'R':
		z.stepped(z.Resolved(z.now, nil, pick(fuzzErrors, z.byte())))
	case 'p':
		z.header([]byte(pick(firstBytes, z.byte())))
	case 'P':
		z.noHeader(z.byte()%2 == 0)
	case 'd':
		z.dialed(nil)
	case 'D':
		z.dialed(pick(fuzzErrors, z.byte()))
	case 'q':
		z.stepped(z.Queue(z.now, func() { z.woken = true }))
	case 'w':
		if z.stepped(z.Woken(z.now)); z.step.Do == session.Wait {
			z.woken = false
		}
	case 'l':
		z.left()
	case 'h':
		z.held.Release()
	case 'o':
		weight := int(z.byte() % 2)
		z.upset = true
		z.pool.Patch("A", pool.Patch{Weight: &weight})
	case 'g':
		z.gone()
	case 'a':
		z.asked(pick([]session.Cause{session.Killed, session.Shutdown, session.OnDown, session.Removed, session.Drained, session.Rebalanced}, z.byte()))
	case 'm':
		z.bytesMoved(session.Side(z.byte()%2), int64(z.byte()))
	case 'e':
		z.end(session.Client, nil)
	case 'E':
		z.end(session.Backend, nil)
	case 'f':
		z.end(session.Side(z.byte()%2), pick(fuzzErrors, z.byte()))
	case 'x':
		z.expired([2]int{int(z.byte() % 3), int(z.byte() % 3)})
	case 'c':
		if z.byte() == 0 {
			z.close()
		}
	default:
		z.after(pick(pauses, b))
	}
}

// stepped checks an answer of the search.
func (z *fuzz) stepped(s session.Step) {
	if z.picked.IsZero() && s.Do != 0 && s.Do != session.Header && z.cause == "" {
		z.picked = z.now
	}
	if z.step.Do == session.Wait && s.Do != session.Wait {
		z.picked = z.picked.Add(z.now.Sub(z.waits))
	}
	if s.Do == session.Wait && z.step.Do != session.Wait {
		z.waits, z.woken = z.now, false
	}
	z.step = s
	switch s.Do {
	case session.Queue, session.Wait:
		if waits := s.Do == session.Wait; z.cause != "" || z.relaying || s.Deadline.IsZero() == waits {
			z.t.Fatalf("cause %q, relaying %v: got %+v", z.cause, z.relaying, s)
		}
	case session.Header:
		if !z.awaits || z.cause != "" || !s.Deadline.Equal(began.Add(headerTime)) {
			z.t.Fatalf("waits for a header: %v, cause %q: got %+v", z.awaits, z.cause, s)
		}
	case session.Lookup, session.Dial:
		if z.awaits {
			z.t.Fatalf("a header is to come, and got %+v", s)
		}
		if z.cause != "" || z.relaying {
			z.t.Fatalf("cause %q, relaying %v: got %+v", z.cause, z.relaying, s)
		}
		if end := z.picked.Add(z.set.DialBudget); s.Address == "" || s.Deadline.IsZero() || s.Deadline.After(end) && !z.holds {
			z.t.Fatalf("step %+v, the budget ends at %v", s, end)
		}
	case session.End:
		if z.cause == "" {
			z.cause = "search"
		}
	case session.Relay:
	default:
		if !z.picked.IsZero() {
			z.t.Fatalf("a step that asks for nothing: %+v", s)
		}
	}
}

func (z *fuzz) dialed(err error) {
	dialing := z.step.Do == session.Dial && z.cause == ""
	z.stepped(z.Dialed(z.now, err))
	if dialing && err == nil {
		if z.step.Do != session.Relay {
			z.t.Fatalf("after a connect: %+v", z.step)
		}
		z.relaying = true
		z.progressed()
	}
}

func (z *fuzz) gone() {
	z.Gone(z.now)
	if !z.relaying && z.cause == "" {
		z.cause, z.step = session.ClientLeft, session.Step{Do: session.End}
	}
}

func (z *fuzz) left() {
	waits := z.step.Do == session.Wait && z.cause == "" && !z.closed
	if over := z.Left(z.now); over != waits {
		z.t.Fatalf("the client left: got %v, want %v", over, waits)
	}
	if waits {
		z.cause, z.step = session.ClientLeft, session.Step{Do: session.End}
	}
}

func (z *fuzz) asked(c session.Cause) {
	v := z.Asked(z.now, c)
	want := session.None
	dialing := z.step.Do == session.Lookup || z.step.Do == session.Dial
	switch {
	case z.cause != "":
	case z.relaying && c == session.OnDown:
		want = session.Reset
	case z.relaying:
		want = session.Linger
	case dialing && c != session.Killed && c != session.Shutdown && c != session.Rebalanced:
		z.diverted(v, c)
		return
	default:
		want = session.Cut
	}
	z.answered("asked", v, want, c)
}

// diverted goes on with another backend, or ends for the order's cause.
func (z *fuzz) diverted(v session.Verb, c session.Cause) {
	before := z.step
	if v != session.Redial {
		z.t.Fatalf("asked while dialing: got %s", verbs[v])
	}
	step := z.Diverted(z.now, c)
	if step == before {
		z.t.Fatalf("diverted to where it was: %+v", step)
	}
	if step.Do == session.End {
		z.cause = c
	}
	z.stepped(step)
}

func (z *fuzz) bytesMoved(from session.Side, n int64) {
	z.Moved(z.now, from, n)
	if z.relaying && !z.closed {
		z.moved[from] += n
		z.progressed()
	}
}

func (z *fuzz) end(side session.Side, err error) {
	v := z.Ended(z.now, side, err)
	want, cause := session.None, session.Cause("")
	closed := []session.Cause{session.ClientClosed, session.BackendClosed}
	switch {
	case !z.relaying || z.verb != session.None || z.closed:
	case err == nil && z.ended[side]:
	case err == faults["nofiles"]: // whoever had ended
		want, cause = session.Abort, session.LocalFault
	case err != nil && z.ended[side], err == nil && z.broken[side]:
		want, cause = []session.Verb{session.Abort, session.Linger}[side], closed[side]
	case err == syscall.EPIPE:
		z.broken[side] = true
		z.progressed()
	case err != nil:
		want, cause = session.Abort, []session.Cause{session.ClientReset, session.BackendReset}[side]
	case z.ended[side.Other()]:
		want, cause = session.Finish, closed[z.first]
	default:
		want = session.HalfClose
		z.ended[side], z.first = true, side
		z.progressed()
	}
	z.answered("ended", v, want, cause)
}

// answered compares a verb with the one that must come, and notes the cause.
func (z *fuzz) answered(event string, got, want session.Verb, c session.Cause) {
	if got != want {
		z.t.Fatalf("%s at %v: got %s, want %s (cause %q, verb %s)", event, z.now.Sub(began), verbs[got], verbs[want], z.cause, verbs[z.verb])
	}
	if got == session.None || got == session.HalfClose {
		return
	}
	z.verb = got
	if z.cause == "" {
		z.cause = c
	}
}

func (z *fuzz) expired(unsent [2]int) {
	due, cause := z.Deadline(), session.Cause("")
	if z.relaying && z.verb == session.None && !z.closed {
		cause = z.over(unsent)
	}
	v := z.Expired(z.now, unsent)
	switch {
	case v == session.None && cause == "":
		if next := z.Deadline(); !due.IsZero() && !due.After(z.now) && !next.IsZero() && !next.After(z.now) {
			z.t.Fatalf("at %v: nothing came of the deadline, and the next is %v", z.now, next)
		}
	case v == session.None && cause == session.MaxAge: // it may live longer
	case v == session.Linger && cause != "":
		z.verb, z.cause = v, cause
	case v == session.Cut && (z.verb == session.Linger || z.verb == session.Abort || z.verb == session.Reset):
		z.verb = v
	default:
		z.t.Fatalf("Expired at %v, silent since %v: got %s after %s, want one for %q", z.now.Sub(began), z.progress.Sub(began), verbs[v], verbs[z.verb], cause)
	}
}

func (z *fuzz) close() {
	r := z.Close(z.now, source, 1)
	if !z.closed {
		z.record, z.closed = r, true
		z.record.Attempts = slices.Clone(r.Attempts)
		if z.cause == "" {
			z.cause = session.LocalFault
		}
	}
	if r.Cause != z.record.Cause || r.Code != z.record.Code || !slices.Equal(r.Attempts, z.record.Attempts) {
		z.t.Fatalf("closed again: got %+v, then %+v", z.record, r)
	}
	z.step = session.Step{Do: session.End}
}

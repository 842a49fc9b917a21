//go:build linux

package l4_test

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// arena is where scripts are played: with a balancer between the two ends, or
// with nothing. Sessions run in it side by side.
type arena struct {
	addr  string
	conns <-chan *net.TCPConn
	rig   *rig // nil: direct
	gate  func()

	dialing  sync.Mutex // held until both ends of a session are there, so that they belong together
	sessions atomic.Int64
	records  sync.Map // chan session.Record by the client's netip.Addr
	strays   atomic.Int64
}

// sight is what one end came to.
type sight struct {
	sent, seen int64
	how        string // end, reset, left, stuck, or what was wrong
	early      bool   // the other end had not done that
	answered   int64  // bytes sent when it waited for the end; -1 if it did not
	broken     error  // of its first write that failed
}

func (s sight) String() string {
	text := fmt.Sprintf("sent %d, saw %d %s", s.sent, s.seen, s.how)
	if s.early {
		text += " too early"
	}
	if s.broken != nil {
		text += fmt.Sprintf(" (%v)", s.broken)
	}
	if s.answered >= 0 {
		text += fmt.Sprintf(", and waited for it after %d", s.answered)
	}
	return text
}

// run is what came of a script.
type run struct {
	ends    [2]sight
	records []session.Record // of a balanced run
	err     error            // the session did not come about
}

func (r run) String() string {
	text := fmt.Sprintf("client %v; backend %v", r.ends[session.Client], r.ends[session.Backend])
	for _, rec := range r.records {
		text += fmt.Sprintf("; record %s %s, %d to the backend, %d to the client, dials %+v", rec.Cause, rec.Code, rec.ToBackend, rec.ToClient, rec.Attempts)
	}
	if r.err != nil {
		text += "; " + r.err.Error()
	}
	return text
}

// direct returns the arena without a balancer.
func direct(t testing.TB) *arena {
	habit, conns := l4test.Hand(t)
	return &arena{addr: l4test.Serve(t, habit).Addr, conns: conns}
}

// balanced returns the arena behind an engine.
func balanced(t testing.TB, start starter, set session.Settings) *arena {
	a := &arena{}
	a.rig = start(t, setup{set: set, drop: true, record: a.note})
	a.addr, a.conns = a.rig.addr, a.rig.conns
	return a
}

// note hands a record to the session it is about.
func (a *arena) note(rec session.Record) {
	ch, ok := a.records.Load(rec.Client.Addr())
	if !ok {
		a.strays.Add(1)
		return
	}
	ch.(chan session.Record) <- rec
}

// play runs one session of the script and returns once it is over, record
// included. It may be called by many at once.
func (a *arena) play(s script) (out run) {
	tag := a.sessions.Add(1)
	from := clientOf(tag)
	records := make(chan session.Record, 10)
	a.records.Store(from, records)
	st := newStage(s, tag)
	st.gate = a.gate
	st.order = func() { go a.rig.front.Shutdown(canceled()) }
	defer st.watch()()

	var both sync.WaitGroup
	out.err = a.join(st, from, &both)
	close(st.connected)
	both.Wait()
	for side, p := range st.players {
		out.ends[side] = p.sight()
	}
	if a.rig == nil {
		return out
	}
	select {
	case rec := <-records:
		out.records = append(out.records, rec)
	case <-time.After(l4test.Patience):
	}
	return out
}

// clientOf returns the address of a session's client: each has its own, by
// which its record is found.
func clientOf(tag int64) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + tag>>16), byte(tag >> 8), byte(tag)})
}

// join connects both ends. The client acts as soon as it is connected, whether
// or not its backend is.
func (a *arena) join(st *stage, from netip.Addr, both *sync.WaitGroup) error {
	a.dialing.Lock()
	defer a.dialing.Unlock()
	before := a.total()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
	client, err := d.Dial("tcp", a.addr)
	if err != nil {
		return err
	}
	both.Go(func() { st.players[session.Client].play(client.(*net.TCPConn)) })
	select {
	case backend := <-a.conns:
		both.Go(func() { st.players[session.Backend].play(backend) })
	case <-time.After(l4test.Patience):
		st.update(func() { st.expired = true })
		return fmt.Errorf("the session reached no backend in %v", l4test.Patience)
	}
	for began := time.Now(); a.rig != nil && a.total() == before; {
		if <-time.After(time.Millisecond); time.Since(began) > l4test.Patience {
			return fmt.Errorf("the session did not count as connected in %v", l4test.Patience)
		}
	}
	return nil
}

// total returns how many sessions reached the backend.
func (a *arena) total() int64 {
	if a.rig == nil {
		return 0
	}
	return a.rig.pool.Status().Backends[0].Total
}

// sight returns what the end came to, once it is over. A reset is told once: if
// a write was told, reading meets what looks like an end.
func (p *player) sight() sight {
	s := sight{sent: p.sent, seen: p.seen, how: p.how, early: p.early, answered: p.answered, broken: p.broken}
	if s.how == "end" && p.broken != nil && ending(p.broken) == "reset" {
		s.how = "reset"
	}
	return s
}

// leftovers checks, when all sessions are over, that each left one record.
func (a *arena) leftovers(t testing.TB) {
	if n := a.strays.Load(); n != 0 {
		t.Errorf("%d records are of no session", n)
	}
	a.records.Range(func(client, ch any) bool {
		if n := len(ch.(chan session.Record)); n != 0 {
			t.Errorf("the session of %v left %d records too many", client, n)
		}
		return true
	})
}

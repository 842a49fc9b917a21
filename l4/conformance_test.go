package l4_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// scene is one row of the table: who does what after how many bytes each way.
type scene struct {
	who  session.Side
	how  string
	data [2]int64 // by the side that sends
}

// outcome is what a scene must come to. A stretch of "-" is not looked at.
type outcome struct {
	client, backend string // what each end saw
	cause           session.Cause
	code            string
	bytes           [2]int64 // by the side they come from; less than 0 is any
}

const (
	idleInTable = 600 * time.Millisecond
	halfInTable = 500 * time.Millisecond
)

var amounts = []struct {
	name string
	data [2]int64
}{
	{"none", [2]int64{0, 0}},
	{"some", [2]int64{1_000, 2_500}},
	{"large", [2]int64{3<<20 + 1, 5<<20 + 3}},
}

// play acts a scene out. Both ends read all the time unless it says otherwise.
var plays = map[string]struct {
	limits func(*session.Settings)
	play   func(r *rig, e [2]*end, s scene)
	want   func(s scene) outcome
	order  bool // who does not matter
	once   bool // with no data before it only
}{
	"FIN": {
		play: func(r *rig, e [2]*end, s scene) {
			go func() {
				e[s.who].send(0, s.data[s.who])
				e[s.who].CloseWrite()
			}()
			other := e[s.who.Other()]
			other.send(0, s.data[other.side])
			other.saw()
			other.CloseWrite()
		},
		want: func(s scene) outcome {
			return both(s, "end", closed[s.who], "--")
		},
	},
	"RST": {
		play: func(r *rig, e [2]*end, s scene) {
			exchange(r, e, s)
			l4test.Abort(e[s.who].TCPConn)
		},
		want: func(s scene) outcome {
			o := both(s, "reset", reset[s.who], [2]string{"CD", "SD"}[s.who])
			if s.who == session.Client {
				o.client = "-"
			} else {
				o.backend = "-"
			}
			return o
		},
	},
	"idle timeout": { // who spoke last
		limits: func(set *session.Settings) { set.IdleTimeout = idleInTable },
		play:   func(r *rig, e [2]*end, s scene) { exchange(r, e, s) },
		want: func(s scene) outcome {
			return both(s, "end", session.Idle, lastByte(s))
		},
	},
	"half-close timeout": { // who ended
		limits: func(set *session.Settings) { set.HalfCloseTimeout = halfInTable },
		play: func(r *rig, e [2]*end, s scene) {
			exchange(r, e, s)
			e[s.who].CloseWrite()
		},
		want: func(s scene) outcome {
			return both(s, "end", session.HalfCloseTimeout, lastByte(s))
		},
	},
	"stalled reader": { // who stops reading
		once:   true,
		limits: func(set *session.Settings) { set.IdleTimeout = idleInTable },
		play: func(r *rig, e [2]*end, s scene) {
			e[s.who.Other()].send(0, 1<<40)
			r.records <- r.record() // it is over before the reader wakes
			e[s.who].read()
		},
		want: func(s scene) outcome {
			o := outcome{"0 end", "any reset", session.Idle, "sD", [2]int64{-1, 0}}
			if s.who == session.Client {
				o = outcome{"any reset", "0 end", session.Idle, "cD", [2]int64{0, -1}}
			}
			return o
		},
	},
	"order": {
		order: true,
		play: func(r *rig, e [2]*end, s scene) {
			exchange(r, e, s)
			if cut := r.front.Shutdown(canceled()); cut != 1 {
				r.t.Errorf("cut %d sessions, want 1", cut)
			}
		},
		want: func(s scene) outcome { return both(s, "end", session.Shutdown, "KD") },
	},
}

var (
	closed = [2]session.Cause{session.ClientClosed, session.BackendClosed}
	reset  = [2]session.Cause{session.ClientReset, session.BackendReset}
)

// both is the outcome where each end saw all that the other sent, and then how.
func both(s scene, how string, cause session.Cause, code string) outcome {
	return outcome{
		client:  fmt.Sprintf("%d %s", s.data[session.Backend], how),
		backend: fmt.Sprintf("%d %s", s.data[session.Client], how),
		cause:   cause, code: code, bytes: s.data,
	}
}

// lastByte is the code of a timeout after who spoke last.
func lastByte(s scene) string {
	if s.who == session.Client && s.data[session.Client] > 0 {
		return "sD"
	}
	return "cD"
}

// exchange sends the data of both ends, the last byte by who, and waits for all
// of it.
func exchange(r *rig, e [2]*end, s scene) {
	who, other := e[s.who], e[s.who.Other()]
	if s.data[who.side] == 0 {
		return
	}
	go who.send(0, s.data[who.side]-1)
	other.send(0, s.data[other.side])
	who.wait(s.data[other.side])
	other.wait(s.data[who.side] - 1)
	if r.pool != nil { // an engine may report late what it moved
		eventually(r.t, "all bytes so far are counted", func() bool {
			b := r.pool.Status().Backends[0]
			return b.BytesToBack+b.BytesToClient == s.data[session.Client]+s.data[session.Backend]-1
		})
	}
	who.send(s.data[who.side]-1, 1)
	other.wait(s.data[who.side])
}

func TestConformance(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		for how, p := range plays {
			for _, who := range []session.Side{session.Client, session.Backend} {
				for _, amount := range amounts {
					if p.order && who == session.Backend || p.once && amount.name != "none" {
						continue
					}
					s := scene{who, how, amount.data}
					name := fmt.Sprintf("%s/%s/%s", [2]string{"client", "backend"}[who], how, amount.name)
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						set := defaults()
						if p.limits != nil {
							p.limits(&set)
						}
						r := start(t, setup{set: set})
						e := r.ends()
						if how != "stalled reader" {
							e[who].read()
						}
						e[who.Other()].read()
						p.play(r, e, s)
						check(t, r, e, p.want(s))
					})
				}
			}
		}
	})
}

// check compares what came of a scene with what had to, and prints the row.
func check(t *testing.T, r *rig, e [2]*end, want outcome) {
	t.Helper()
	saw := func(e *end, want string) string {
		if want == "-" {
			return want
		}
		s := e.saw()
		if want == "any "+s.how {
			return want
		}
		return s.String()
	}
	got := want
	got.client, got.backend = saw(e[session.Client], want.client), saw(e[session.Backend], want.backend)
	e[session.Client].Close()
	e[session.Backend].Close()
	rec := r.record()
	got.cause, got.code = rec.Cause, rec.Code
	for side, n := range [2]int64{rec.ToBackend, rec.ToClient} {
		if want.bytes[side] >= 0 {
			got.bytes[side] = n
		}
	}
	if got != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	row := strings.TrimPrefix(t.Name(), "TestConformance/")
	t.Logf("conformance: %-40s client saw %-13s backend saw %-13s %s %s", row, got.client, got.backend, got.cause, got.code)
}

// A direct connection must come to what the table says of the plain endings.
// It holds the table to what sockets do.
func TestDirectConnectionAgreesWithTheTable(t *testing.T) {
	t.Parallel()
	habit, conns := l4test.Hand(t)
	b := l4test.Serve(t, habit)
	r := &rig{t: t, addr: b.Addr, conns: conns}
	for _, amount := range amounts {
		for _, how := range []string{"FIN", "RST"} {
			e := r.ends()
			e[session.Client].read()
			e[session.Backend].read()
			s := scene{session.Client, how, amount.data}
			plays[how].play(r, e, s)
			want := plays[how].want(s)
			if got := e[session.Backend].saw().String(); got != want.backend {
				t.Errorf("%s %s: the backend saw %s, want %s", how, amount.name, got, want.backend)
			}
			io.Closer(e[session.Backend]).Close()
		}
	}
}

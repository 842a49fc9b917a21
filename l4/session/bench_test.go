package session_test

import (
	"testing"
	"time"

	"sluice/l4/session"
)

// life is a session as most are: the first dial succeeds, a request and a reply,
// both sides end.
func (w *world) life(s *session.Session, o *session.Origin) session.Record {
	*s = session.Session{}
	s.Start(began, o, 123456, client)
	step := s.Next(began)
	if step.Do == session.Lookup {
		step = s.Resolved(began, benchAddresses, nil)
	}
	if step.Do == session.Dial {
		s.Dialed(began, nil)
	}
	s.Deadline()
	s.Moved(began, session.Client, 70)
	s.Moved(began, session.Backend, 900)
	s.Ended(began, session.Client, nil)
	s.Ended(began, session.Backend, nil)
	return s.Close(began, source, 1)
}

var benchAddresses = []string{"10.1.0.1:80", "10.1.0.2:80"}

var benchWorlds = []struct{ name, backends string }{
	{"literal", "A B C"},
	{"name", "A@a.test B@b.test C@c.test"},
}

func BenchmarkSessionLife(b *testing.B) {
	for _, c := range benchWorlds {
		b.Run(c.name, func(b *testing.B) {
			w := newWorld(b, c.backends, pool0)
			o := w.origin()
			b.ReportAllocs()
			for b.Loop() {
				w.life(w.Session, o)
			}
		})
	}
}

// A life must not cost more, beside the session itself, than the text of its id,
// and its attempt with the slice that holds it.
func TestSessionLifeAllocatesLittle(t *testing.T) {
	for _, c := range benchWorlds {
		w := newWorld(t, c.backends, pool0)
		o := w.origin()
		if r := w.life(w.Session, o); r.Cause != session.ClientClosed {
			t.Fatalf("%s: got %s", c.name, r.Cause)
		}
		if n := testing.AllocsPerRun(100, func() { w.life(w.Session, o) }); n > 3 {
			t.Errorf("%s: a session allocates %v times, want 3 times at most", c.name, n)
		}
	}
}

// BenchmarkTally is what counting a session's end costs beside its life.
func BenchmarkTally(b *testing.B) {
	var tally session.Tally
	for b.Loop() {
		tally.Add(session.BackendClosed, 40*time.Millisecond)
	}
}

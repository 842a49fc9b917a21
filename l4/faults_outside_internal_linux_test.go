package l4

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// outside in the environment has the test below plant a panic outside of any
// session, in a process of its own.
const outside = "SLUICE_TEST_PANIC_OUTSIDE"

// A loop less would be a silent outage of some of the clients: the process ends,
// also where the session that was at hand before could be blamed.
func TestPanicOutsideOfASessionEndsTheProcess(t *testing.T) {
	if where := os.Getenv(outside); where != "" {
		panicOutside(t, where)
		return
	}
	t.Parallel()
	for _, where := range []string{"order", "refusal"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), outside+"="+where)
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("panic: planted outside")) || !bytes.Contains(out, []byte("(*loop).run")) {
			t.Errorf("%s: the process ended with %v and said\n%s", where, err, out)
		}
	}
}

// panicOutside has a session at hand, and something that is none of its business
// panic after it.
func panicOutside(t *testing.T, where string) {
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 128, set: patient()})
	tr.config.Rejected = func(string, netip.AddrPort) { panic("planted outside") }
	tr.config.MaxSessions = 1
	tr.front.Use(tr.config)
	go tr.listener.Serve()
	tr.crowd(1)
	l := tr.driver.loops[0]
	free := occupy(l)
	switch where {
	case "order":
		l.post(func() {
			l.visit(0, func(l *loop, d *duplex) { l.obey(d, d.brain.Asked(l.now, session.Killed), session.Client) })
		})
		l.post(func() { panic("planted outside") })
	case "refusal": // of the second, in the turn that lets the first one in
		tr.config.MaxSessions = 2
		tr.front.Use(tr.config)
		l.post(func() { l.doors[0].burst = acceptsPerTurn })
		for range 2 {
			if c, err := net.Dial("tcp", tr.listener.Addr()); err == nil {
				defer c.Close()
			}
		}
	}
	free()
	<-time.After(l4test.Patience)
}

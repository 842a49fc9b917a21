package l4

import (
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
	"sluice/pool"

	"golang.org/x/sys/unix"
)

// A listener is level-triggered: a loop that cannot accept and waits for it
// would be woken at once, again and again.
func TestPausedListenerDoesNotSpin(t *testing.T) {
	t.Parallel()
	const failures = 5
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 512, set: patient()})
	k.arm(func(call string, nth int, _ *rand.Rand) fate {
		if call == "accept4" && nth <= failures {
			return fate{errno: syscall.EMFILE}
		}
		return fate{}
	})
	go tr.listener.Serve()
	began := time.Now()
	p := &play{id: 1, roles: [2]role{{size: 10, piece: 10, how: "end"}, {size: 10, piece: 10, how: "end"}}}
	tr.run(p)
	if took := time.Since(began); took < 155*time.Millisecond { // 5, 10, 20, 40, 80
		t.Errorf("the pauses took %v in all, want 155 ms", took)
	}
	// Some for the session itself; each pause is one wait.
	if n := k.calledSoFar("epoll_pwait"); n > 40 {
		t.Errorf("%d waits for %d failures and one session", n, failures)
	}
	if n := k.calledSoFar("epoll_del"); n != failures {
		t.Errorf("the listener was removed %d times, want %d", n, failures)
	}
	if n := tr.front.Status().AcceptErrors; n != failures {
		t.Errorf("%d accept errors are counted, want %d", n, failures)
	}
	tr.until("it is over", func() bool { return tr.front.Status().Active == 0 })
	tr.close()
	if !p.whole() {
		t.Errorf("the client behind the errors: %v", p)
	}
}

// Clients that wait in the queue of a listener when it closes would be reset.
func TestListenerThatClosesLetsInWhoIsQueued(t *testing.T) {
	t.Parallel()
	for _, loops := range []int{1, 3} {
		k := newFaulty(t, 0, nil)
		tr := startTrial(t, k, shape{loops: loops, buffer: 512, set: patient()})
		go tr.listener.Serve()
		tr.crowd(1)() // the loops accept
		var free []func()
		for _, l := range tr.driver.loops {
			free = append(free, occupy(l))
		}
		var clients []net.Conn
		for range 30 {
			c, err := net.Dial("tcp", tr.listener.Addr())
			if err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
		}
		closed := make(chan struct{})
		go func() { tr.listener.Close(); close(closed) }()
		for _, f := range free {
			f()
		}
		<-closed
		tr.until("all are let in", func() bool { return len(tr.sessions()) == len(clients) })
		for _, c := range clients {
			c.Close()
		}
		tr.until("they are gone", func() bool { return tr.front.Status().Active == 0 })
		tr.close()
	}
}

// The queue of a unix socket is full for a while, and no event tells when it is
// not.
func TestFullUnixBackendIsTriedAgain(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/full"
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	unix.Listen(fd, 0)
	first, err := net.Dial("unix", path) // the queue has room for one
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 512, set: patient()})
	tr.pool.Apply(pool.Config{Strategy: tr.strategy, Backends: []pool.Spec{{ID: "full", Address: "unix:" + path, Weight: 1}}})
	go tr.listener.Serve()
	c, err := net.Dial("tcp", tr.listener.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tr.until("it is tried again", func() bool { return k.calledSoFar("connect") > 3 })
	for range 2 { // the first, and the session's
		s, _, err := unix.Accept(fd)
		if err != nil {
			t.Fatal(err)
		}
		unix.Write(s, []byte("!"))
		defer unix.Close(s)
	}
	c.SetDeadline(time.Now().Add(l4test.Patience))
	if n, err := io.ReadFull(c, make([]byte, 1)); n != 1 {
		t.Errorf("the client got nothing: %v", err)
	}
	if b := tr.pool.Status().Backends[0]; b.DialFailures != 0 {
		t.Errorf("%d dials failed, want none", b.DialFailures)
	}
	c.Close()
	tr.front.Shutdown(canceledNow())
	tr.close()
}

// A dial to a free port of the ephemeral range can end in itself.
func TestBackendThatIsOurselvesIsRefused(t *testing.T) {
	t.Parallel()
	k := newFaulty(t, 0, nil)
	k.self = true
	tr := startTrial(t, k, shape{loops: 1, buffer: 512, set: patient()})
	go tr.listener.Serve()
	p := &play{id: 1, roles: [2]role{{size: 10, piece: 10, how: "end"}, {}}}
	tr.run(p)
	tr.until("it is over", func() bool { return tr.front.Status().Active == 0 })
	tr.close()
	for _, r := range tr.recordOf {
		if r.Cause != session.ConnectFailed || len(r.Attempts) != 2 || r.Attempts[0].Error != "refused" || r.Attempts[1].Error != "refused" {
			t.Errorf("record %+v, want two refused dials", r)
		}
	}
}

// The socket of a dial that failed is closed before the next dial.
func TestRefusedDialLeavesNoSocket(t *testing.T) {
	t.Parallel()
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 512, set: patient()})
	spec := tr.poolConfig()
	spec.Backends[0] = pool.Spec{ID: "refuses", Address: l4test.Refuse(t), Weight: 1}
	tr.pool.Apply(spec)
	go tr.listener.Serve()
	leave := tr.crowd(6)
	if n := k.stillOpen("socket"); n != 6 {
		t.Errorf("6 sessions have %d sockets towards backends", n)
	}
	if n := k.calledSoFar("connect"); n < 7 {
		t.Errorf("%d dials: none was refused", n)
	}
	leave()
	tr.until("they are gone", func() bool { return tr.front.Status().Active == 0 })
	tr.close()
}

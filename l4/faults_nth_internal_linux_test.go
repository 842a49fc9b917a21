package l4

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"sluice/l4/session"
)

// nths are the calls that a session makes, and what may come of them. spared:
// the session notes nothing.
var nths = []struct {
	call   string
	fates  []fate
	spared bool
}{
	{"accept4", errnos(syscall.EINTR, syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM), true},
	{"connect", errnos(syscall.EINTR, syscall.ECONNREFUSED, syscall.ETIMEDOUT), true},
	{"connect", errnos(syscall.ENOMEM, syscall.EPERM), false},
	{"socket", errnos(syscall.EINTR), true},
	{"socket", errnos(syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM), false},
	{"epoll_add", errnos(syscall.EINTR), true},
	{"epoll_add", errnos(syscall.ENOSPC, syscall.ENOMEM), false},
	{"epoll_pwait", append(errnos(syscall.EINTR), fate{short: true}), true},
	{"write", errnos(syscall.EINTR), true},
	{"recv", append(errnos(syscall.EINTR, syscall.EAGAIN), fate{short: true}), true},
	{"recv", errnos(syscall.ENOBUFS, syscall.ENOMEM), false},
	{"send", append(errnos(syscall.EINTR, syscall.EAGAIN), fate{short: true}), true},
	{"send", errnos(syscall.ENOBUFS, syscall.ENOMEM), false},
	{"fill", append(errnos(syscall.EINTR, syscall.EAGAIN, syscall.EINVAL, syscall.ENOMEM), fate{short: true}), true},
	{"empty", append(errnos(syscall.EINTR, syscall.EAGAIN), fate{short: true}), true},
	{"empty", errnos(syscall.ENOMEM), false},
	{"pipe2", errnos(syscall.EINTR, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM), true},
	{"pipe_size", errnos(syscall.EINTR, syscall.EPERM, syscall.EBUSY, syscall.ENOMEM), true},
	{"shutdown", errnos(syscall.EINTR), true},
	{"setsockopt", errnos(syscall.EINTR, syscall.ENOBUFS), true},
	{"getsockopt", errnos(syscall.EINTR), true},
	{"unsent", errnos(syscall.EINTR, syscall.ENOBUFS), true},
	{"info", errnos(syscall.EINTR, syscall.ENOBUFS), true},
}

func errnos(es ...syscall.Errno) (fs []fate) {
	for _, e := range es {
		fs = append(fs, fate{errno: e})
	}
	return fs
}

// Each kind of call fails once in the life of an engine, in each way, early or
// late: the session is whole or sees a reset, and the next one is whole.
func TestOneCallThatFails(t *testing.T) {
	t.Parallel()
	for _, c := range nths {
		for _, f := range c.fates {
			for nth := 1; nth <= 3; nth++ {
				t.Run(fmt.Sprintf("%s/%d,%v/%d", c.call, f.errno, f.short, nth), func(t *testing.T) {
					t.Parallel()
					failOnce(t, c.call, f, nth, c.spared)
				})
			}
		}
	}
}

func failOnce(t *testing.T, call string, f fate, nth int, spared bool) {
	k := newFaulty(t, 1, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 4 << 10, set: patient()})
	k.arm(func(at string, n int, _ *rand.Rand) fate {
		if at == call && n == nth {
			return f
		}
		return fate{}
	})
	go tr.listener.Serve()
	var plays []*play
	for id := range uint32(2) {
		p := &play{id: id, roles: [2]role{{size: 50_000, piece: 20_000, how: "end"}, {size: 30_000, piece: 30_000, how: "end"}}}
		plays = append(plays, p)
		tr.run(p)
		tr.until("the session is over", func() bool { return tr.front.Status().Active == 0 })
	}
	tr.close()
	for _, b := range tr.pool.Status().Backends {
		if b.DialFailures > 0 && !spared {
			t.Errorf("a failure of ours counts against backend %s", b.ID)
		}
	}
	broken := 0
	for _, p := range plays {
		r, ok := tr.recordOf[p.addr]
		if err := p.check(r, ok); err != nil {
			t.Errorf("%v: %v, record %+v", p, err, r)
		}
		if !p.whole() {
			broken++
			if ok && r.Cause != session.LocalFault {
				t.Errorf("%v: the record says %s", p, r.Cause)
			}
		}
	}
	if broken > 1 || broken > 0 && (spared || k.failed[call] == 0) {
		t.Errorf("%d of the sessions are not whole: %v", broken, plays)
	}
}

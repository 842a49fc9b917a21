package epoll_test

import (
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/l4/epoll"
)

// An address comes back from the kernel as it went there.
func TestAddressesComeBack(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	index := strconv.Itoa(lo.Index)
	calls, broken := interrupted()
	var given epoll.Address
	calls.LocalAddr = func(_ int, a *epoll.Address) syscall.Errno {
		*a = given
		return 0
	}
	r := newRigOf(t, calls)
	fd, b := r.unixPair()
	r.later(fd)
	r.later(b)
	for s, want := range map[string]string{
		"10.1.2.3:80":                "10.1.2.3:80",
		"255.255.255.255:65535":      "255.255.255.255:65535",
		"[2001:db8::1:2]:443":        "[2001:db8::1:2]:443",
		"[::ffff:10.1.2.3]:1":        "10.1.2.3:1",
		"[fe80::1%lo]:80":            "[fe80::1%lo]:80",
		"[fe80::1%" + index + "]:80": "[fe80::1%lo]:80",
		"[fe80::1%987654]:80":        "[fe80::1%987654]:80", // an interface that is gone
	} {
		given = r.parse(s)
		if got := r.LocalAddr(fd); got.String() != want || !given.TCP() {
			t.Errorf("%s: got %v, want %s", s, got, want)
		}
		family := unix.AF_INET
		if strings.HasPrefix(want, "[") {
			family = unix.AF_INET6
		}
		dials, errno := r.Socket(&given)
		r.ok("socket", errno)
		r.wantInt(dials, unix.SOL_SOCKET, unix.SO_DOMAIN, family)
		r.Close(dials)
	}
	if broken["Zone"] == 0 {
		t.Error("no signal broke off the look-up of a zone")
	}
	given = r.parse("unix:/run/x.sock")
	if got := r.LocalAddr(fd); got.IsValid() || given.TCP() {
		t.Errorf("of a unix socket: %v", got)
	}
	given = epoll.Address{}
	if got := r.LocalAddr(fd); got.IsValid() || given.TCP() {
		t.Errorf("of nothing: %v", got)
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	for s, want := range map[string]string{
		"":                                  "not an ip:port",
		"db.example:5432":                   "db.example",
		"10.0.0.1":                          "not an ip:port",
		"10.0.0.1:0":                        "port 0",
		"10.0.0.1:65536":                    "65536",
		"2001:db8::1":                       "2001:db8::1",
		"[fe80::1%no-such-interface]:80":    `zone "no-such-interface"`,
		"unix:":                             "not absolute",
		"unix:x.sock":                       "not absolute",
		"unix:@abstract":                    "not absolute",
		"unix:/a\x00b":                      "NUL",
		"unix:/" + strings.Repeat("x", 107): "108 bytes",
	} {
		a, err := epoll.ParseAddress(s)
		if err == nil || !strings.Contains(err.Error(), want) || a != (epoll.Address{}) {
			t.Errorf("%q: %v, want something about %s", s, err, want)
		}
	}
}

func TestParseAddressAllocatesNothing(t *testing.T) {
	for _, s := range []string{"10.0.0.1:80", "[2001:db8::1]:80", "unix:/run/x.sock"} {
		var a epoll.Address
		if n := testing.AllocsPerRun(100, func() { a, _ = epoll.ParseAddress(s) }); n != 0 {
			t.Errorf("%s: %v allocations for %v", s, n, a.TCP())
		}
	}
}

// A listener's options are those of what it accepts.
func TestOptionsAreInherited(t *testing.T) {
	const tcp = unix.IPPROTO_TCP
	for _, c := range []struct {
		name                        string
		set                         epoll.Options
		on, idle, every, count, sum int
	}{
		{"rounded up", epoll.Options{KeepAliveIdle: 1500e6, KeepAliveInterval: 1, KeepAliveCount: 3, UserTimeout: 1e6 + 1}, 1, 2, 1, 3, 2},
		{"off", epoll.Options{KeepAliveInterval: 5e9, UserTimeout: -1}, 0, 7200, 75, 9, 0},
		{"as it is", epoll.Options{KeepAliveIdle: 60e9}, 1, 60, 75, 9, 0},
		{"too much", epoll.Options{KeepAliveIdle: 1 << 62, KeepAliveInterval: 1 << 62, KeepAliveCount: 1 << 20, UserTimeout: 1<<63 - 1}, 1, 32767, 32767, 127, 1<<31 - 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			ln, at := r.listen("127.0.0.1:0", 1)
			r.SetOptions(ln, c.set)
			r.SetNoDelay(ln)
			r.later(r.connect(at))
			fd, _ := r.accept(ln)
			r.later(fd)
			r.wantInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, c.on)
			r.wantInt(fd, tcp, unix.TCP_USER_TIMEOUT, c.sum)
			r.wantInt(fd, tcp, unix.TCP_NODELAY, 1)
			if c.name == "rounded up" || c.name == "too much" { // else they are the system's
				r.wantInt(fd, tcp, unix.TCP_KEEPIDLE, c.idle)
				r.wantInt(fd, tcp, unix.TCP_KEEPINTVL, c.every)
				r.wantInt(fd, tcp, unix.TCP_KEEPCNT, c.count)
			}
		})
	}
}

// Options that are set again take back what was set before.
func TestOptionsAreTakenBack(t *testing.T) {
	r := newRig(t)
	a, b := r.pair()
	r.later(a)
	r.later(b)
	r.SetOptions(a, epoll.Options{KeepAliveIdle: 60e9, UserTimeout: 30e9})
	r.SetOptions(a, epoll.Options{})
	r.wantInt(a, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0)
	r.wantInt(a, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 0)
}

package balancer

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall lacks.
const tcpUserTimeout = 0x12

// options reads back what the socket of this process has that connects at with
// peer: keepalive, its three numbers, user timeout in ms.
func options(t *testing.T, at, peer net.Addr) (got [5]int) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range fds {
		fd, _ := strconv.Atoi(filepath.Base(name))
		if ends(fd) != [2]string{at.String(), peer.String()} {
			continue
		}
		for i, o := range [][2]int{
			{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT},
			{syscall.IPPROTO_TCP, tcpUserTimeout},
		} {
			if got[i], err = syscall.GetsockoptInt(fd, o[0], o[1]); err != nil {
				t.Error(err)
			}
		}
		return got
	}
	t.Fatalf("no socket connects %s with %s", at, peer)
	return got
}

// ends are the addresses of a socket; empty of what is none, or not IPv4.
func ends(fd int) (both [2]string) {
	for i, name := range []func(int) (syscall.Sockaddr, error){syscall.Getsockname, syscall.Getpeername} {
		if at, err := name(fd); err == nil {
			if at, ok := at.(*syscall.SockaddrInet4); ok {
				both[i] = netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String()
			}
		}
	}
	return both
}

// B101, B102: what the file says of keepalive and user_timeout is what both
// sockets of a session have, and live for the sessions that come.
func TestSocketKeysAreLive(t *testing.T) {
	for _, engine := range []string{"copy", "epoll"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			habit, conns := l4test.Hand(t)
			backend := l4test.Serve(t, habit)
			text := func(keys string) string { return frontendText("f", "p") + keys + poolText("p", "none", backend.Addr) }
			b, f, stop := startedAs(t, fmt.Sprintf("engine = %q\n", engine), text(""))
			defer stop()
			for i, c := range []struct {
				keys string
				want [5]int
			}{
				{"", [5]int{1, 60, 10, 6, 0}},
				{"keepalive = { idle = \"7s\", interval = \"3s\", count = 2 }\nuser_timeout = \"5s\"\n", [5]int{1, 7, 3, 2, 5000}},
				{"keepalive = { idle = \"0s\" }\n", [5]int{0}},
			} {
				if i > 0 {
					f.set(text(c.keys))
					if _, err := b.Reload(t.Context(), "test"); err != nil {
						t.Fatal(err)
					}
				}
				client, err := net.Dial("tcp", b.Frontends()[0].Listen)
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				served := <-conns
				served.Write([]byte("!")) // its arrival proves that the session relays
				client.Read(make([]byte, 1))
				awaitOptions(t, c.want, client.RemoteAddr(), client.LocalAddr())
				awaitOptions(t, c.want, served.RemoteAddr(), served.LocalAddr())
			}
		})
	}
}

// awaitOptions waits for the options of a socket: an engine may leave them to
// sessions that last. What is off has no numbers.
func awaitOptions(t *testing.T, want [5]int, at, peer net.Addr) {
	t.Helper()
	for late := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
		got := options(t, at, peer)
		if got[0] == 0 {
			got = [5]int{4: got[4]}
		}
		if got == want {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("got options %v of the socket at %s, want %v", got, at, want)
		}
	}
}

// process.loops is how many pollers there are.
func TestLoopsKey(t *testing.T) {
	count := func() (n int) {
		fds, _ := filepath.Glob("/proc/self/fd/*")
		for _, name := range fds {
			if at, _ := os.Readlink(name); at == "anon_inode:[eventpoll]" {
				n++
			}
		}
		return n
	}
	l4test.Serve(t, l4test.Echo) // the runtime has a poller of its own from now on
	for _, loops := range []int{1, 5} {
		before := count()
		_, _, stop := startedAs(t, fmt.Sprintf("engine = \"epoll\"\nloops = %d\n", loops), frontendText("f", "p")+poolText("p", "none"))
		if got := count() - before; got != loops {
			t.Errorf("got %d pollers, want %d", got, loops)
		}
		stop()
	}
}

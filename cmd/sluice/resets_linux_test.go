package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// established counts the connections that were accepted on a port of 127.0.0.1,
// as the kernel tells.
func established(t *testing.T, address string) (n int) {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Skip("SKIPPED: no /proc/net/tcp")
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		// Field 3 is the state; 01 is ESTABLISHED.
		if fields[1] == fmt.Sprintf("0100007F:%04X", at.Port) && fields[3] == "01" {
			n++
		}
	}
	return n
}

// descriptors counts those of the program.
func (d *daemon) descriptors() int {
	d.t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
	if err != nil {
		d.t.Skip("SKIPPED: no /proc")
	}
	return len(files)
}

// stopped reports whether no thread of the program runs.
func (d *daemon) stopped() bool {
	d.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", d.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		d.t.Skip("SKIPPED: no /proc")
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		// The state follows the name, which is in parentheses.
		if _, state, _ := strings.Cut(string(text), ") "); err != nil || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

// resetsWhileStopped stops the program for a moment, in which clients connect and
// reset.
func (d *daemon) resetsWhileStopped(address string) {
	d.t.Helper()
	d.signal(syscall.SIGSTOP)
	defer d.signal(syscall.SIGCONT)
	eventually(d.t, "every thread has stopped", d.stopped)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 50 {
				c, err := net.DialTimeout("tcp", address, time.Second) // the queue may be full
				if err == nil {
					l4test.Abort(c.(*net.TCPConn))
				}
			}
		})
	}
	clients.Wait()
}

// B032, B034, B036: thousands of clients that reset before they are accepted end
// no listener, count against no backend and cost no dial; and then the status,
// the metrics and the kernel agree on how many sessions there are.
func TestResetsBeforeTheAccept(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		a := l4test.Serve(t, l4test.Tag("A"))
		d := startDaemon(t, terse+process+frontendText("web", free, "p")+unprobed("p", "", "A="+a.Addr))
		web := d.frontend("web").Listen
		before := d.descriptors()
		for range 10 {
			d.resetsWhileStopped(web)
		}
		const kept = 7
		for range kept {
			open(t, web)
		}
		eventually(t, "the others are gone", func() bool { return d.frontend("web").Active == kept })
		if s := d.backend("p", "A"); s.DialFailures != 0 || s.Active != kept || a.Total() != kept {
			t.Errorf("%d sessions reached the backend, want %d: %+v", a.Total(), kept, s)
		}
		if gauge := d.scrape().of("sluice_frontend_sessions_active"); gauge != kept {
			t.Errorf("the gauge says %v, want %d", gauge, kept)
		}
		eventually(t, "the kernel has as many connections", func() bool { return established(t, web) == kept })
		// Pipes that are kept for later are not many.
		if now := d.descriptors(); now > before+100 {
			t.Errorf("the program has %d descriptors, and %d before", now, before)
		}
	})
}

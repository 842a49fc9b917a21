//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// refusedWith connects a client that must be reset, and returns the cause in the
// line of its session.
func (d *daemon) refusedWith(address string) (line map[string]any) {
	d.t.Helper()
	before := len(d.lines("session"))
	if c, err := net.DialTimeout("tcp", address, patience); err == nil {
		c.SetDeadline(time.Now().Add(patience))
		got, err := io.ReadAll(c)
		c.Close()
		if err == nil {
			d.t.Errorf("the client got %q and an end, want a reset", got)
		}
	}
	eventually(d.t, "the session is logged", func() bool { return len(d.lines("session")) > before })
	return d.lines("session")[before]
}

// B041: queue_max and queue_timeout are live, for those who come; the status and
// the log say what became of those who waited.
func TestQueueKeysAreLive(t *testing.T) {
	t.Parallel()
	a := l4test.Serve(t, l4test.Tag("A"))
	text := func(keys string) string {
		return head + frontendText("web", free, "p") + poolText("p", keys, "A="+a.Addr+"\nmax_sessions = 1")
	}
	d := startDaemon(t, text(""))
	address := d.frontend("web").Listen
	first, _ := open(t, address)
	if line := d.refusedWith(address); line["cause"] != "backend_limit" || line["code"] != "SQ" || line["queue_ms"] != 0.0 {
		t.Errorf("without a queue: %v", line)
	}
	if got := strings.Join(d.mustReload(text("queue_max = 1\nqueue_timeout = \"50ms\"")), "; "); !strings.Contains(got, "queue_max 0 -> 1") {
		t.Errorf("the reload says %s", got)
	}
	line := d.refusedWith(address)
	if ms, _ := line["queue_ms"].(float64); line["cause"] != "queue_timeout" || line["code"] != "sQ" || ms < 50 || ms > 4000 || ms > line["total_ms"].(float64) { // by default it is 5 s
		t.Errorf("after queue_timeout: %v", line)
	}
	d.mustReload(text("queue_max = 1\nqueue_timeout = \"1h\""))
	waiting := make(chan string, 1)
	go func() {
		name, err := visit(address)
		waiting <- fmt.Sprint(name, err)
	}()
	eventually(t, "one waits", func() bool { return d.view().Pools[0].Queued == 1 })
	if line := d.refusedWith(address); line["cause"] != "backend_limit" {
		t.Errorf("with a full queue: %v", line)
	}
	d.mustReload(text("")) // who waits stays
	if st := d.view().Pools[0]; st.QueueMax != 0 || st.Queued != 1 || st.QueuedTotal != 2 || st.QueueTimeouts != 1 {
		t.Errorf("status %+v", st)
	}
	first.Close()
	if got := <-waiting; got != "A<nil>" {
		t.Errorf("who waited got %s", got)
	}
}

package admin

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConns bounds the client connections of one scope, upgraded ones included.
// Chosen, not measured: far more than operators and probes need, and few
// descriptors beside those of the data plane.
const maxConns = 4096

// mostConns returns the bound under a descriptor limit. An eighth of it for each
// scope, and as much for what /proxy dials, leaves half to the sessions.
func mostConns(descriptors int, known bool) int {
	if !known {
		return maxConns
	}
	return min(maxConns, max(1, descriptors/8))
}

// door bounds the connections of one scope. When it is full, a newcomer takes
// the place of the one that has waited longest without a whole request, so that
// peers that send nothing cannot shut others out.
type door struct {
	max int

	mu    sync.Mutex             // guards conns
	conns map[net.Conn]time.Time // since when it waits for a request; zero: it has one
}

// changed is the server's ConnState hook. A connection counts as active once a
// whole header was read.
func (d *door) changed(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		if out := d.enter(c); out != nil {
			out.Close()
		}
	case http.StateIdle:
		d.note(c, time.Now())
	case http.StateActive, http.StateHijacked:
		d.note(c, time.Time{})
	case http.StateClosed:
		d.leave(c)
	}
}

// enter lets c in, and returns whom to close for it: c itself if all are busy.
func (d *door) enter(c net.Conn) (out net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.conns) >= d.max {
		if out = d.longestLocked(); out == nil {
			return c
		}
		delete(d.conns, out)
	}
	d.conns[c] = time.Now()
	return out
}

func (d *door) longestLocked() (longest net.Conn) {
	var since time.Time
	for c, t := range d.conns {
		if !t.IsZero() && (longest == nil || t.Before(since)) {
			longest, since = c, t
		}
	}
	return longest
}

// note sets since when c waits, unless it was shown out.
func (d *door) note(c net.Conn, since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, in := d.conns[c]; in {
		d.conns[c] = since
	}
}

// leave forgets c. An upgraded connection leaves when its request is over.
func (d *door) leave(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}

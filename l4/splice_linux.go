package l4

import (
	"syscall"

	"sluice/l4/session"
)

// fill splices from a socket into a pipe.
func (l *loop) fill(f *flow, src *sock) {
	if f.pipe == nil {
		if f.pipe = l.pipes.Take(); f.pipe == nil {
			f.by, f.count = byCopy, 0
			return
		}
	}
	n, errno := l.kernel.Splice(int(src.fd), f.pipe.W, f.pipe.Size)
	switch {
	case errno == syscall.EINVAL:
		f.by = copyOnly
	case errno == syscall.EAGAIN && !src.sticky:
		src.readable = false
	case errno == syscall.EAGAIN, errno == syscall.ENOMEM, errno == 0 && n == 0:
		// A splice does not pass an urgent mark, and says at it that there is nothing,
		// or takes it for the end. Memory may be short for it alone. A receive knows
		// better.
		f.by, f.count = byCopy, 0
	case errno != 0:
		// Behind an urgent mark there may be bytes before the failure.
		f.by, f.err = copyOnly, uint16(errno)
	default:
		f.pipe.Held, f.piped = n, true
		f.calm(n < loopBuffer)
	}
}

// calm goes back to receiving when splices are small.
func (f *flow) calm(small bool) {
	if !small {
		f.count = 0
		return
	}
	if f.count++; f.count >= spliceUntil {
		f.by, f.count = byCopy, 0
	}
}

// empty splices from the pipe of a flow to its destination.
func (l *loop) empty(d *duplex, from session.Side) int {
	f, to := &d.flows[from], from.Other()
	n, errno := l.kernel.Splice(f.pipe.R, int(d.socks[to].fd), f.pipe.Held)
	switch {
	case errno == syscall.EAGAIN:
		d.socks[to].writable = false
		return 0
	case errno != 0:
		l.broken(d, to, errno)
		return 0
	}
	f.pipe.Held -= n
	d.brain.Moved(l.now, from, int64(n))
	return n
}

package l4

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"sluice/l4/epoll"
	"sluice/l4/session"
)

// search does what the session's brain says until it has to wait for something.
func (l *loop) search(d *duplex, step session.Step) {
	for {
		switch step.Do {
		case session.Header:
			if step = l.header(d, step); step.Do == session.Header {
				return
			}
		case session.Lookup:
			list, err, known := l.known(d, step)
			if !known {
				l.lookup(d, step)
				return
			}
			step = d.brain.Resolved(l.now, list, err)
		case session.Queue:
			step = d.brain.Queue(l.now, l.waker(d))
		case session.Wait:
			l.queue(d, step)
			return
		case session.Dial:
			err := l.dial(d, step)
			if err == errWaits {
				return
			}
			step = l.dialed(d, step, err)
		case session.Relay:
			l.relay(d, step.Greet)
			return
		case session.End:
			l.close(d, session.Cut)
			return
		}
	}
}

// errWaits says that an event or the timer will tell how a dial ends.
var errWaits = fmt.Errorf("the dial waits")

// dial begins to connect to one literal address. nil: it is connected.
func (l *loop) dial(d *duplex, step session.Step) error {
	addr, err := epoll.ParseAddress(step.Address)
	if err != nil {
		return fmt.Errorf("dial %s: %w", step.Address, err)
	}
	fd, errno := l.kernel.Socket(&addr)
	if errno != 0 {
		return dialError(step, "socket", errno)
	}
	if addr.TCP() {
		l.kernel.SetNoDelay(fd)
	}
	d.phase = dialing
	switch errno = l.kernel.Connect(fd, &addr); errno {
	case 0, syscall.EINPROGRESS:
		l.adopt(d, session.Backend, fd, addr.TCP())
		if bad := l.poller.Add(fd, d.token(session.Backend)); bad != 0 {
			return dialError(step, "epoll_ctl", bad)
		}
		if errno == 0 {
			return nil
		}
		l.wait(d, step.Deadline)
		return errWaits
	case syscall.EAGAIN: // the queue of a unix socket is full, and no event tells when it is not
		l.kernel.Close(fd)
		if again := l.now.Add(retryFull); again.Before(step.Deadline) {
			l.wait(d, again)
			return errWaits
		}
	default:
		l.kernel.Close(fd)
	}
	return dialError(step, "connect", errno)
}

// dialError words an error as the other engine does.
func dialError(step session.Step, call string, errno syscall.Errno) error {
	return fmt.Errorf("dial %s: %w", step.Address, os.NewSyscallError(call, errno))
}

// wait sets the timer of a search.
func (l *loop) wait(d *duplex, until time.Time) {
	d.until = max(l.clock(until), 1)
	l.rearm(d)
}

// dialed tells the brain how a dial ended.
func (l *loop) dialed(d *duplex, step session.Step, err error) session.Step {
	d.until = 0
	if err != nil {
		l.hangUp(d)
	}
	learned(d.entry.config.Names, step, err)
	return d.brain.Dialed(l.now, err)
}

// hangUp gives up the connection to the backend that was dialed.
func (l *loop) hangUp(d *duplex) {
	l.closeSocket(&d.socks[session.Backend], session.Cut)
	d.socks[session.Backend] = sock{}
}

// decided is an event of a socket that is being connected.
func (l *loop) decided(d *duplex) {
	step := d.brain.Next(l.now)
	if d.phase != dialing || step.Do != session.Dial {
		return
	}
	s := &d.socks[session.Backend]
	var err error
	if s.hung {
		if errno := l.kernel.SocketError(int(s.fd)); errno != 0 {
			err = dialError(step, "connect", errno)
		}
	}
	if err == nil && s.tcp && l.engine.ephemeral(step.Address) && l.kernel.SelfConnected(int(s.fd)) {
		err = dialError(step, "connect", syscall.ECONNREFUSED)
	}
	l.search(d, l.dialed(d, step, err))
}

// late is the timer of a session that looks for a backend.
func (l *loop) late(d *duplex) {
	step := d.brain.Next(l.now)
	switch {
	case step.Do == session.Header:
		l.search(d, d.began(d.brain.NoHeader(l.now, os.ErrDeadlineExceeded)))
	case step.Do == session.Wait:
		l.search(d, d.brain.Woken(l.now))
	case step.Do == session.Lookup:
		l.forget(d, step.Address)
		l.search(d, d.brain.Resolved(l.now, nil, lateAnswer(step)))
	case !d.socks[session.Backend].open && l.now.Before(step.Deadline): // see dial
		l.search(d, step)
	case !d.socks[session.Backend].open:
		l.search(d, l.dialed(d, step, dialError(step, "connect", syscall.EAGAIN)))
	default:
		err := fmt.Errorf("dial %s: %w", step.Address, os.ErrDeadlineExceeded)
		l.search(d, l.dialed(d, step, err))
	}
}

// divert gives up the backend that is looked up or dialed, and goes on with
// another.
func (l *loop) divert(d *duplex, cause session.Cause) {
	if step := d.brain.Next(l.now); step.Do == session.Lookup {
		l.forget(d, step.Address)
	}
	d.until = 0
	l.hangUp(d)
	l.search(d, d.brain.Diverted(l.now, cause))
}

func lateAnswer(step session.Step) error {
	return &net.DNSError{UnwrapErr: context.DeadlineExceeded, Err: "no answer yet", Name: step.Address, IsTimeout: true}
}

// known returns the addresses of a name, if they are.
func (l *loop) known(d *duplex, step session.Step) (list []string, err error, known bool) {
	host, port, err := net.SplitHostPort(step.Address)
	if err != nil {
		return nil, err, true
	}
	addrs, err, known := d.entry.config.Names.Known(host)
	return joined(addrs, port), err, known
}

// lookupPatience bounds the wait for the first answer of a resolver: longer than
// any look-up takes. Each session has its own deadline.
const lookupPatience = 10 * time.Second

// lookup asks for a name off the loop, once for all sessions that wait for it.
func (l *loop) lookup(d *duplex, step session.Step) {
	d.phase = resolving
	l.wait(d, step.Deadline)
	waiting := l.waiting[step.Address]
	l.waiting[step.Address] = append(waiting, d.token(session.Client))
	if len(waiting) > 0 {
		return
	}
	names := d.entry.config.Names
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), lookupPatience)
		defer cancel()
		list, err := lookup(ctx, names, step.Address)
		l.post(func() { l.resolved(step.Address, list, err) })
	}()
}

// resolved goes on with the sessions that waited for a name.
func (l *loop) resolved(name string, list []string, err error) {
	waiting := l.waiting[name]
	delete(l.waiting, name)
	for _, t := range waiting {
		if d, _ := l.slots.find(t); d != nil && d.phase == resolving {
			d.until = 0
			l.guard(d, func() { l.search(d, d.brain.Resolved(l.now, list, err)) })
		}
	}
}

// forget takes d off the list of those that wait for a name.
func (l *loop) forget(d *duplex, name string) {
	if waiting, ok := l.waiting[name]; ok {
		mine := d.token(session.Client)
		l.waiting[name] = slices.DeleteFunc(waiting, func(t epoll.Token) bool { return t == mine })
	}
}

// ephemeral reports whether the port of address is one that the kernel gives to
// dials. Only a dial to such a port can end in itself.
func (e *looping) ephemeral(address string) bool {
	port := address[strings.LastIndexByte(address, ':')+1:]
	return len(port) > len(e.firstPort) || len(port) == len(e.firstPort) && port >= e.firstPort
}

// firstEphemeral returns the first port that the kernel gives to dials
// (ip(7), ip_local_port_range), or 0 if it does not tell.
func firstEphemeral() string {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 0 {
		return fields[0]
	}
	return "0"
}

package balancer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"

	"sluice/admin"
	"sluice/l4"
)

// owners of the sockets of the admin side, where a frontend's name may stand; no
// frontend can have such a name.
var owners = [...]string{admin.Everything: " admin", admin.Probes: " admin probes", admin.Traffic: " admin proxy"}

// socketMode is of the unix sockets for probes and for /proxy, which are no
// secret: as a frontend's.
const socketMode = 0o660

// place is what a socket is known by across reloads: the address as configured
// and, where that is not enough, whose it is.
type place struct {
	listen string
	owner  string
}

// placeOf returns the place of a frontend's socket. With port 0 every socket is
// another one, so there the frontend's name belongs to it.
func placeOf(listen, frontend string) place {
	if _, port, err := net.SplitHostPort(listen); err == nil && port == "0" {
		return place{listen, frontend}
	}
	return place{listen: listen}
}

// want is a socket that a configuration asks for.
type want struct {
	place
	mode     uint32 // of a unix socket
	frontend string // that gets the clients; empty for the admin side
}

// wantAdmin is one for the admin side.
func wantAdmin(scope admin.Scope, listen string, mode uint32) want {
	return want{place: place{listen: listen, owner: owners[scope]}, mode: mode}
}

// scope returns what the socket is for; false if it is a frontend's.
func (w want) scope() (admin.Scope, bool) {
	i := slices.Index(owners[:], w.owner)
	return admin.Scope(i), i >= 0
}

// socket is one bound address: of a frontend or of the admin side.
type socket struct {
	want
	clients *l4.Listener // nil for the admin side
	admin   net.Listener // nil for a frontend
	adopted bool         // the process was started with it
}

// first reports whether the socket stops accepting before the sessions are
// drained, and not at the very end.
func (s *socket) first() bool { return s.clients != nil || s.owner == owners[admin.Traffic] }

// listen binds what w asks for, unless the process was started with it. Nobody
// is served yet. ctx bounds the look-up of a name.
func (b *Balancer) listen(ctx context.Context, w want) (*socket, error) {
	s := &socket{want: w}
	ln := b.inherited.take(w.listen)
	s.adopted = ln != nil
	var err error
	switch _, forAdmin := w.scope(); {
	case forAdmin && s.adopted:
		s.admin = ln
	case forAdmin:
		s.admin, err = l4.Bind(ctx, net.ListenConfig{}, w.listen, fs.FileMode(w.mode))
	case s.adopted:
		s.clients, err = b.engine.Adopt(ln)
	default:
		s.clients, err = b.engine.Listen(ctx, w.listen, w.mode)
	}
	if err != nil {
		return nil, w.refusal(err)
	}
	return s, nil
}

// refusal is an error of listening as an operator gets it: whose address it is,
// and what helps.
func (w want) refusal(err error) error {
	help := tcpHelp
	if strings.HasPrefix(w.listen, "unix:") {
		help = unixHelp
	}
	for of, text := range help {
		if errors.Is(err, of) {
			return fmt.Errorf("%s: listen on %s: %w; %s", w.who(), w.listen, reason(err), text)
		}
	}
	return fmt.Errorf("%s: listen on %s: %w", w.who(), w.listen, reason(err))
}

// What helps where an address cannot be bound.
var (
	tcpHelp = map[syscall.Errno]string{
		syscall.EADDRINUSE:    "ss -ltnp shows who has it",
		syscall.EACCES:        "ports below 1024 are for root, or need CAP_NET_BIND_SERVICE",
		syscall.EADDRNOTAVAIL: "no interface of this machine has that address",
	}
	unixHelp = map[syscall.Errno]string{
		syscall.EADDRINUSE: "a process listens there, or the file is no socket: choose another path",
		syscall.ENOENT:     "its directory is missing",
		syscall.EACCES:     "this user may not write its directory",
	}
)

// reason strips the address off an error of package net: the text around it
// names the address as it stands in the file.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func (w want) who() string {
	if scope, ok := w.scope(); ok {
		return [...]string{"admin", "admin probes", "/proxy"}[scope]
	}
	return "frontend " + w.frontend
}

// addr returns the address as bound.
func (s *socket) addr() string {
	switch {
	case s.clients != nil:
		return s.clients.Addr()
	case s.admin.Addr().Network() == "unix":
		return "unix:" + s.admin.Addr().String()
	}
	return s.admin.Addr().String()
}

// close stops accepting. Connections that were accepted go on.
func (s *socket) close() {
	if s.admin != nil {
		s.admin.Close()
		return
	}
	s.clients.Close()
}

// chmod gives a unix socket that stays open the mode that w now asks for.
func (s *socket) chmod(w want) error {
	path, unix := strings.CutPrefix(s.listen, "unix:")
	if !unix || w.mode == s.mode {
		return nil
	}
	return os.Chmod(path, os.FileMode(w.mode))
}

// overlap reports whether a socket on a can keep one on b from being bound.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil {
		return a == b // unix sockets
	}
	return portA == portB && portA != "0" && (hostA == hostB || wide(hostA) || wide(hostB))
}

// wide reports whether host may stand for more addresses than itself: all of
// them, or those of a name.
func wide(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err != nil || ip.IsUnspecified()
}

func inUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

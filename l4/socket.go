package l4

import (
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"sluice/l4/session"
)

// stream is what a relay needs of a socket: *net.TCPConn and *net.UnixConn.
type stream interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// longAgo is a deadline that wakes every reader and writer at once.
var longAgo = time.Unix(1, 0)

// reset closes s so that the peer sees RST and not the end of the stream.
// Bytes still queued are lost. A unix socket knows no RST and is just closed.
func reset(s stream) {
	if tcp, ok := s.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	s.Close()
}

// network splits a backend's or frontend's address as configured into what
// package net calls network and address.
func network(address string) (network, rest string) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return "unix", path
	}
	return "tcp", address
}

// tune sets the options of a session on an accepted client. A client that is
// gone already fails here; its first read tells.
func tune(s stream, set *session.Settings) {
	tcp, ok := s.(*net.TCPConn)
	if !ok {
		return
	}
	tcp.SetKeepAliveConfig(keepAlive(set))
	if set.UserTimeout > 0 {
		setUserTimeout(tcp, set.UserTimeout)
	}
}

func keepAlive(set *session.Settings) net.KeepAliveConfig {
	return net.KeepAliveConfig{
		Enable:   set.KeepAlive.Idle > 0,
		Idle:     set.KeepAlive.Idle,
		Interval: set.KeepAlive.Interval,
		Count:    set.KeepAlive.Count,
	}
}

// clientAddr returns the peer's address, unmapped; zero for a unix socket.
func clientAddr(s stream) netip.AddrPort { return addrPort(s.RemoteAddr()) }

// addrPort returns an address of TCP, unmapped; zero for a unix socket's.
func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

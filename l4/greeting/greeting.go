// Package greeting writes the PROXY header that a backend gets before the first
// byte of a connection, to learn who the client is.
//
// It decides what a header says of addresses that the protocol has no room for.
// It touches no socket: who connects sends the bytes. The other direction, a
// header that a client sends, is package header.
package greeting

import (
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

// Client returns the header of version 1 or 2 for a client at source that
// connected to destination. If one of them is no address of TCP, which is the
// zero AddrPort, or they are not of one family, it is the same as Own: a header
// of a client without addresses (PROXY of the family UNSPEC) may be rejected by
// who gets it (proxy-protocol.txt, section 2.2).
func Client(version int, source, destination netip.AddrPort) []byte {
	from, to := source.Addr().Unmap(), destination.Addr().Unmap()
	h := &proxyproto.Header{Version: byte(version), Command: proxyproto.PROXY}
	switch {
	case from.Is4() && to.Is4():
		h.TransportProtocol = proxyproto.TCPv4
	case from.Is6() && to.Is6():
		h.TransportProtocol = proxyproto.TCPv6
	default:
		return Own(version)
	}
	h.SourceAddr, h.DestinationAddr = tcp(from, source.Port()), tcp(to, destination.Port())
	return format(h)
}

// Own returns the header of a connection that Sluice makes for itself: LOCAL of
// version 2, UNKNOWN of version 1. The backend is to take the addresses of the
// connection.
func Own(version int) []byte {
	return format(&proxyproto.Header{
		Version: byte(version), Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC,
	})
}

// tcp drops the zone, for which a header has no room.
func tcp(a netip.Addr, port uint16) *net.TCPAddr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.WithZone(""), port))
}

// format fails only for headers that are not made here.
func format(h *proxyproto.Header) []byte {
	p, err := h.Format()
	if err != nil {
		panic("greeting: " + err.Error())
	}
	return p
}

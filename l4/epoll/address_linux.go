package epoll

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Address is a literal address as the kernel takes it and gives it: a plain
// value that points to nothing. The zero value is no address.
type Address struct {
	raw  [unix.SizeofSockaddrAny]byte
	size uint32 // of what is filled of raw, socklen_t
}

// Where the fields of a sockaddr are (ip(7), ipv6(7), unix(7)). The family comes
// first in all; a port is big-endian, all else is as the machine has it.
const (
	portAt   = 2
	ip4At    = 4
	ip6At    = 8
	scopeAt  = 24
	pathAt   = 2
	maxPath  = unix.SizeofSockaddrUnix - pathAt - 1 // without the NUL that ends it
	sizeOfV4 = unix.SizeofSockaddrInet4
	sizeOfV6 = unix.SizeofSockaddrInet6
)

// ParseAddress reads "ip:port", of IPv6 with or without a zone, or
// "unix:/path". It takes no name, no port 0, no relative or abstract path, and
// none that does not fit. A zone that is no number is looked up; nothing else
// allocates.
func ParseAddress(s string) (Address, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return unixAddress(path)
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return Address{}, fmt.Errorf("address %q: %w", s, err)
	}
	if ap.Port() == 0 {
		return Address{}, fmt.Errorf("address %q: port 0 is nobody's", s)
	}
	a, err := ipAddress(ap)
	if err != nil {
		return Address{}, fmt.Errorf("address %q: %w", s, err)
	}
	return a, nil
}

func unixAddress(path string) (a Address, err error) {
	switch {
	case !strings.HasPrefix(path, "/"):
		err = errors.New("the path is not absolute")
	case strings.IndexByte(path, 0) >= 0:
		err = errors.New("the path has a NUL byte")
	case len(path) > maxPath:
		err = fmt.Errorf("the path has %d bytes; a socket's has %d at most", len(path), maxPath)
	}
	if err != nil {
		return Address{}, fmt.Errorf("address %q: %w", "unix:"+path, err)
	}
	a.setFamily(unix.AF_UNIX)
	n := copy(a.raw[pathAt:], path)
	a.size = uint32(pathAt + n + 1)
	return a, nil
}

func ipAddress(ap netip.AddrPort) (a Address, err error) {
	ip := ap.Addr().Unmap()
	binary.BigEndian.PutUint16(a.raw[portAt:], ap.Port())
	if ip.Is4() {
		b := ip.As4()
		copy(a.raw[ip4At:], b[:])
		a.setFamily(unix.AF_INET)
		a.size = sizeOfV4
		return a, nil
	}
	b := ip.As16()
	copy(a.raw[ip6At:], b[:])
	a.setFamily(unix.AF_INET6)
	a.size = sizeOfV6
	if ip.Zone() == "" {
		return a, nil
	}
	index, err := zoneIndex(ip.Zone())
	binary.NativeEndian.PutUint32(a.raw[scopeAt:], index)
	return a, err
}

// zoneIndex returns the index of a network interface given as a number or name.
func zoneIndex(zone string) (uint32, error) {
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("zone %q: %w", zone, err)
	}
	return uint32(i.Index), nil
}

// TCP reports whether a is of IPv4 or IPv6.
func (a *Address) TCP() bool { return a.family() == unix.AF_INET || a.family() == unix.AF_INET6 }

func (a *Address) family() uint16          { return binary.NativeEndian.Uint16(a.raw[:]) }
func (a *Address) setFamily(family uint16) { binary.NativeEndian.PutUint16(a.raw[:], family) }

// empty readies a for the kernel to fill.
func (a *Address) empty() {
	a.setFamily(unix.AF_UNSPEC)
	a.size = uint32(len(a.raw))
}

// addrPort returns an address of TCP with IPv4 in IPv6 unmapped, and the index
// of its zone, 0 for none. It is invalid for any other address.
func (a *Address) addrPort() (ap netip.AddrPort, zone uint32) {
	port := binary.BigEndian.Uint16(a.raw[portAt:])
	switch a.family() {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a.raw[ip4At:])), port), 0
	case unix.AF_INET6:
		ip := netip.AddrFrom16([16]byte(a.raw[ip6At:])).Unmap()
		return netip.AddrPortFrom(ip, port), binary.NativeEndian.Uint32(a.raw[scopeAt:])
	}
	return netip.AddrPort{}, 0
}

//go:build unix

package l4

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
)

// bindOnly gives a socket its address, and leaves it there.
func bindOnly(fd uintptr, network, address string) error {
	to, err := sockaddr(network, address)
	if err != nil {
		return err
	}
	return os.NewSyscallError("bind", syscall.Bind(int(fd), to))
}

// sockaddr is an address as package net shows it to a Control func: an IP, with a
// zone perhaps, or no host.
func sockaddr(network, address string) (syscall.Sockaddr, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		return nil, err
	}
	ip := netip.IPv6Unspecified()
	if host != "" {
		if ip, err = netip.ParseAddr(host); err != nil {
			return nil, err
		}
	}
	if network == "tcp4" {
		if host == "" {
			ip = netip.IPv4Unspecified()
		}
		return &syscall.SockaddrInet4{Port: port, Addr: ip.Unmap().As4()}, nil
	}
	return &syscall.SockaddrInet6{Port: port, Addr: ip.As16(), ZoneId: zone(ip.Zone())}, nil
}

// zone returns the index of an interface; 0 is none.
func zone(name string) uint32 {
	if i, err := net.InterfaceByName(name); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(name, 10, 32)
	return uint32(n)
}

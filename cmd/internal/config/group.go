package config

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"sluice/pool"
)

// maxGroupID leaves room in 128 characters for the longest address, an IPv6 one in
// brackets with a port (47), and for the slash before it.
const maxGroupID = 80

// group reads resolve: nil if the name is one backend. at is nil if the address is
// wrong, which was noted.
func (t table) group(s pool.Spec, at *endpoint, place int) *Group {
	how := t.word("resolve", "one", []string{"one", "all", "srv"})
	if how == "one" {
		return nil
	}
	g := &Group{Spec: s, SRV: how == "srv", At: place}
	if len(s.ID) > maxGroupID {
		t.wrong("id", "%s is too long for resolve = %q, which appends an address; write one of at most %d characters",
			quote(s.ID), how, maxGroupID)
	}
	if at == nil {
		return g
	}
	if at.Unix != "" || isLiteral(at.Host) {
		t.wrong("resolve", "%q needs a name, and %s is none; remove it", how, quote(s.Address))
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		host = s.Address // SRV
	}
	n, _ := strconv.ParseUint(port, 10, 16) // it was checked
	g.Host, g.Port = host, uint16(n)
	return g
}

func isLiteral(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// parseService is for the name of SRV records, which say the port.
func parseService(text string) (endpoint, error) {
	if strings.HasPrefix(text, "unix:") {
		return parseBackend(text)
	}
	if _, _, err := net.SplitHostPort(text); err == nil {
		return endpoint{}, errors.New(`has a port, which SRV records say; write the name alone, such as "_redis._tcp.example.com"`)
	}
	e, err := parseBackend(net.JoinHostPort(text, "1"))
	e.Port = 0
	return e, err
}

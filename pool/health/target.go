package health

import (
	"crypto/tls"
	"net"
	"strings"

	"sluice/pool"
)

// Target is what a probe is to know of the backend it checks.
type Target struct {
	Address   string // "host:port" or "unix:/path"
	SendProxy int    // version of the PROXY header that sessions to it begin with; 0 is none
}

// targetOf returns what b is at this moment.
func targetOf(b *pool.Backend) Target {
	return Target{Address: b.Address(), SendProxy: b.SendProxy()}
}

// Host returns the host of the address, without a zone, which means something on
// this machine alone; empty for a unix socket.
func (t Target) Host() string {
	if strings.HasPrefix(t.Address, "unix:") {
		return ""
	}
	host, _, err := net.SplitHostPort(t.Address)
	if err != nil {
		return ""
	}
	host, _, _ = strings.Cut(host, "%")
	return host
}

// TLS returns how to encrypt a connection to t: c with the name that the server
// must have, which is its host unless c says another. It is nil, for no
// encryption, if c is or t is a unix socket: servers encrypt none there.
func (t Target) TLS(c *tls.Config) *tls.Config {
	host := t.Host()
	if c == nil || host == "" {
		return nil
	}
	c = c.Clone()
	if c.ServerName == "" {
		c.ServerName = host
	}
	return c
}

package admin

import (
	"net/netip"
	"time"
)

// Settings are what the file says of the admin side. They must not be changed
// once New or Use has them.
type Settings struct {
	Hosts  []string // names under which a browser may reach it
	Tokens []Token  // none: whoever reaches a listener on loopback may do everything, and others nothing
	Proxy  ProxySettings
}

// Token is one secret and what it allows.
type Token struct {
	Secret  string
	Operate bool // false: read only
}

// ProxySettings are those of the HTTP /proxy path. The zero value is off.
type ProxySettings struct {
	Enabled         bool
	Pool            string         // of /proxy; empty: the only one
	Listens         bool           // it has a listener of its own
	TrustedFrom     []netip.Prefix // peers whose X-Forwarded-* headers are believed
	ResponseTimeout time.Duration
}

// rules are settings in the form that a request needs. Immutable.
type rules struct {
	guard guard
	proxy ProxySettings
}

func newRules(set Settings) *rules {
	return &rules{newGuard(set), set.Proxy}
}

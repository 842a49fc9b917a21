package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"sluice/admin/internal/answer"
)

// errWrongToken is the answer to a token that is none.
var errWrongToken = answer.Refuse(http.StatusUnauthorized,
	"the token is not valid: it is none of those in the token_file of [admin]")

// guard decides who may do what. Its rules, beside tokens, are about browsers:
// any page may make a browser send requests here, and a name that an attacker
// controls may lead to this address. Immutable.
type guard struct {
	hosts   map[string]bool
	secrets []secret
}

// secret is a token's hash. Comparing hashes lets neither the content nor the
// length leak through the time it takes.
type secret struct {
	sum     [sha256.Size]byte
	operate bool
}

// role is what a request's token allows.
type role int

const (
	nobody role = iota // no token, or an unknown one
	reader
	operator
)

// String is the role as the token file has it.
func (r role) String() string { return [...]string{"none", "read", "operate"}[r] }

func newGuard(set Settings) guard {
	g := guard{hosts: map[string]bool{}}
	for _, h := range set.Hosts {
		g.hosts[hostname(h)] = true
	}
	for _, t := range set.Tokens {
		g.secrets = append(g.secrets, secret{sha256.Sum256([]byte(t.Secret)), t.Operate})
	}
	return g
}

// admit returns the role of a request, or why it may not go on.
//
//   - The probes are for anybody.
//   - A change must come from no foreign page and name this host, and needs an
//     operator if there are tokens.
//   - Reading, and /proxy whatever the method, needs a reader if the request came
//     in through a listener that others can reach. Without a token it must name
//     this host: the token shows that no rebound name led a browser here, and so
//     does a unix socket.
//   - A foreign page may not send through /proxy what it may not send to the
//     API, nor open a WebSocket through it.
//   - A listener for /proxy alone is a frontend: nobody is refused. A token is
//     looked for all the same, because no backend may get one.
func (g *guard) admit(r *http.Request, k kind) (role, error) {
	from := originOf(r)
	switch {
	case k == probing:
		return nobody, nil
	case from.scope == Traffic:
		return g.role(r), nil
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if (!reads || wantsUpgrade(r)) && g.foreign(r) {
		return nobody, answer.Refuse(http.StatusForbidden, "the request comes from a page of another site; send it from a page of this host, or from no browser")
	}
	who := g.role(r)
	change := k == steering && !reads
	if (who == nobody || change) && !from.unix() && !g.here(r.Host) {
		return who, answer.Refuse(http.StatusForbidden,
			"host %q is neither an address, localhost nor in the hosts of [admin]; use one of these", r.Host)
	}
	return who, g.allow(r, who, change)
}

func (g *guard) allow(r *http.Request, who role, change bool) error {
	switch {
	case who == nobody && (originOf(r).public() || change && len(g.secrets) > 0):
		if bearer(r) != "" {
			return errWrongToken
		}
		return answer.Refuse(http.StatusUnauthorized, "a token is needed: Authorization: Bearer TOKEN")
	case who == reader && change:
		return answer.Refuse(http.StatusForbidden, "the token may read only; a change needs an operate token")
	}
	return nil
}

// wantsUpgrade reports whether a request asks for another protocol.
func wantsUpgrade(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// bearer returns the request's token; empty if it has none, or several.
func bearer(r *http.Request) string {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.Trim(token, " ")
}

// role looks the request's token up.
func (g *guard) role(r *http.Request) role {
	if token := bearer(r); token != "" {
		return g.owner(token)
	}
	return nobody
}

// carries reports whether a request has a token in its Authorization in whatever
// form, also in one that allows nothing.
func (g *guard) carries(r *http.Request) bool {
	for _, value := range r.Header["Authorization"] {
		for word := range strings.FieldsSeq(value) {
			if g.owner(word) != nobody {
				return true
			}
		}
	}
	return false
}

// owner returns what a token allows. It compares with all of them, whatever it
// finds.
func (g *guard) owner(token string) role {
	sum := sha256.Sum256([]byte(token))
	who := nobody
	for _, s := range g.secrets {
		if subtle.ConstantTimeCompare(sum[:], s.sum[:]) == 1 {
			who = max(who, s.role())
		}
	}
	return who
}

func (s secret) role() role {
	if s.operate {
		return operator
	}
	return reader
}

// foreign reports whether a browser says that a page of another site sent r.
func (g *guard) foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return true // "null" among others
	}
	return !strings.EqualFold(u.Host, r.Host) && !g.hosts[hostname(u.Host)]
}

// here reports whether host is a name of this listener that nobody else can
// point at it. HTTP/1.0 needs none, but no browser leaves it out.
func (g *guard) here(host string) bool {
	name := hostname(host)
	if name == "" || name == "localhost" || g.hosts[name] {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// hostname takes the port and the brackets off a host.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

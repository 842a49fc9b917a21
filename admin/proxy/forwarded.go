package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
)

// setForwarded says to the backend where a request came from. What the client
// says of that is dropped, unless it is a proxy that is trusted: then it is kept,
// and the client's own address is added to what has a list.
func (x *exchange) setForwarded(r *httputil.ProxyRequest) {
	out, peer := r.Out.Header, peerOf(r.In)
	dropForwarded(out)
	if !x.way.trusts(peer) {
		r.SetXForwarded()
		if peer.IsValid() {
			out.Set("X-Real-Ip", peer.String())
		}
		return
	}
	if list := r.In.Header["X-Forwarded-For"]; len(list) > 0 {
		out["X-Forwarded-For"] = list
	}
	r.SetXForwarded() // appends to the list, and replaces the rest
	for key, values := range r.In.Header {
		if forwarding(key) && key != "X-Forwarded-For" {
			out[key] = values
		}
	}
	if list := r.In.Header["Forwarded"]; len(list) > 0 {
		out.Set("Forwarded", strings.Join(list, ", ")+", "+element(r.In, peer))
	}
	if out.Get("X-Real-Ip") == "" {
		out.Set("X-Real-Ip", x.way.client(out.Get("X-Forwarded-For"), peer).String())
	}
}

// peerOf returns the address that a request came from; the zero value if it came
// by a unix socket.
func peerOf(r *http.Request) netip.Addr {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr)
	return ap.Addr().Unmap().WithZone("")
}

// trusts reports whether it believes what peer says of where a request came from.
func (w *Way) trusts(peer netip.Addr) bool {
	for _, p := range w.TrustedFrom {
		if p.Contains(peer) {
			return true
		}
	}
	return false
}

// client returns the last address of a list that is not of a trusted proxy: who
// stands before it was not seen by any that is. peer is at the end of the list.
func (w *Way) client(list string, peer netip.Addr) netip.Addr {
	hops := strings.Split(list, ",")
	last := peer
	for i := len(hops) - 1; i >= 0; i-- {
		text := strings.TrimSpace(hops[i])
		if text == "" {
			continue
		}
		a, err := addressOf(text)
		if err != nil {
			break
		}
		if last = a.Unmap(); !w.trusts(last) {
			break
		}
	}
	return last
}

// addressOf reads an address as proxies write it in a list: some add the port, or
// only the brackets.
func addressOf(text string) (netip.Addr, error) {
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr(), nil
	}
	return netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
}

// element is what we add to a Forwarded header (RFC 7239).
func element(r *http.Request, peer netip.Addr) string {
	node := peer.String()
	if peer.Is6() {
		node = `"[` + node + `]"`
	}
	return "for=" + node + ";host=" + quoted(r.Host) + ";proto=http"
}

// quoted makes a quoted-string. A host that the server let through has no
// control characters.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// dropForwarded removes what says where a request came from. Backends that make
// variables of headers cannot tell an underscore from a dash.
func dropForwarded(h http.Header) {
	for key := range h {
		if forwarding(http.CanonicalHeaderKey(strings.ReplaceAll(key, "_", "-"))) {
			delete(h, key)
		}
	}
}

func forwarding(key string) bool {
	return key == "Forwarded" || key == "X-Real-Ip" || strings.HasPrefix(key, "X-Forwarded-")
}

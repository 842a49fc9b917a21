package config

import (
	"net/netip"
	"slices"
	"time"

	"sluice/pool"
)

// admission reads who may come in through a frontend.
func (t table) admission() Admission {
	a := Admission{
		SessionsPerClient: t.whole("max_sessions_per_client", 0, 0, pool.MaxSessionLimit),
		RatePerClient:     t.whole("max_rate_per_client", 0, 0, 1_000_000),
		Allow:             t.prefixes("allow"),
		Deny:              t.prefixes("deny"),
		Header:            t.word("proxy_protocol", "off", []string{"off", "accept", "require"}),
		HeaderFrom:        t.prefixes("proxy_protocol_from"),
		HeaderTimeout:     t.duration("proxy_header_timeout", 5*time.Second, spanDial),
	}
	_, listed := t.values["proxy_protocol_from"].([]any)
	switch {
	case a.Header != "off" && !t.has("proxy_protocol_from"):
		t.wrong("proxy_protocol_from", `missing; proxy_protocol = %s believes what a header says, so list the peers that may send one, such as ["10.0.0.0/8"]`,
			quote(a.Header))
	case a.Header != "off" && listed && len(t.values["proxy_protocol_from"].([]any)) == 0:
		t.wrong("proxy_protocol_from", `empty, so that nobody may send a header; list the peers, or write proxy_protocol = "off"`)
	case a.Header == "off" && len(a.HeaderFrom) > 0:
		t.warn("proxy_protocol_from", `has no effect, since proxy_protocol is "off"`)
	}
	return a
}

// prefixes reads a list of CIDRs; an address alone stands for itself. They come
// back masked, unmapped, sorted and each once.
func (t table) prefixes(key string) []netip.Prefix {
	values, ok := t.values[key].([]any)
	if !ok && t.has(key) {
		t.wrong(key, `got %s; a list of strings is needed, such as ["10.0.0.0/8", "2001:db8::/32"]`, described(t.values[key]))
	}
	var list []netip.Prefix
	for _, v := range values {
		text, ok := v.(string)
		if !ok {
			t.wrong(key, "got %s in the list; strings are needed", described(v))
			continue
		}
		p, ok := parsePrefix(text)
		if !ok {
			t.wrong(key, `%s is no CIDR; write an address and a length, such as "10.0.0.0/8"`, quote(text))
			continue
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	return slices.Compact(list)
}

// parsePrefix takes a CIDR or an address. IPv4 in the clothes of IPv6 becomes
// IPv4, which is how clients are looked up.
func parsePrefix(text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

package config

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// probe reads what one check does.
func (t table) probe() Probe {
	p := Probe{
		Kind:    t.word("probe", "tcp", []string{"none", "tcp", "http", "redis", "postgres", "mysql"}),
		Send:    t.text("send", ""),
		Expect:  t.text("expect", ""),
		Path:    t.text("path", "/"),
		Host:    t.text("host", ""),
		Port:    t.whole("port", 0, 0, 65535),
		Address: t.text("address", ""),
	}
	t.login(&p)
	p.Status = t.statuses("status", "200-399")
	if _, err := regexp.Compile(p.Expect); err != nil {
		t.wrong("expect", "%s is no regular expression: %v", quote(p.Expect), err)
	}
	if !strings.HasPrefix(p.Path, "/") || strings.ContainsFunc(p.Path, notOfPath) {
		t.wrong("path", `%s is no path; write it as in a request, such as "/healthz"`, quote(p.Path))
	}
	if strings.ContainsFunc(p.Host, notOfPath) || strings.Contains(p.Host, "/") {
		t.wrong("host", `%s is no host; write a name, and perhaps a port, without scheme and path`, quote(p.Host))
	}
	if p.Address != "" {
		t.checkProbeAddress(p.Address)
	}
	t.adviseProbe(p.Kind)
	return p
}

// notOfPath reports whether r may not stand in a request line as it is.
func notOfPath(r rune) bool { return r <= ' ' || r > '~' || r == '#' }

// checkProbeAddress notes what is wrong with the host that is probed in the
// place of a backend's.
func (t table) checkProbeAddress(host string) {
	if strings.HasPrefix(host, "unix:") {
		t.wrong("address", "%s is a unix socket; write a host or an IP address", quote(host))
		return
	}
	if _, _, err := net.SplitHostPort(host); err == nil {
		t.wrong("address", "%s has a port; write the host alone, and the port as port", quote(host))
		return
	}
	if _, err := parseBackend(net.JoinHostPort(host, "1")); err != nil {
		t.wrong("address", "%s is no host and no IP address", quote(host))
	}
}

// kindKeys are keys of [pool.health] that only some kinds of probes have a use for.
var kindKeys = map[string][]string{
	"tcp":                  {"send", "expect"},
	"http":                 {"path", "host", "status"},
	"redis postgres mysql": strings.Fields("role user password_file password_env max_lag tls tls_ca_file tls_cert_file tls_key_file tls_server_name"),
	"redis":                {"min_replicas"},
	"postgres":             {"database"},
	"mysql":                {"wsrep_ready"},
}

// adviseProbe notes the keys of one kind of probe that another has no use for.
func (t table) adviseProbe(kind string) {
	for of, keys := range kindKeys {
		for _, key := range keys {
			if !slices.Contains(strings.Fields(of), kind) && t.has(key) {
				t.warn(key, "has no effect, since probe is %s", quote(kind))
			}
		}
	}
}

// statuses reads ranges of HTTP status codes, such as "200-299,404".
func (t table) statuses(key, absent string) (ranges []StatusRange) {
	text := t.text(key, absent)
	for _, part := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.Atoi(first)
		to, errTo := strconv.Atoi(last)
		if errFrom != nil || errTo != nil || from < 100 || to > 599 || from > to {
			t.wrong(key, `%s is no list of HTTP status codes; write such as "200-299,404"`, quote(text))
			return nil
		}
		ranges = append(ranges, StatusRange{from, to})
	}
	return ranges
}

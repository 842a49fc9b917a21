package config

import (
	"net"
	"net/netip"
	"time"

	"sluice/admin"
	"sluice/pool"
)

// loopsLimit is the most event loops that a file may ask for: more than any
// machine has processors to run them on.
const loopsLimit = 1024

// process reads [process].
func (t table) process() Process {
	p := Process{
		DrainTimeout:  t.duration("drain_timeout", 25*time.Second, spanLimit),
		PreDrainDelay: t.duration("pre_drain_delay", 0, spanDelay),
		Watch:         t.boolean("watch", true),
		StateFile:     t.text("state_file", ""),
		Engine:        t.word("engine", "auto", []string{"auto", "copy", "epoll"}),
		Loops:         t.whole("loops", 0, 0, loopsLimit),
		MaxSessions:   t.whole("max_sessions", 0, 0, pool.MaxSessionLimit),
		Zone:          t.text("zone", ""),
		Resolver:      t.resolver(),
	}
	if p.Engine == "copy" && p.Loops > 0 {
		t.warn("loops", `has no effect with engine "copy", which has none`)
	}
	return p
}

// resolver reads the address of a DNS server.
func (t table) resolver() string {
	text := t.text("resolver", "")
	if text == "" {
		return ""
	}
	if _, err := netip.ParseAddrPort(text); err != nil {
		t.wrong("resolver", `%s is no IP address with a port; write such as "127.0.0.1:8600"`, quote(text))
	}
	return text
}

// log reads [log].
func (t table) log() Log {
	return Log{
		Level:    t.word("level", "info", []string{"debug", "info", "warn", "error"}),
		Format:   t.word("format", "console", []string{"console", "json"}),
		Access:   t.word("access", "all", []string{"all", "failed", "off"}),
		LogEmpty: t.boolean("log_empty", true),
	}
}

// adminSockets are the endpoints that the admin side listens on; nil where it
// does not, or where that is not known.
type adminSockets struct{ api, probes, proxy *endpoint }

// admin reads [admin] with [admin.proxy].
func (t table) admin(proxy table) (Admin, adminSockets) {
	a := Admin{
		Listen:      t.text("listen", "127.0.0.1:8404"),
		ProbeListen: t.text("probe_listen", ""),
		ProxyListen: proxy.text("listen", ""),
		Settings: admin.Settings{
			Hosts: t.hosts("hosts"),
			Proxy: admin.ProxySettings{
				Enabled:         proxy.boolean("enabled", true),
				Pool:            proxy.text("pool", ""),
				TrustedFrom:     proxy.prefixes("trusted_from"),
				ResponseTimeout: proxy.duration("response_timeout", time.Minute, spanAnswer),
			},
		},
	}
	a.TokenFile, a.Settings.Tokens = t.tokens("token_file")
	at := adminSockets{
		api:    t.adminEndpoint("listen", a.Listen),
		probes: t.adminEndpoint("probe_listen", a.ProbeListen),
		proxy:  proxy.adminEndpoint("listen", a.ProxyListen),
	}
	a.Mode = t.mode("mode", 0o600, at.api)
	forward := &a.Settings.Proxy
	forward.Listens = forward.Enabled && a.ProxyListen != ""
	if a.ProxyListen != "" && !forward.Enabled {
		proxy.warn("listen", "has no effect, since enabled is false: nothing listens there")
	}
	if file := t.values["token_file"]; at.api != nil && !at.api.loopback() && (file == nil || file == "") {
		t.wrong("listen", "%s is not loopback, so others could steer this process; "+
			"set token_file, or listen on 127.0.0.1", quote(a.Listen))
	}
	return a, at
}

// adminEndpoint takes the address apart that was read from key; nil if it is
// empty or wrong.
func (t table) adminEndpoint(key, text string) *endpoint {
	if text == "" {
		return nil
	}
	e, err := parseAddress(text)
	if err != nil {
		t.wrong(key, "%v", err)
		return nil
	}
	return &e
}

// hosts reads a list of names under which a browser may reach the admin side.
func (t table) hosts(key string) []string {
	values, ok := t.values[key].([]any)
	if !ok && t.has(key) {
		t.wrong(key, `got %s; a list of strings is needed, such as ["lb.example.com"]`, described(t.values[key]))
	}
	var hosts []string
	for _, v := range values {
		host, ok := v.(string)
		if !ok {
			t.wrong(key, "got %s in the list; strings are needed", described(v))
			continue
		}
		at, err := parseAddress(net.JoinHostPort(host, "0"))
		if err != nil || at.Host == "" {
			t.wrong(key, "%s is no host name; write it without scheme and port", quote(host))
			continue
		}
		hosts = append(hosts, at.Host)
	}
	return hosts
}

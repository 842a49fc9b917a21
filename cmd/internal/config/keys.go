package config

import (
	"slices"
	"strings"
)

// keys are the keys that one kind of table may hold.
type keys struct {
	name   string   // the last part of its header
	header string   // how a file writes it
	parent *keys    // nil for the root
	known  []string // in the order of the documentation; tables included
	label  []string // keys whose value tells one table from its like, best first
}

var (
	rootKeys = &keys{header: "the file",
		known: strings.Fields("process log admin frontend pool")}

	processKeys = &keys{name: "process", header: "[process]", parent: rootKeys,
		known: strings.Fields("drain_timeout pre_drain_delay watch state_file engine loops max_sessions zone resolver")}

	logKeys = &keys{name: "log", header: "[log]", parent: rootKeys,
		known: strings.Fields("level format access log_empty")}

	adminKeys = &keys{name: "admin", header: "[admin]", parent: rootKeys,
		known: strings.Fields("listen mode token_file probe_listen hosts proxy")}

	proxyKeys = &keys{name: "proxy", header: "[admin.proxy]", parent: adminKeys,
		known: strings.Fields("enabled pool listen trusted_from response_timeout")}

	frontendKeys = &keys{name: "frontend", header: "[[frontend]]", parent: rootKeys,
		known: strings.Fields(`name listen pool attempts connect_timeout dial_budget idle_timeout
			half_close_timeout keepalive user_timeout max_session_age max_session_age_jitter
			max_sessions max_sessions_per_client max_rate_per_client allow deny proxy_protocol proxy_protocol_from
			proxy_header_timeout mode`),
		label: strings.Fields("name")}

	keepaliveKeys = &keys{name: "keepalive", header: "keepalive = { ... }", parent: frontendKeys,
		known: strings.Fields("idle interval count")}

	poolKeys = &keys{name: "pool", header: "[[pool]]", parent: rootKeys,
		known: strings.Fields(`name strategy ties hash_balance_factor slow_start backup_minimum zone_minimum
			max_failures retry_after all_down panic_threshold single on_down on_remove drain_timeout
			send_proxy queue_max queue_timeout hold_timeout release_rate resolve_interval
			health outliers backend`),
		label: strings.Fields("name")}

	// tls is last, so that a slip in a longer key finds that first.
	healthKeys = &keys{name: "health", header: "[pool.health]", parent: poolKeys,
		known: strings.Fields(`probe init interval down_interval timeout rise fall send expect path host status
			port address role user password_file password_env database max_lag min_replicas wsrep_ready
			tls_ca_file tls_cert_file tls_key_file tls_server_name tls`)}

	outlierKeys = &keys{name: "outliers", header: "[pool.outliers]", parent: poolKeys,
		known: strings.Fields("detect interval min_sessions failure_share early dial_factor max_ejected eject_for eject_max")}

	backendKeys = &keys{name: "backend", header: "[[pool.backend]]", parent: poolKeys,
		known: strings.Fields("id address weight max_sessions send_proxy backup zone resolve"),
		label: strings.Fields("id address")}

	everyKeys = []*keys{rootKeys, processKeys, logKeys, adminKeys, proxyKeys, frontendKeys,
		keepaliveKeys, poolKeys, healthKeys, outlierKeys, backendKeys}
)

// foreign are words that operators bring along, for keys, tables and values, and
// what they are called here.
var foreign = map[string]string{
	"accept_proxy": "proxy_protocol", "algorithm": "strategy", "balance": "strategy", "bind": "listen",
	"blacklist": "deny", "check": "health", "cluster": "pool", "default_backend": "pool", "downinter": "down_interval",
	"fail_timeout": "retry_after", "global": "process", "healthcheck": "health", "inter": "interval",
	"ip_hash": "source_hash", "least_conn": "least_connections", "leastconn": "least_connections",
	"listener": "frontend", "mariadb": "mysql", "master": "primary", "max_conns": "max_sessions", "max_fails": "max_failures", "maxconn": "max_sessions",
	"maxqueue": "queue_max", "nbthread": "loops", "node": "backend",
	"pgsql": "postgres", "postgresql": "postgres", "proxy_connect_timeout": "connect_timeout",
	"proxy_next_upstream_tries": "attempts", "proxy_timeout": "idle_timeout", "random": "random_two",
	"retries": "attempts", "roundrobin": "round_robin", "rr": "round_robin", "server": "backend", "service": "frontend",
	"slave": "replica", "source": "source_hash", "stats": "admin", "target": "backend", "tcp_ut": "user_timeout", "threads": "loops",
	"timeout_check": "timeout", "timeout_client": "idle_timeout", "timeout_connect": "connect_timeout",
	"timeout_queue": "queue_timeout", "timeout_server": "idle_timeout", "timeout_tunnel": "idle_timeout",
	"upstream": "pool", "vip": "frontend", "whitelist": "allow", "worker": "loops", "worker_connections": "max_sessions",
	"worker_processes": "loops",
}

// translated finds the word used here for a foreign one, or "".
func translated(word string) string {
	word = underlined.Replace(strings.ToLower(word))
	if own := foreign[word]; own != "" {
		return own
	}
	return foreign[strings.TrimSuffix(word, "s")]
}

var underlined = strings.NewReplacer("-", "_", " ", "_")

// table returns the table that k may hold under that key, or nil.
func (k *keys) table(key string) *keys {
	for _, t := range everyKeys {
		if t.parent == k && t.name == key {
			return t
		}
	}
	return nil
}

// written is a key of k as a message shows it: a table by its header.
func (k *keys) written(key string) string {
	if t := k.table(key); t != nil {
		return t.header
	}
	return quote(key)
}

// unknown says what is wrong with a key that k does not have.
func (k *keys) unknown(key string, isTable bool) string {
	text := "unknown key"
	if isTable {
		text = "unknown table"
	}
	word := translated(key)
	own := nearest(key, k.known)
	if slices.Contains(k.known, word) {
		own = word
	}
	homes := k.elsewhere(key)
	switch {
	case own != "" && homes.sub != "":
		return text + "; did you mean " + k.written(own) + ", or " + homes.sub + "?"
	case own != "" && homes.tables != "":
		return text + "; did you mean " + k.written(own) + ", or " + quote(key) + " in " + homes.tables + "?"
	case own != "":
		return text + "; did you mean " + k.written(own) + "?"
	case homes.sub != "":
		return text + "; it is written " + homes.sub
	case homes.tables != "":
		return text + "; it belongs in " + homes.tables
	}
	switch homes = k.elsewhere(word); {
	case homes.sub != "":
		return text + "; it is written " + homes.sub + " here"
	case homes.tables != "":
		return text + "; it is called " + quote(word) + " here, and belongs in " + homes.tables
	}
	return text + "; " + k.header + " has " + k.listed()
}

// homes is where a key may stand that does not belong where it was found.
type homes struct {
	sub    string // the header, if the key is a table
	tables string // which have a key of that name, if it is none
}

// elsewhere says which other tables have a key of exactly that name.
func (k *keys) elsewhere(key string) homes {
	var tables []string
	for _, t := range everyKeys {
		if t == k || !slices.Contains(t.known, key) {
			continue
		}
		if sub := t.table(key); sub != nil {
			return homes{sub: sub.header}
		}
		tables = append(tables, t.header)
	}
	return homes{tables: anyOf(tables)}
}

func (k *keys) listed() string {
	words := make([]string, len(k.known))
	for i, key := range k.known {
		words[i] = key
		if t := k.table(key); t != nil {
			words[i] = t.header
		}
	}
	return strings.Join(words, ", ")
}

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
	later  []string // of features to come: refused, so that none is silently without effect
	label  []string // keys whose value tells one table from its like, best first
}

var (
	rootKeys = &keys{header: "the file",
		known: strings.Fields("process log admin frontend pool")}

	processKeys = &keys{name: "process", header: "[process]", parent: rootKeys,
		known: strings.Fields("drain_timeout engine max_sessions"),
		later: strings.Fields("watch pre_drain_delay loops")}

	logKeys = &keys{name: "log", header: "[log]", parent: rootKeys,
		known: strings.Fields("level format access log_empty")}

	adminKeys = &keys{name: "admin", header: "[admin]", parent: rootKeys,
		known: strings.Fields("listen token_file hosts proxy"),
		later: strings.Fields("probe_listen")}

	proxyKeys = &keys{name: "proxy", header: "[admin.proxy]", parent: adminKeys,
		known: strings.Fields("enabled pool response_timeout"),
		later: strings.Fields("listen trusted_from")}

	frontendKeys = &keys{name: "frontend", header: "[[frontend]]", parent: rootKeys,
		known: strings.Fields(`name listen pool attempts connect_timeout dial_budget idle_timeout
			half_close_timeout keepalive user_timeout max_sessions mode`),
		later: strings.Fields(`max_sessions_per_client max_rate_per_client allow deny
			proxy_protocol proxy_protocol_from proxy_header_timeout`),
		label: strings.Fields("name")}

	keepaliveKeys = &keys{name: "keepalive", header: "keepalive = { ... }", parent: frontendKeys,
		known: strings.Fields("idle interval count")}

	poolKeys = &keys{name: "pool", header: "[[pool]]", parent: rootKeys,
		known: strings.Fields("name strategy ties max_failures retry_after all_down health backend"),
		later: strings.Fields(`on_down on_remove drain_timeout send_proxy queue_max queue_timeout
			hold_timeout release_rate`),
		label: strings.Fields("name")}

	healthKeys = &keys{name: "health", header: "[pool.health]", parent: poolKeys,
		known: strings.Fields("probe init interval down_interval timeout rise fall"),
		later: strings.Fields("send expect path host status port address")}

	backendKeys = &keys{name: "backend", header: "[[pool.backend]]", parent: poolKeys,
		known: strings.Fields("id address weight max_sessions"),
		later: strings.Fields("send_proxy"),
		label: strings.Fields("id address")}

	everyKeys = []*keys{rootKeys, processKeys, logKeys, adminKeys, proxyKeys, frontendKeys,
		keepaliveKeys, poolKeys, healthKeys, backendKeys}
)

// foreign are words that operators bring along, and what they are called here.
var foreign = map[string]string{
	"algorithm": "strategy", "balance": "strategy", "bind": "listen", "cluster": "pool",
	"listener": "frontend", "maxconn": "max_sessions", "node": "backend", "server": "backend",
	"service": "frontend", "target": "backend", "upstream": "pool", "vip": "frontend",
}

// all are the keys of k, those of later features included.
func (k *keys) all() []string { return slices.Concat(k.known, k.later) }

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
	own := nearest(key, k.all())
	if own == "" {
		own = k.translated(key)
	}
	if own != "" {
		text += "; did you mean " + k.written(own) + "?"
	}
	if homes := k.elsewhere(key); homes != "" {
		return text + "; " + homes
	}
	if own == "" {
		text += "; " + k.header + " has " + k.listed()
	}
	return text
}

// translated finds the word used here for a foreign one, if k has it.
func (k *keys) translated(key string) string {
	word := foreign[strings.TrimSuffix(strings.ToLower(key), "s")]
	if slices.Contains(k.known, word) {
		return word
	}
	return ""
}

// elsewhere says which other tables have a key of exactly that name.
func (k *keys) elsewhere(key string) string {
	var homes []string
	for _, t := range everyKeys {
		if t == k || !slices.Contains(t.all(), key) {
			continue
		}
		if sub := t.table(key); sub != nil {
			return "it is written " + sub.header
		}
		home := t.header
		if slices.Contains(t.later, key) {
			home += " (not supported yet)"
		}
		homes = append(homes, home)
	}
	if len(homes) == 0 {
		return ""
	}
	return "it belongs in " + anyOf(homes)
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

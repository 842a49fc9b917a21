package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// other is a value that is not the default, for every key there is.
var other = map[string]string{
	"[process].drain_timeout":   `"0s"`,
	"[process].pre_drain_delay": `"2s"`,
	"[process].watch":           "false",
	"[process].state_file":      `"none"`,
	"[process].engine":          `"copy"`,
	"[process].loops":           "2",
	"[process].max_sessions":    "10",
	"[process].zone":            `"a"`,
	"[process].resolver":        `"127.0.0.1:8600"`,

	"[log].level":     `"debug"`,
	"[log].format":    `"json"`,
	"[log].access":    `"failed"`,
	"[log].log_empty": "false",

	"[admin].listen":                 `""`,
	"[admin].mode":                   `"0660"`,
	"[admin].probe_listen":           `":8405"`,
	"[admin].token_file":             `"testdata/good.tokens"`,
	"[admin].hosts":                  `["lb.example.com"]`,
	"[admin.proxy].enabled":          "false",
	"[admin.proxy].pool":             `"p"`,
	"[admin.proxy].listen":           `":8080"`,
	"[admin.proxy].trusted_from":     `["10.0.0.0/8"]`,
	"[admin.proxy].response_timeout": `"5s"`,

	"[[frontend]].name":                    `"g"`,
	"[[frontend]].listen":                  `"[::]:6379"`,
	"[[frontend]].pool":                    `"p2"`,
	"[[frontend]].attempts":                "1",
	"[[frontend]].connect_timeout":         `"500ms"`,
	"[[frontend]].dial_budget":             `"1m30s"`,
	"[[frontend]].idle_timeout":            `"24h"`,
	"[[frontend]].half_close_timeout":      `"0s"`,
	"[[frontend]].user_timeout":            `"30s"`,
	"[[frontend]].max_session_age":         `"1h"`,
	"[[frontend]].max_session_age_jitter":  "5",
	"[[frontend]].max_sessions":            "1",
	"[[frontend]].max_sessions_per_client": "3",
	"[[frontend]].max_rate_per_client":     "4",
	"[[frontend]].allow":                   `["10.0.0.0/8"]`,
	"[[frontend]].deny":                    `["10.0.0.0/8", "::1"]`,
	"[[frontend]].proxy_protocol":          `"accept"`,
	"[[frontend]].proxy_protocol_from":     `["127.0.0.1"]`,
	"[[frontend]].proxy_header_timeout":    `"1s"`,
	"[[frontend]].mode":                    `"0600"`,

	"keepalive = { ... }.idle":     `"0s"`,
	"keepalive = { ... }.interval": `"1s"`,
	"keepalive = { ... }.count":    "2",

	"[[pool]].name":                `"q"`,
	"[[pool]].strategy":            `"least_connections"`,
	"[[pool]].ties":                `"rotate"`,
	"[[pool]].max_failures":        "0",
	"[[pool]].retry_after":         `"1m"`,
	"[[pool]].slow_start":          `"30s"`,
	"[[pool]].all_down":            `"try"`,
	"[[pool]].on_down":             `"close"`,
	"[[pool]].on_remove":           `"close"`,
	"[[pool]].drain_timeout":       `"1m"`,
	"[[pool]].send_proxy":          `"v1"`,
	"[[pool]].queue_max":           "9",
	"[[pool]].queue_timeout":       `"1s"`,
	"[[pool]].hold_timeout":        `"9s"`,
	"[[pool]].release_rate":        "8",
	"[[pool]].single":              "true",
	"[[pool]].panic_threshold":     "50",
	"[[pool]].backup_minimum":      "2",
	"[[pool]].zone_minimum":        "3",
	"[[pool]].hash_balance_factor": "125",
	"[[pool]].resolve_interval":    `"1m"`,

	"[pool.health].probe":           `"none"`,
	"[pool.health].init":            `"down"`,
	"[pool.health].interval":        `"10s"`,
	"[pool.health].down_interval":   `"10s"`,
	"[pool.health].timeout":         `"100ms"`,
	"[pool.health].rise":            "1",
	"[pool.health].fall":            "1",
	"[pool.health].send":            `"PING\r\n"`,
	"[pool.health].expect":          `"^\\+PONG"`,
	"[pool.health].path":            `"/healthz"`,
	"[pool.health].host":            `"a.test"`,
	"[pool.health].status":          `"200,301-302"`,
	"[pool.health].port":            "81",
	"[pool.health].address":         `"127.0.0.2"`,
	"[pool.health].role":            `"primary"`,
	"[pool.health].user":            `"sluice"`,
	"[pool.health].password_file":   `"testdata/good.password"`,
	"[pool.health].password_env":    `"PATH"`,
	"[pool.health].database":        `"app"`,
	"[pool.health].max_lag":         `"5s"`,
	"[pool.health].min_replicas":    "1",
	"[pool.health].wsrep_ready":     "true",
	"[pool.health].tls":             `"verify"`,
	"[pool.health].tls_ca_file":     `"testdata/good.pem"`,
	"[pool.health].tls_cert_file":   `"testdata/good.pem"`,
	"[pool.health].tls_key_file":    `"testdata/good.key"`,
	"[pool.health].tls_server_name": `"db.example.com"`,

	"[pool.outliers].detect":        "true",
	"[pool.outliers].interval":      `"1s"`,
	"[pool.outliers].min_sessions":  "2",
	"[pool.outliers].failure_share": "20",
	"[pool.outliers].early":         `"2s"`,
	"[pool.outliers].dial_factor":   "0",
	"[pool.outliers].max_ejected":   "50",
	"[pool.outliers].eject_for":     `"1s"`,
	"[pool.outliers].eject_max":     `"1h"`,

	"[[pool.backend]].id":           `"b"`,
	"[[pool.backend]].address":      `"unix:/run/redis.sock"`,
	"[[pool.backend]].weight":       "0",
	"[[pool.backend]].max_sessions": "7",
	"[[pool.backend]].send_proxy":   `"v2"`,
	"[[pool.backend]].backup":       "1",
	"[[pool.backend]].zone":         `"b"`,
	"[[pool.backend]].resolve":      `"all"`,
}

// needs are further lines without which a key may not be set.
var needs = map[string][3]string{
	"[admin].mode":                 {"[admin]", "listen", `"unix:/run/admin.sock"`},
	"[[frontend]].proxy_protocol":  {"[[frontend]]", "proxy_protocol_from", `["10.0.0.0/8"]`},
	"[[frontend]].mode":            {"[[frontend]]", "listen", `"unix:/run/f.sock"`},
	"[[pool]].ties":                {"[[pool]]", "strategy", `"least_connections"`},
	"[[pool]].hash_balance_factor": {"[[pool]]", "strategy", `"source_hash"`},
	"[[pool]].hold_timeout":        {"[[pool]]", "queue_max", "100"},
	"[pool.health].tls_key_file":   {"[pool.health]", "tls_cert_file", `"testdata/good.pem"`},
	"[[pool.backend]].resolve":     {"[[pool.backend]]", "address", `"a.test:6379"`},
	"[[pool]].name":                {"[[frontend]]", "pool", `"q"`},
	"[[frontend]].pool":            {"[[pool]]", "name", `"p2"`},
}

// eachKey calls f for every supported key that is no table.
func eachKey(t *testing.T, f func(t *testing.T, k *keys, key, value string)) {
	seen := 0
	for _, k := range everyKeys {
		for _, key := range k.known {
			if k.table(key) != nil {
				continue
			}
			value, ok := other[k.header+"."+key]
			if !ok {
				t.Errorf("%s.%s is not tested", k.header, key)
			}
			seen++
			t.Run(k.name+"."+key, func(t *testing.T) {
				t.Parallel()
				f(t, k, key, value)
			})
		}
	}
	if seen != len(other) {
		t.Errorf("got %d keys, want %d", seen, len(other))
	}
}

func TestEachKeyHasAnEffect(t *testing.T) {
	t.Parallel()
	eachKey(t, func(t *testing.T, k *keys, key, value string) {
		before, after := newDocument(), newDocument().set(k.header, key, value)
		if n, ok := needs[k.header+"."+key]; ok {
			after.set(n[0], n[1], n[2])
			if key != "name" && key != "pool" {
				before.set(n[0], n[1], n[2])
			}
		}
		if b, a := before.parsed(t), after.parsed(t); reflect.DeepEqual(b, a) {
			t.Errorf("got the same Config without and with %s = %s", key, value)
		}
	})
}

func TestEachTypoIsNamed(t *testing.T) {
	t.Parallel()
	eachKey(t, func(t *testing.T, k *keys, key, value string) {
		for i := range key {
			typo := key[:i] + key[i+1:]
			got := newDocument().set(k.header, typo, value).refused(t)
			if want := typo + ": unknown key"; !strings.Contains(got, want) {
				t.Errorf("got %q, want %q in it", got, want)
			}
			// With a letter less, id is nothing that one could guess from.
			if want := fmt.Sprintf("did you mean %q", key); key != "id" && !strings.Contains(got, want) {
				t.Errorf("got %q, want %q in it", got, want)
			}
		}
	})
}

func TestEachTableTypoIsNamed(t *testing.T) {
	t.Parallel()
	for _, k := range everyKeys {
		if k == rootKeys || k == keepaliveKeys {
			continue
		}
		for i := range k.name {
			typo := k.name[:i] + k.name[i+1:]
			header := strings.Replace(k.header, k.name+"]", typo+"]", 1)
			got := refused(t, newDocument().String()+header+"\n")
			if want := "unknown table; did you mean " + k.header + "?"; !strings.Contains(got, want) {
				t.Errorf("got %q for %s, want %q in it", got, header, want)
			}
		}
	}
}

func TestRightKeyInAWrongTable(t *testing.T) {
	t.Parallel()
	f := func(header, key, want string) {
		t.Helper()
		got := newDocument().set(header, key, "1").refused(t)
		if !strings.Contains(got, key+": unknown key; "+want) {
			t.Errorf("got %q for %s in %s, want %q in it", got, key, header, want)
		}
	}
	f("[[pool]]", "interval", "it belongs in keepalive = { ... }, [pool.health] or [pool.outliers]")
	f("[[frontend]]", "strategy", "it belongs in [[pool]]")
	f("[[pool.backend]]", "retry_after", "it belongs in [[pool]]")
	f("[process]", "level", "it belongs in [log]")
	f("[log]", "watch", "it belongs in [process]")
	f("[log]", "hold_timeout", "it belongs in [[pool]]")
	f("[[frontend]]", "backend", "it is written [[pool.backend]]")
	f("the file", "token_file", "it belongs in [admin]")
	f("[[frontend]]", "idle", `did you mean "idle_timeout", or "idle" in keepalive = { ... }?`)
	f("[[pool.backend]]", "check", "it is written [pool.health] here")
	f("[process]", "nbthread", `did you mean "loops"?`)
	f("[[frontend]]", "accept_proxy", `did you mean "proxy_protocol"?`)
	f("the file", "global", "did you mean [process]?")
	f("[[pool.backend]]", "inter", `it is called "interval" here, and belongs in keepalive = { ... }, [pool.health] or [pool.outliers]`)
}

func refused(t *testing.T, text string) string {
	t.Helper()
	c, err := Parse("test.toml", []byte(text))
	if err == nil {
		t.Fatalf("got %+v, want an error for\n%s", c, text)
	}
	return err.Error()
}

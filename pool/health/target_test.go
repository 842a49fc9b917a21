package health

import (
	"crypto/tls"
	"strings"
	"testing"
)

func TestTargetTLS(t *testing.T) {
	t.Parallel()
	set := &tls.Config{MinVersion: tls.VersionTLS13}
	for address, host := range map[string]string{
		"db.example:5432":     "db.example",
		"10.0.0.1:5432":       "10.0.0.1",
		"[fe80::1%eth0]:5432": "fe80::1",
		"unix:/run/db.sock":   "",
		"unix:/run/db:5432":   "",
	} {
		target := Target{Address: address}
		if got := target.Host(); got != host {
			t.Errorf("%s: got host %q, want %q", address, got, host)
		}
		got := target.TLS(set)
		switch {
		case host == "" && got != nil:
			t.Errorf("%s: is to be encrypted", address)
		case host != "" && (got == nil || got.ServerName != host || got.MinVersion != set.MinVersion):
			t.Errorf("%s: got %+v", address, got)
		}
		if target.TLS(nil) != nil {
			t.Errorf("%s: is to be encrypted, and nobody asked for it", address)
		}
	}
	if got := (Target{Address: "10.0.0.1:1"}).TLS(&tls.Config{ServerName: "db"}); got.ServerName != "db" {
		t.Errorf("got the name %q, want the one that was said", got.ServerName)
	}
	if set.ServerName != "" {
		t.Error("the settings of all were changed")
	}
}

func TestSaid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, secret, want string }{
		{"wrong: secret", "secret", "wrong: ***"},
		{"wrong: abc", "abc", "wrong: abc"}, // too short to be one
		{"wrong: ", "", "wrong: "},
		{strings.Repeat("x", 500), "secret", strings.Repeat("x", mostSaid) + "..."},
		{strings.Repeat("x", mostSaid-1) + "\u00e9", "", strings.Repeat("x", mostSaid-1) + "..."},
		{strings.Repeat("x", mostSaid-3) + "secret", "secret", strings.Repeat("x", mostSaid-3) + "***"},
	} {
		if got := Said(c.text, c.secret); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"
)

// redisPing is how often an idle Redis primary says something to its replicas,
// unless it is told otherwise.
const redisPing = 10 * time.Second

// login reads what the probes that log in need.
func (t table) login(p *Probe) {
	p.Role = t.word("role", "any", []string{"any", "primary", "replica"})
	p.User = t.text("user", "")
	p.PasswordFile = t.text("password_file", "")
	p.PasswordEnv = t.text("password_env", "")
	p.Password = t.password(p.PasswordFile, p.PasswordEnv)
	p.Database = t.text("database", "")
	p.MaxLag = t.duration("max_lag", 0, spanLimit)
	p.MinReplicas = t.whole("min_replicas", 0, 0, 1000)
	p.WsrepReady = t.boolean("wsrep_ready", false)
	p.TLS = t.tls()
	if p.Kind == "redis" && p.Role != "primary" && p.MaxLag > 0 && p.MaxLag <= redisPing {
		t.warn("max_lag", "an idle Redis primary says something to its replicas every %s (repl-ping-replica-period), "+
			"so they would go down in between; write more, such as \"15s\"", short(redisPing))
	}
	if p.User == "" && (p.Kind == "postgres" || p.Kind == "mysql") {
		t.wrong("user", "missing; the probe %s logs in as one", quote(p.Kind))
	}
}

// password reads the secret from a file, without the end of its line, or from the
// environment. It is in no message.
func (t table) password(file, env string) Secret {
	switch {
	case file != "" && env != "":
		t.wrong("password_env", "password_file is set too; remove one of the two")
	case file != "" && !t.in.mayOpen(file), env != "" && !t.in.mayAsk(env):
		t.warn("", "the password is not read for a plan: only a reload can tell whether it is there")
	case file != "":
		text, err := t.readSecret("password_file", file)
		if err != nil {
			t.wrong("password_file", "%v", err)
			return ""
		}
		text = bytes.TrimRight(text, "\r\n")
		if len(text) == 0 {
			t.wrong("password_file", "%s is empty", file)
		}
		t.advisePassword(file, text)
		return Secret(text)
	case env != "":
		text, ok := os.LookupEnv(env)
		if !ok || text == "" {
			t.wrong("password_env", "the variable %s is not set; set it where sluice is started", quote(env))
		}
		return Secret(text)
	}
	return ""
}

// advisePassword notes what an editor has left in the file of a password: the login
// would fail, and not say why.
func (t table) advisePassword(file string, text []byte) {
	switch {
	case bytes.HasPrefix(text, []byte("\xef\xbb\xbf")):
		t.warn("password_file", "%s begins with a byte order mark, which counts as part of the password; save it without one", file)
	case bytes.ContainsAny(text, "\x00\r\n"):
		t.warn("password_file", "%s has several lines, or a zero byte, all of which count as the password; write it on one line", file)
	}
}

// tls reads how a probe encrypts.
func (t table) tls() TLS {
	s := TLS{
		Mode:       t.word("tls", "off", []string{"off", "require", "verify"}),
		CAFile:     t.text("tls_ca_file", ""),
		CertFile:   t.text("tls_cert_file", ""),
		KeyFile:    t.text("tls_key_file", ""),
		ServerName: t.text("tls_server_name", ""),
	}
	t.adviseTLS(s)
	if !t.in.mayOpen(s.CAFile) || !t.in.mayOpen(s.CertFile) || !t.in.mayOpen(s.KeyFile) {
		t.warn("tls", "its files are not read for a plan: only a reload can tell whether they are right")
		return s
	}
	s.CA = t.pem("tls_ca_file", s.CAFile, func(text []byte) error {
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return fmt.Errorf("%s holds no certificate in PEM", s.CAFile)
		}
		return nil
	})
	s.Cert, s.Key = t.certificate(s.CertFile, s.KeyFile)
	return s
}

// adviseTLS notes keys that the others leave without a use.
func (t table) adviseTLS(s TLS) {
	if s.Mode == "off" {
		for _, key := range []string{"tls_ca_file", "tls_cert_file", "tls_key_file", "tls_server_name"} {
			if t.has(key) {
				t.warn(key, `has no effect, since tls is "off"`)
			}
		}
		return
	}
	if s.Mode == "require" && t.has("tls_ca_file") {
		t.warn("tls_ca_file", `has no effect, since tls is "require", which takes whoever answers; write "verify"`)
	}
	if s.KeyFile != "" && s.CertFile == "" {
		t.warn("tls_key_file", "has no effect without tls_cert_file: it is the key of that certificate")
	}
}

// certificate reads a certificate of our own with its key, which may be in the
// same file.
func (t table) certificate(certFile, keyFile string) (cert []byte, key Secret) {
	if certFile == "" {
		return nil, ""
	}
	cert = t.pem("tls_cert_file", certFile, nil)
	if cert == nil {
		return nil, ""
	}
	from := "tls_key_file"
	if keyFile == "" {
		from, keyFile = "tls_cert_file", certFile
	}
	text, err := t.readSecret(from, keyFile)
	if err != nil {
		t.wrong(from, "%v", err)
		return nil, ""
	}
	if _, err := tls.X509KeyPair(cert, text); err != nil {
		t.wrong(from, "%s and the key in %s do not make a pair: %v", certFile, keyFile, err)
	}
	return cert, Secret(text)
}

// pem reads a file of certificates; nil if there is none.
func (t table) pem(key, file string, check func([]byte) error) []byte {
	if file == "" {
		return nil
	}
	text, _, err := readFile(file, maxTokens)
	if err == nil && len(text) > maxTokens {
		err = fmt.Errorf("%s is larger than %d MiB", file, maxTokens>>20)
	}
	if err == nil && check != nil {
		err = check(text)
	}
	if err != nil {
		t.wrong(key, "%v", err)
	}
	return text
}

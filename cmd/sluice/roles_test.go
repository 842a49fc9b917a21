//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rolePools are two frontends, "write" and "read", with a pool each, "primary" and
// "replica", of the same servers s0, s1 and so on. Both pools have the keys of
// [pool.health] in health.
func rolePools(health string, addresses ...string) string {
	text := head
	var named []string
	for i, address := range addresses {
		named = append(named, fmt.Sprintf("s%d=%s", i, address))
	}
	for _, f := range []struct{ name, role string }{{"write", "primary"}, {"read", "replica"}} {
		pool := poolText(f.role, "", named...)
		keys := fmt.Sprintf("[pool.health]\ninit = \"probe\"\nfall = 1\nrise = 1\nrole = %q\ntimeout = \"5s\"\n%s\n", f.role, health)
		text += frontendText(f.name, free, f.role) + strings.Replace(pool, "[pool.health]\n", keys, 1)
	}
	return text
}

// awaitReason waits until a backend is down for a reason with that part.
func (d *daemon) awaitReason(poolName, id, part string) {
	d.t.Helper()
	var got string
	defer func() {
		if d.t.Failed() {
			d.t.Logf("%s in %s: the last reason was %q", id, poolName, got)
		}
	}()
	eventually(d.t, fmt.Sprintf("%s in %s is down: %s", id, poolName, part), func() bool {
		b := d.backend(poolName, id)
		got = b.LastChange.Reason
		return b.State == "down" && strings.Contains(got, part)
	})
}

// writeFile makes a file with a text for the user alone.
func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// authority is a certificate authority of one test.
type authority struct {
	dir  string
	file string // its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert = &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.file, _ = a.issue(t, "ca")
	return a
}

// issue makes a certificate for name, and for 127.0.0.1 too, and writes it with its
// key. The first is that of the authority.
func (a *authority) issue(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if a.key == nil {
		c, a.key = a.cert, key
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject = serial, pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	certFile = writeFile(t, filepath.Join(a.dir, name+".crt"), block("CERTIFICATE", der))
	return certFile, writeFile(t, filepath.Join(a.dir, name+".key"), block("PRIVATE KEY", secret))
}

// portOf returns the port of an address.
func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

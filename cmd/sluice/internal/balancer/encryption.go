package balancer

import (
	"crypto/tls"
	"crypto/x509"

	"sluice/cmd/internal/config"
)

// encryption returns how a probe encrypts; nil if it does not. A name of the server
// that is not said is the probe's to fill in.
func encryption(c config.TLS) *tls.Config {
	if c.Mode == "off" {
		return nil
	}
	set := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.ServerName,
		InsecureSkipVerify: c.Mode == "require", // whoever answers
	}
	if c.CA != nil {
		set.RootCAs = x509.NewCertPool()
		set.RootCAs.AppendCertsFromPEM(c.CA) // it was checked
	}
	if c.Cert == nil {
		return set
	}
	if own, err := tls.X509KeyPair(c.Cert, []byte(c.Key)); err == nil { // it was checked
		set.Certificates = []tls.Certificate{own}
	}
	return set
}

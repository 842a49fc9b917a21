package config

import (
	"net/netip"

	"sluice/pool"
)

// endpoint is an address that was found valid, to be compared with others.
type endpoint struct{ pool.Address }

// parseBackend takes an address apart that somebody connects to.
func parseBackend(s string) (endpoint, error) {
	if err := pool.CheckAddress(s); err != nil {
		return endpoint{}, err
	}
	return parseAddress(s)
}

// parseAddress takes an address apart that somebody listens on.
func parseAddress(s string) (endpoint, error) {
	a, err := pool.ParseAddress(s)
	return endpoint{a}, err
}

// loopback reports whether only this machine can reach e.
func (e endpoint) loopback() bool {
	if e.Unix != "" || e.Host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(e.Host)
	return err == nil && ip.IsLoopback()
}

// reaches reports whether a dial of o on this machine would end at e.
func (e endpoint) reaches(o endpoint) bool {
	return e.overlaps(o) && (!e.Wildcard() || o.loopback())
}

// overlaps reports whether the two cannot both be listened on. A wildcard takes
// its port on every address, of both families: so does a Go listener.
func (e endpoint) overlaps(o endpoint) bool {
	if e.Unix != "" || o.Unix != "" {
		return e.Unix == o.Unix
	}
	if e.Port != o.Port || e.Port == 0 {
		return false
	}
	if e.Wildcard() || o.Wildcard() || e.Host == o.Host {
		return true
	}
	return e.Host == "localhost" && o.loopback() || o.Host == "localhost" && e.loopback()
}

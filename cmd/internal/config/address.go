package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"sluice/pool"
)

// endpoint is an address that was found valid, to be compared with others.
type endpoint struct{ pool.Address }

// slip is how a port alone, or one of every address, is written elsewhere.
var slip = regexp.MustCompile(`^([*]:)?([0-9]{1,5})$`)

// slipped says what is wrong with an address that is such a slip; before is what
// its port needs before it, and more ends the hint.
func slipped(s, before, more string) error {
	m := slip.FindStringSubmatch(s)
	switch {
	case m == nil:
		return nil
	case m[1] == "":
		return fmt.Errorf("%s is a port alone; write %s%s", quote(s), quote(before+m[2]), more)
	}
	return fmt.Errorf(`%s has "*" for a host; write %s%s`, quote(s), quote(before+m[2]), more)
}

// parseBackend takes an address apart that somebody connects to.
func parseBackend(s string) (endpoint, error) {
	if err := slipped(s, "127.0.0.1:", " for this machine"); err != nil {
		return endpoint{}, err
	}
	if err := pool.CheckAddress(s); err != nil {
		return endpoint{}, err
	}
	a, err := pool.ParseAddress(s)
	return endpoint{a}, err
}

// parseAddress takes an address apart that somebody listens on.
func parseAddress(s string) (endpoint, error) {
	if err := slipped(s, ":", ""); err != nil {
		return endpoint{}, err
	}
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

// Reaches reports whether a dial of address on this machine ends at who listens
// on listen. own are the hosts that this machine is reached by beside loopback:
// names in lower case, and addresses. What is no address reaches nothing.
func Reaches(listen, address string, own []string) bool {
	at, err := parseAddress(listen)
	if err != nil {
		return false
	}
	to, err := parseBackend(address)
	return err == nil && at.reaches(to, own)
}

// reaches reports whether a dial of o on this machine would end at e.
func (e endpoint) reaches(o endpoint, own []string) bool {
	return e.overlaps(o) && (!e.Wildcard() || o.loopback() || slices.Contains(own, o.Host))
}

// spans reports whether e takes its port on the address of o as well: a wildcard
// does so on every address, and 0.0.0.0 on those of IPv4.
func (e endpoint) spans(o endpoint) bool {
	ip, err := netip.ParseAddr(o.Host)
	return e.Wildcard() && (e.Host != "0.0.0.0" || err != nil || ip.Is4())
}

// overlaps reports whether the two cannot both be listened on.
func (e endpoint) overlaps(o endpoint) bool {
	if e.Unix != "" || o.Unix != "" {
		return e.Unix == o.Unix
	}
	if e.Port != o.Port || e.Port == 0 {
		return false
	}
	if e.spans(o) || o.spans(e) || e.Host == o.Host {
		return true
	}
	return e.Host == "localhost" && o.loopback() || o.Host == "localhost" && e.loopback()
}

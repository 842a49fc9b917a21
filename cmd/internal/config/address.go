package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// endpoint is an address taken apart, in a form that compares.
type endpoint struct {
	unix string // path of a unix socket; then the rest is empty
	host string // in lower case, literals canonical; empty is every address
	port int
}

// errSeveral is an address that is a list, or looks like one.
var errSeveral = errors.New("not exactly one address")

// maxUnixPath is what fits into sockaddr_un with its closing NUL.
const maxUnixPath = 107

// parseBackend takes an address apart that somebody connects to.
func parseBackend(s string) (endpoint, error) {
	e, err := parseAddress(s)
	switch {
	case err != nil || e.unix != "":
		return e, err
	case e.host == "":
		return e, fmt.Errorf(`%s has no host; write "127.0.0.1:%d" for this machine`, quote(s), e.port)
	case e.wildcard():
		return e, fmt.Errorf(`%s is an address to listen on, not to connect to; write "127.0.0.1:%d" for this machine`,
			quote(s), e.port)
	case e.port == 0:
		return e, fmt.Errorf("%s has port 0; a backend's port is 1 to 65535", quote(s))
	}
	return e, nil
}

// parseAddress takes an address apart that somebody listens on.
func parseAddress(s string) (endpoint, error) {
	if name, ok := strings.CutPrefix(s, "unix:"); ok {
		return parseUnix(s, name)
	}
	if err := oneAddress(s); err != nil {
		return endpoint{}, err
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return endpoint{}, badSplit(s)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || strconv.FormatUint(number, 10) != port {
		return endpoint{}, fmt.Errorf("port %s of %s is not a number from 0 to 65535", quote(port), quote(s))
	}
	host, err = parseHost(host, strings.HasPrefix(s, "["))
	return endpoint{host: host, port: int(number)}, err
}

func parseUnix(s, name string) (endpoint, error) {
	switch {
	case !strings.HasPrefix(name, "/"):
		return endpoint{}, fmt.Errorf(`%s needs an absolute path, such as "unix:/run/sluice.sock"`, quote(s))
	case len(name) > maxUnixPath:
		return endpoint{}, fmt.Errorf("the path of %s has %d bytes; a unix socket's has at most %d",
			quote(s), len(name), maxUnixPath)
	case strings.ContainsAny(name, ",;\x00"), strings.HasSuffix(name, "/"):
		return endpoint{}, fmt.Errorf("%s is %w", quote(s), errSeveral)
	}
	return endpoint{unix: path.Clean(name)}, nil
}

// oneAddress finds what is something else than one host:port.
func oneAddress(s string) error {
	switch {
	case strings.Contains(s, "://"):
		_, rest, _ := strings.Cut(s, "://")
		rest = rest[strings.LastIndexByte(rest, '@')+1:]
		rest, _, _ = strings.Cut(rest, "/")
		if _, err := parseAddress(rest); err == nil {
			return fmt.Errorf("a URL; write %s", quote(rest))
		}
		return errors.New("a URL; write host:port alone")
	case strings.ContainsAny(s, ",; \t\r\n"):
		return fmt.Errorf("%s is %w", quote(s), errSeveral)
	case strings.HasPrefix(s, "/"):
		return fmt.Errorf("%s has no port; for a unix socket write %s", quote(s), quote("unix:"+s))
	}
	return nil
}

// badSplit says why an address does not fall into host and port.
func badSplit(s string) error {
	ip, err := netip.ParseAddr(strings.Trim(s, "[]"))
	switch {
	case err == nil && ip.Is6() && s[0] != '[':
		return bareIPv6(s)
	case err == nil && ip.Is6():
		return fmt.Errorf(`%s has no port; write "[%s]:PORT"`, quote(s), ip)
	case !strings.Contains(s, ":"):
		return fmt.Errorf("%s has no port; write %s", quote(s), quote(s+":PORT"))
	case strings.Count(s, ":") > 1:
		return bareIPv6(s)
	}
	return fmt.Errorf("%s is not of the form host:port", quote(s))
}

// bareIPv6 is the mistake of leaving brackets out. What was meant is not always
// clear: 2001:db8::1:80 may end in a port or not.
func bareIPv6(s string) error {
	var meant []string
	end := strings.LastIndexByte(s, ':')
	if ip, err := netip.ParseAddr(s[:end]); err == nil {
		meant = append(meant, quote(net.JoinHostPort(ip.String(), s[end+1:])))
	}
	if ip, err := netip.ParseAddr(s); err == nil {
		meant = append(meant, quote(net.JoinHostPort(ip.String(), "PORT")))
	}
	if meant == nil {
		meant = []string{`host:port, or "[::1]:6379" for IPv6`}
	}
	return fmt.Errorf("%s is not one host:port, and an IPv6 address stands in brackets; write %s", quote(s), anyOf(meant))
}

var (
	hostForm   = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?[.]?$`)
	numberForm = regexp.MustCompile(`(^|[.])[0-9]+[.]?$`) // a name does not end like this
)

// parseHost checks a host and makes it comparable.
func parseHost(host string, brackets bool) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String(), nil
	}
	name := strings.ToLower(host)
	switch {
	case host == "" && !brackets:
		return "", nil
	case brackets:
		return "", fmt.Errorf("%s is no IPv6 address", quote(host))
	case numberForm.MatchString(name):
		return "", fmt.Errorf("%s is no IPv4 address", quote(host))
	case !hostForm.MatchString(name) || strings.Contains(name, ".."):
		return "", fmt.Errorf("%s is no host name", quote(host))
	}
	return strings.TrimSuffix(name, "."), nil
}

// wildcard reports whether e stands for every address of the machine.
func (e endpoint) wildcard() bool {
	return e.unix == "" && (e.host == "" || e.host == "0.0.0.0" || e.host == "::")
}

// loopback reports whether only this machine can reach e.
func (e endpoint) loopback() bool {
	if e.unix != "" || e.host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(e.host)
	return err == nil && ip.IsLoopback()
}

// reaches reports whether a dial of o on this machine would end at e.
func (e endpoint) reaches(o endpoint) bool {
	return e.overlaps(o) && (!e.wildcard() || o.loopback())
}

// overlaps reports whether the two cannot both be listened on. A wildcard takes
// its port on every address, of both families: so does a Go listener.
func (e endpoint) overlaps(o endpoint) bool {
	if e.unix != "" || o.unix != "" {
		return e.unix == o.unix
	}
	if e.port != o.port || e.port == 0 {
		return false
	}
	if e.wildcard() || o.wildcard() || e.host == o.host {
		return true
	}
	return e.host == "localhost" && o.loopback() || o.host == "localhost" && e.loopback()
}

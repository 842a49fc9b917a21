package pool

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

// MaxSessionLimit is the largest session limit of anything: more descriptors
// than a kernel gives to one process.
const MaxSessionLimit = 1_000_000_000

// maxUnixPath is what fits into sockaddr_un with its closing NUL.
const maxUnixPath = 107

// ErrSeveral is in the error for a text that is a list of addresses, or looks
// like one.
var ErrSeveral = errors.New("not exactly one address")

var (
	nameForm = regexp.MustCompile(`^[A-Za-z0-9_.:/\[\]-]{1,128}$`)
	hostForm = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?[.]?$`)
	// numberForm is how no name ends: what looks like it is a broken IPv4 address.
	numberForm = regexp.MustCompile(`(^|[.])[0-9]+[.]?$`)
)

// CheckName says what is wrong with a name, or with the id of a backend: they
// are labels of metrics and parts of paths in the API.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%s is no name: 1 to 128 of the characters A-Z a-z 0-9 _ . : / [ ] -", quote(name))
	}
	return nil
}

// Address is an address taken apart, in a form that compares.
type Address struct {
	Unix string // path of a unix socket, cleaned; then the rest is empty
	Host string // in lower case, literals canonical; empty is every address
	Port int
}

// CheckAddress says what is wrong with the address of a backend, and how to mend
// it.
func CheckAddress(s string) error {
	a, err := ParseAddress(s)
	switch {
	case err != nil || a.Unix != "":
		return err
	case a.Host == "":
		return fmt.Errorf(`%s has no host; write "127.0.0.1:%d" for this machine`, quote(s), a.Port)
	case a.Wildcard():
		return fmt.Errorf(`%s is an address to listen on, not to connect to; write "127.0.0.1:%d" for this machine`,
			quote(s), a.Port)
	case a.Port == 0:
		return fmt.Errorf("%s has port 0; a backend's port is 1 to 65535", quote(s))
	}
	return nil
}

// ParseAddress takes an address apart, "host:port" or "unix:/path", which may be
// one to listen on: without a host, or with port 0.
func ParseAddress(s string) (Address, error) {
	if name, ok := strings.CutPrefix(s, "unix:"); ok {
		return parseUnix(s, name)
	}
	if err := oneAddress(s); err != nil {
		return Address{}, err
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return Address{}, badSplit(s)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || strconv.FormatUint(number, 10) != port {
		return Address{}, fmt.Errorf("port %s of %s is not a number from 1 to 65535", quote(port), quote(s))
	}
	host, err = parseHost(host, strings.HasPrefix(s, "["))
	if err != nil {
		return Address{}, err
	}
	return Address{Host: host, Port: int(number)}, nil
}

// Wildcard reports whether a stands for every address of the machine.
func (a Address) Wildcard() bool {
	return a.Unix == "" && (a.Host == "" || a.Host == "0.0.0.0" || a.Host == "::")
}

func parseUnix(s, name string) (Address, error) {
	clean := path.Clean(name)
	switch {
	case !strings.HasPrefix(name, "/"):
		return Address{}, fmt.Errorf(`%s needs an absolute path, such as "unix:/run/sluice.sock"`, quote(s))
	case len(name) > maxUnixPath:
		return Address{}, fmt.Errorf("the path of %s has %d bytes; a unix socket's has at most %d",
			quote(s), len(name), maxUnixPath)
	case strings.ContainsAny(name, ",;\x00"):
		return Address{}, fmt.Errorf("%s is %w", quote(s), ErrSeveral)
	case strings.HasSuffix(name, "/"), clean == "/":
		return Address{}, fmt.Errorf("%s is a directory; write the path of a socket", quote(s))
	}
	return Address{Unix: clean}, nil
}

// oneAddress finds what is something else than one host:port.
func oneAddress(s string) error {
	switch {
	case s == "":
		return errors.New(`empty; write "host:port" or "unix:/path"`)
	case strings.Contains(s, "://"):
		_, rest, _ := strings.Cut(s, "://")
		rest = rest[strings.LastIndexByte(rest, '@')+1:] // before it may be a password
		rest, _, _ = strings.Cut(rest, "/")
		if _, err := ParseAddress(rest); err == nil {
			return fmt.Errorf("a URL; write %s", quote(rest))
		}
		return errors.New("a URL; write host:port alone")
	case strings.ContainsAny(s, ",; \t\r\n"):
		return fmt.Errorf("%s is %w", quote(s), ErrSeveral)
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
	return fmt.Errorf("%s is not one host:port, and an IPv6 address stands in brackets; write %s",
		quote(s), strings.Join(meant, " or "))
}

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

// quote shows what somebody wrote, on one line and not too much of it.
func quote(s string) string {
	const most = 100
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "..."
	}
	return strconv.Quote(s)
}

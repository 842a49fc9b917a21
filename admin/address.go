package admin

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

var (
	nameForm = regexp.MustCompile(`^[A-Za-z0-9_.:/\[\]-]{1,128}$`)
	hostForm = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?[.]?$`)
	// numberForm is how no name ends: what looks like it is a broken IPv4 address.
	numberForm = regexp.MustCompile(`(^|[.])[0-9]+[.]?$`)
)

// maxUnixPath is what fits into sockaddr_un with its closing NUL.
const maxUnixPath = 107

// checkName says what is wrong with the id of a backend.
func checkName(id string) error {
	switch {
	case id == "":
		return errors.New("is missing")
	case !nameForm.MatchString(id):
		return errors.New("must have 1 to 128 characters out of A-Z a-z 0-9 _ . : / [ ] -")
	}
	return nil
}

// checkAddress says what is wrong with the address of a backend, by the rules
// that the file has for it.
func checkAddress(s string) error {
	if s == "" {
		return errors.New(`is missing; send "host:port" or "unix:/path"`)
	}
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return checkUnix(path)
	}
	if strings.ContainsAny(s, ",; \t\r\n") || strings.Contains(s, "://") {
		return fmt.Errorf("must be exactly one host:port or unix:/path, not %q", s)
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf(`must be host:port (IPv6 as in "[::1]:6379") or unix:/path, not %q`, s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("has port %q, which is not a number from 1 to 65535", port)
	}
	return checkHost(host, strings.HasPrefix(s, "["))
}

func checkUnix(path string) error {
	switch {
	case !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/"):
		return errors.New(`needs the absolute path of a socket, such as "unix:/run/app.sock"`)
	case len(path) > maxUnixPath:
		return fmt.Errorf("has a path of %d bytes; that of a unix socket has at most %d", len(path), maxUnixPath)
	case strings.ContainsAny(path, ",;\x00"):
		return errors.New("must be the path of exactly one socket")
	}
	return nil
}

func checkHost(host string, brackets bool) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.IsUnspecified() {
			return fmt.Errorf(`has host %s, an address to listen on; send "127.0.0.1" for this machine`, host)
		}
		return nil
	}
	if brackets || !hostForm.MatchString(host) || numberForm.MatchString(host) || strings.Contains(host, "..") {
		return fmt.Errorf("has host %q, which is neither an IP address nor a name", host)
	}
	return nil
}

// Package remote asks the admin side of a balancer that runs, for the commands
// that look at one or steer it. It knows how to get there from a configuration
// or from the command line, and how errors are told; not what is asked.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/admin"
	"sluice/cmd/internal/config"
	"sluice/pool"
)

const (
	// timeout bounds one call: more than a reload may take. Chosen.
	timeout = time.Minute
	// maxAnswer bounds what is read of an answer. Chosen: a status of some 100,000
	// backends.
	maxAnswer = 64 << 20
)

// Options say where the admin side is. What is empty is taken from the
// configuration.
type Options struct {
	Config    string // path of the configuration; read only if it is needed
	Admin     string // http://host:port, host:port or unix:/path
	TokenFile string
}

// Client calls one admin side.
type Client struct {
	base  string
	token string // empty: none
	http  http.Client
}

// Refused is an answer that is an error. Its text is the balancer's own.
type Refused struct {
	Status int
	Text   string
}

// Error returns what the balancer said.
func (r *Refused) Error() string { return r.Text }

// New returns a client. It reads files and connects to nothing yet.
func New(o Options) (*Client, error) {
	var set config.Admin
	if o.Admin == "" {
		var err error
		if set, err = config.LoadAdmin(o.Config); err != nil {
			return nil, err
		}
	}
	var tokens []admin.Token
	if path := cmp.Or(o.TokenFile, set.TokenFile); path != "" {
		var err error
		if tokens, err = config.Tokens(path); err != nil {
			return nil, fmt.Errorf("token file: %w", err)
		}
	}
	c := &Client{token: best(tokens)}
	transport := &http.Transport{DisableKeepAlives: true}
	c.http = http.Client{Transport: transport, Timeout: timeout, CheckRedirect: stay}
	var err error
	c.base, err = reach(cmp.Or(o.Admin, set.Listen), transport)
	return c, err
}

// stay follows no redirect: the token is for one place alone.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// best returns a token that may change things, or else one that may read.
func best(all []admin.Token) (secret string) {
	for _, t := range all {
		if t.Operate {
			return t.Secret
		}
		secret = cmp.Or(secret, t.Secret)
	}
	return secret
}

// reach returns the URL that stands for the place at, and lets transport find
// the way if it is a unix socket.
func reach(at string, transport *http.Transport) (base string, err error) {
	if at == "" {
		return "", errors.New("[admin] listen is \"\": the admin side is off; name another by --admin")
	}
	if strings.HasPrefix(at, "http://") || strings.HasPrefix(at, "https://") {
		u, err := url.Parse(at)
		if err != nil || u.Host == "" || u.RawQuery != "" {
			return "", fmt.Errorf("%q is no URL of an admin side; write http://host:port", at)
		}
		return strings.TrimSuffix(u.String(), "/"), nil
	}
	a, err := pool.ParseAddress(at)
	switch {
	case err != nil:
		return "", fmt.Errorf("%q is no address of an admin side: %w", at, err)
	case a.Unix != "":
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", a.Unix)
		}
		return "http://localhost", nil
	case a.Port == 0:
		return "", errors.New("[admin] listen has port 0, so its port is known to the log alone (\"started\"); name it by --admin")
	case a.Wildcard():
		return fmt.Sprintf("http://127.0.0.1:%d", a.Port), nil
	}
	return "http://" + net.JoinHostPort(a.Host, fmt.Sprint(a.Port)), nil
}

// Call sends a request; body, if it is not nil, as JSON, or as it is if it is a
// []byte. It reads the answer
// into answer, unless that is nil. An answer that is an error is a *Refused.
func (c *Client) Call(ctx context.Context, method, path string, body, answer any) error {
	text, status, err := c.exchange(ctx, method, path, body)
	switch {
	case err != nil:
		return err
	case status < 200 || status > 299:
		return refused(status, text)
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s: the answer is not that of an admin side: %w", c.base, err)
	}
	return nil
}

func (c *Client) exchange(ctx context.Context, method, path string, body any) (text []byte, status int, err error) {
	var sent io.Reader
	if text, ok := body.([]byte); ok {
		sent = bytes.NewReader(text)
	} else if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, 0, err
		}
		sent = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return nil, 0, err
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	a, err := c.http.Do(r)
	if err != nil {
		return nil, 0, fmt.Errorf("no answer of the admin side; does sluice run there, or is it elsewhere (-c, --admin)? %w", err)
	}
	defer a.Body.Close()
	text, err = io.ReadAll(io.LimitReader(a.Body, maxAnswer))
	return text, a.StatusCode, err
}

// refused takes the balancer's words for an error, or else what came instead.
func refused(status int, text []byte) error {
	var problem struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &problem) == nil && problem.Error != "" {
		return &Refused{status, problem.Error}
	}
	const most = 200 // of a page that some other server sent
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return &Refused{status, fmt.Sprintf("answered with status %d: %.*s", status, most, line)}
}

package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/pool"
)

// client asks the balancer once and returns what came back.
type client func(context.Context) (answer string, err error)

// askTime bounds one client; an answer takes a thousandth of it.
const askTime = 5 * time.Second

// ask is n clients, one after the other. It says what each got; a client that
// got nothing is an error.
func (s *show) ask(ctx context.Context, n int, c client) error {
	for i := range n {
		answer, err := c(ctx)
		if err != nil {
			return fmt.Errorf("client %d of %d got no answer: %w", i+1, n, err)
		}
		s.say("  client %d: %s", i+1, answer)
	}
	return nil
}

// greet connects to the frontend and returns the backend's greeting.
func (s *show) greet(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", s.frontend)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

// get asks a backend by HTTP through /proxy.
func (s *show) get(ctx context.Context) (string, error) {
	body, err := s.fetch(ctx, "/proxy/demo")
	return strings.TrimSpace(string(body)), err
}

// fetch gets a path of the admin side.
func (s *show) fetch(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, answer.Status, body)
	}
	return body, err
}

// await polls the API until the backend is in that state.
func (s *show) await(ctx context.Context, poolName, id, state string) (pool.BackendStatus, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience,
		fmt.Errorf("backend %s of %s is not %s after %s", id, poolName, state, patience))
	defer cancel()
	for ctx.Err() == nil {
		b, err := s.backend(ctx, poolName, id)
		if err == nil && b.State == state {
			return b, nil
		}
		pause(ctx, 20*time.Millisecond)
	}
	return pool.BackendStatus{}, context.Cause(ctx)
}

// backend returns what the API says of one backend.
func (s *show) backend(ctx context.Context, poolName, id string) (pool.BackendStatus, error) {
	body, err := s.fetch(ctx, "/backends?pool="+url.QueryEscape(poolName))
	if err != nil {
		return pool.BackendStatus{}, err
	}
	var list struct {
		Backends []pool.BackendStatus `json:"backends"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return pool.BackendStatus{}, err
	}
	for _, b := range list.Backends {
		if b.ID == id {
			return b, nil
		}
	}
	return pool.BackendStatus{}, fmt.Errorf("no backend %s in %s", id, poolName)
}

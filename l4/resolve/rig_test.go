package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/l4/resolve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a cache over a resolver that a test controls. It lives in a bubble of
// synctest: its time passes only when everybody waits.
type rig struct {
	*resolve.Cache
	t     testing.TB
	began time.Time

	mu      sync.Mutex
	answers map[string]string // by name: addresses, or an odd word; see lookup
	looks   map[string]string // by name: when look-ups of it began
	failed  []string          // what the hook was told
	deaf    chan struct{}     // ends look-ups that do not hear their context
}

// bubble runs f over a new cache, whose names have the answers in text:
// "a.test=10.1.0.1 10.1.0.2; b.test=error".
func bubble(t *testing.T, text string, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, began: time.Now(), answers: map[string]string{}, looks: map[string]string{}, deaf: make(chan struct{})}
		r.Cache = resolve.New(r.lookup, func(host string, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.failed = append(r.failed, host)
		})
		r.answer(text)
		f(t, r)
		close(r.deaf)
		r.Close()
		r.Close()
	})
}

func (r *rig) answer(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, entry := range strings.Split(text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
		r.answers[name] = value
	}
}

// lookup answers as the name's text says: addresses, after a time if the text
// begins with one; "error"; "hang" until the look-up's time is over; "deaf": for
// even longer.
func (r *rig) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	r.looks[host] = strings.TrimSpace(r.looks[host] + " " + r.since().String())
	words := strings.Fields(r.answers[host])
	r.mu.Unlock()
	if len(words) > 0 {
		if d, err := time.ParseDuration(words[0]); err == nil {
			time.Sleep(d)
			words = words[1:]
		}
	}
	var addrs []netip.Addr
	for _, w := range words {
		switch w {
		case "error":
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		case "odd":
			return nil, errOdd
		case "hang":
			<-ctx.Done()
			return nil, ctx.Err()
		case "deaf":
			<-r.deaf
			return nil, errOdd
		}
		addrs = append(addrs, netip.MustParseAddr(w))
	}
	return addrs, nil
}

var errOdd = errors.New("something odd")

func (r *rig) since() time.Duration { return time.Since(r.began) }

// ask returns the addresses of a name, or "error". It fails the test if it
// waited for another time than that.
func (r *rig) ask(host string, wait time.Duration) string {
	r.t.Helper()
	return r.askFor(host, 2*time.Second, wait)
}

// askFor is ask by one who has patience for so long.
func (r *rig) askFor(host string, patience, wait time.Duration) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	addrs, err := r.Lookup(ctx, host)
	if took := time.Since(began); took != wait {
		r.t.Errorf("at %v: asking for %s took %v, want %v", r.since(), host, took, wait)
	}
	if (err == nil) != (len(addrs) > 0) {
		r.t.Errorf("at %v: %s has addresses %v and error %v", r.since(), host, addrs, err)
	}
	if err != nil {
		var dns *net.DNSError
		if !errors.As(err, &dns) || dns.Name != host {
			r.t.Errorf("at %v: %s: the error is %#v, want a *net.DNSError of it", r.since(), host, err)
		}
		return "error"
	}
	return strings.Trim(fmt.Sprint(addrs), "[]")
}

// mustAnswer asks, without a wait.
func (r *rig) mustAnswer(host, want string) {
	r.t.Helper()
	if got := r.ask(host, 0); got != want {
		r.t.Errorf("at %v: %s is at %s, want %s", r.since(), host, got, want)
	}
}

// mustLook checks when look-ups of a name began so far.
func (r *rig) mustLook(host, want string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looks[host] != want {
		r.t.Errorf("at %v: %s was looked up at %s, want %s", r.since(), host, r.looks[host], want)
	}
}

// told returns the names whose failed look-ups the hook was told of.
func (r *rig) told() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failed)
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

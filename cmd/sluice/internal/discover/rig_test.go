package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/cmd/sluice/internal/discover"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a set of names over a source that a test controls, in a bubble of
// synctest.
type rig struct {
	*discover.Names
	t      testing.TB
	began  time.Time
	source *discover.Source

	mu      sync.Mutex
	answers map[string]string // by host, see lookup
	looks   map[string]string // by host: when questions for IPv4 or SRV came
	told    []string          // what the hooks were told
}

func bubble(t *testing.T, answers string, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, began: time.Now(), answers: map[string]string{}, looks: map[string]string{}}
		r.Names = discover.New(discover.Hooks{
			Answered: func(k discover.Key) { r.note("answered " + k.Host) },
			Failed:   func(k discover.Key, err error) { r.note("failed " + k.Host + ": " + err.Error()) },
		})
		r.source = &discover.Source{IP: r.ip, SRV: r.srv}
		r.answer(answers)
		f(t, r)
		r.Close()
		r.Close()
	})
}

func (r *rig) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, text)
}

// count returns how many of what was told begin with text.
func (r *rig) count(text string) (n int) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.told {
		if strings.HasPrefix(s, text) {
			n++
		}
	}
	return n
}

// answer sets answers: "a.test=10.1.0.1 10.1.0.2; b.test=fail".
func (r *rig) answer(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, entry := range strings.Split(text, ";") {
		host, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
		r.answers[host] = value
	}
}

var errFail = &net.DNSError{Err: "server misbehaving", IsTemporary: true}

// words returns those of the answer for host. A word beginning with "4" or "6" and
// a colon is for that family alone: "6:fail".
func (r *rig) words(ctx context.Context, family, host string) (words []string, err error) {
	r.mu.Lock()
	if family != "6" {
		r.looks[host] = strings.TrimSpace(r.looks[host] + " " + time.Since(r.began).Truncate(time.Second).String())
	}
	text := r.answers[host]
	r.mu.Unlock()
	for _, w := range strings.Fields(text) {
		if of, rest, ok := strings.Cut(w, ":"); ok && (of == "4" || of == "6") {
			if of != family {
				continue
			}
			w = rest
		}
		switch w {
		case "fail":
			return nil, errFail
		case "odd":
			return nil, errors.New("something odd")
		case "none":
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		case "hang":
			<-ctx.Done()
			return nil, ctx.Err()
		}
		words = append(words, w)
	}
	return words, nil
}

func (r *rig) ip(ctx context.Context, network, host string) (list []netip.Addr, err error) {
	words, err := r.words(ctx, network[2:], host)
	for _, w := range words {
		if a := netip.MustParseAddr(w); (network == "ip4") == a.Unmap().Is4() {
			list = append(list, a)
		}
	}
	if len(list) == 0 && err == nil {
		err = &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return list, err
}

// srv takes records written as target/port/priority/weight.
func (r *rig) srv(ctx context.Context, name string) (list []*net.SRV, err error) {
	words, err := r.words(ctx, "srv", name)
	for _, w := range words {
		p := strings.Split(w, "/")
		port, _ := strconv.Atoi(p[1])
		priority, _ := strconv.Atoi(p[2])
		weight, _ := strconv.Atoi(p[3])
		list = append(list, &net.SRV{Target: p[0], Port: uint16(port), Priority: uint16(priority), Weight: uint16(weight)})
	}
	return list, err
}

// use has a name looked up every so often.
func (r *rig) use(host string, every time.Duration) discover.Key {
	k := discover.Key{Pool: "p", Host: host, SRV: strings.HasPrefix(host, "_")}
	r.Use(map[discover.Key]discover.Policy{k: {Every: every, Source: r.source}})
	synctest.Wait()
	return k
}

// found returns what a name stands for, as a text.
func (r *rig) found(k discover.Key) string {
	synctest.Wait()
	list, _ := r.Found(k)
	var words []string
	for _, f := range list {
		w := f.Addr.String()
		if k.SRV {
			w = netip.AddrPortFrom(f.Addr, f.Port).String() + fmt.Sprintf("/%d/%d", f.Priority, f.Weight)
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func (r *rig) mustFind(k discover.Key, want string) {
	r.t.Helper()
	if got := r.found(k); got != want {
		r.t.Errorf("after %v: %s stands for %q, want %q", time.Since(r.began), k.Host, got, want)
	}
}

func (r *rig) asked(host string) string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looks[host]
}

package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

const (
	maxRecords  = 4 * MaxFound // of one answer that are looked at
	maxParallel = 16           // look-ups of targets at the same time
)

// Source is where names are looked up.
type Source struct {
	// IP returns the addresses of host of one family: network is ip4 or ip6.
	IP func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// SRV returns the records of exactly that name.
	SRV func(ctx context.Context, name string) ([]*net.SRV, error)
}

var (
	errNoAddress = errors.New("the answer has no address")
	errNoService = errors.New("the records name no server")
)

// ask looks a name up. The answer has the parts of known that could not be looked
// up: only all of them together are an error.
func (s Source) ask(ctx context.Context, k Key, known []Found) ([]Found, error) {
	if k.SRV {
		return s.service(ctx, k.Host, known)
	}
	addrs, _, err := s.host(ctx, k.Host, known)
	return addrs, err
}

// host returns the addresses of a host as they are in an answer. Each family is a
// question of its own: one that fails takes nothing from the other. none says that
// the error is the server's word for it: there is no such host.
func (s Source) host(ctx context.Context, host string, known []Found) (found []Found, none bool, err error) {
	type family struct {
		network string
		has     func(netip.Addr) bool
		addrs   []netip.Addr
		err     error
	}
	both := []*family{{network: "ip4", has: netip.Addr.Is4}, {network: "ip6", has: netip.Addr.Is6}}
	var all sync.WaitGroup
	for _, f := range both {
		all.Go(func() { f.addrs, f.err = s.IP(ctx, f.network, host) })
	}
	all.Wait()
	none = true
	answered := false
	for _, f := range both {
		for _, a := range f.addrs[:min(len(f.addrs), maxRecords)] {
			if a = a.Unmap().WithZone(""); f.err == nil && f.has(a) && !a.IsUnspecified() {
				found, answered = append(found, Found{Addr: a}), true
			}
		}
		if f.err != nil && !notFound(f.err) {
			err, none = f.err, false
		}
	}
	switch {
	case !answered && err == nil:
		return nil, true, firstOf(both[0].err, both[1].err, errNoAddress)
	case !answered:
		return nil, none, err
	}
	for _, f := range both {
		if f.err != nil && !notFound(f.err) {
			found = append(found, of(known, f.has)...)
		}
	}
	return found, false, nil
}

// of returns what is known of one family.
func of(known []Found, has func(netip.Addr) bool) (list []Found) {
	for _, f := range known {
		if has(f.Addr) {
			list = append(list, f)
		}
	}
	return list
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// notFound reports whether a server said that there is nothing: that is an answer.
func notFound(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// service returns the servers of SRV records. The address of a target that cannot
// be looked up stays what it was.
func (s Source) service(ctx context.Context, name string, known []Found) ([]Found, error) {
	records, err := s.SRV(ctx, name)
	records = usable(records)
	if len(records) == 0 {
		return nil, firstOf(err, errNoService)
	}
	hosts := s.targets(ctx, records, known)
	var list []Found
	for _, r := range records {
		h := hosts[r.Target]
		err = firstOf(err, h.err)
		for _, a := range h.addrs {
			list = append(list, Found{Addr: a, Port: r.Port, Priority: r.Priority, Weight: r.Weight, Target: r.Target})
		}
	}
	if len(list) == 0 {
		return nil, firstOf(err, errNoService)
	}
	return list, nil
}

// usable returns the records that name a server, sorted and bounded in number: a
// resolver shuffles them.
func usable(records []*net.SRV) []*net.SRV {
	records = slices.DeleteFunc(slices.Clone(records), func(r *net.SRV) bool {
		return r.Port == 0 || strings.Trim(r.Target, ".") == ""
	})
	slices.SortStableFunc(records, func(a, b *net.SRV) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Port, b.Port))
	})
	return records[:min(len(records), maxRecords)]
}

// target is the host of a record.
type target struct {
	addrs []netip.Addr
	err   error
}

// targets looks each target of the records up once.
func (s Source) targets(ctx context.Context, records []*net.SRV, known []Found) map[string]*target {
	all := map[string]*target{}
	turn := make(chan struct{}, maxParallel)
	var waits sync.WaitGroup
	for _, r := range records {
		if all[r.Target] != nil {
			continue
		}
		t := &target{}
		all[r.Target] = t
		turn <- struct{}{}
		waits.Go(func() {
			defer func() { <-turn }()
			t.addrs, t.err = s.target(ctx, r.Target, known)
		})
	}
	waits.Wait()
	return all
}

// target returns the addresses of one target, those that are known if there is no
// answer.
func (s Source) target(ctx context.Context, name string, known []Found) (addrs []netip.Addr, err error) {
	before := slices.DeleteFunc(slices.Clone(known), func(f Found) bool { return f.Target != name })
	found, none, err := s.host(ctx, name, before)
	if err != nil && !none {
		found = before
	}
	for _, f := range found {
		if !slices.Contains(addrs, f.Addr) {
			addrs = append(addrs, f.Addr)
		}
	}
	if err != nil {
		err = fmt.Errorf("target %s: %w", name, err)
	}
	return addrs, err
}

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"sluice/admin"
	"sluice/l4/l4test"
)

// fleet is tagged backends on several addresses of this machine and one port.
type fleet struct {
	t    *testing.T
	port string
	all  map[string]*l4test.Backend // by ip
}

// muster starts a backend on each of these addresses, tagged with it.
func muster(t *testing.T, ips ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, port: "0", all: map[string]*l4test.Backend{}}
	for _, ip := range ips {
		f.add(ip)
	}
	return f
}

func (f *fleet) add(ip string) {
	f.t.Helper()
	b := l4test.ServeAt(f.t, net.JoinHostPort(ip, f.port), l4test.Tag(ip))
	_, f.port, _ = net.SplitHostPort(b.Addr)
	f.all[ip] = b
}

// resolving is the head of a configuration with a resolver.
func resolving(text string, s *nameServer) string {
	return fmt.Sprintf("[process]\nresolver = %q\n", s.addr) + text
}

// group is the entry of a name that stands for backends.
func group(id, name, resolve string) string {
	return fmt.Sprintf("%s=%s\nresolve = %q", id, name, resolve)
}

// ids returns the ids of the backends of a pool that are not draining out.
func (d *daemon) ids(poolName string) string {
	d.t.Helper()
	var ids []string
	for _, p := range d.view().Pools {
		for _, b := range p.Backends {
			if p.Name == poolName && b.Admin != "removing" {
				ids = append(ids, b.ID)
			}
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// awaitIDs waits until the pool p has these backends.
func (d *daemon) awaitIDs(want string) {
	d.t.Helper()
	got := ""
	defer func() {
		if got != want {
			d.t.Logf("got %s", got)
		}
	}()
	eventually(d.t, "backends "+want, func() bool {
		got = d.ids("p")
		return got == want
	})
}

// names returns what is shown of the names of pool p.
func (d *daemon) names() (list []admin.Name) {
	d.t.Helper()
	var p struct{ Names []admin.Name }
	if err := json.Unmarshal([]byte(d.must("GET", "/pools/p", "")), &p); err != nil {
		d.t.Fatal(err)
	}
	return p.Names
}

// reasons returns why backends of that id changed to a state, as logged.
func (d *daemon) reasons(id, to string) (list []string) {
	for _, line := range d.lines("backend " + to) {
		if line["backend"] == id {
			list = append(list, line["reason"].(string))
		}
	}
	return list
}

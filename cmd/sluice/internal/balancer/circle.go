package balancer

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"sluice/admin"
	"sluice/cmd/internal/config"
	"sluice/pool"
)

// add adds a backend by the API, unless the process itself listens there. It
// holds b.mu, so that noCircle of a reload sees every backend that was let in.
//
// This is stricter than the file, which may lead from one frontend to another:
// what the API adds is not checked against the pools as a whole.
func (b *Balancer) add(p *pool.Pool, spec pool.Spec) error {
	own := ownHosts()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sockets {
		// As configured it may be a name, and its port may be 0.
		if config.Reaches(s.addr(), spec.Address, own) || config.Reaches(s.listen, spec.Address, own) {
			return fmt.Errorf("%s is where %s of this process listens: %w", spec.Address, s.who(), admin.ErrOwnAddress)
		}
	}
	return p.Add(spec)
}

// noCircle refuses to open a socket where the API has added a backend.
func (b *Balancer) noCircle(p *plan) error {
	if len(p.open) == 0 {
		return nil
	}
	var errs []error
	own := ownHosts()
	for _, c := range p.config.Pools {
		for _, s := range b.addedTo(c) {
			for _, w := range p.open {
				if config.Reaches(w.listen, s.Address, own) {
					errs = append(errs, fmt.Errorf("%s: listen on %s: it is the address of backend %s of pool %s, which the API added; "+
						"choose another address, or DELETE that backend first", w.who(), w.listen, s.ID, c.Name))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// addedTo returns the backends that the API added to a pool and that c leaves
// alone.
func (b *Balancer) addedTo(c config.Pool) (added []pool.BackendStatus) {
	w := b.pools[c.Name]
	if w == nil {
		return nil
	}
	ours := make(map[string]bool) // ids and addresses of the file, which win
	for _, s := range c.Config.Backends {
		ours[s.ID], ours[s.Address] = true, true
	}
	for _, s := range w.pool.Status().Backends {
		if s.Origin == "api" && s.Admin != "removing" && !ours[s.ID] && !ours[s.Address] {
			added = append(added, s)
		}
	}
	return added
}

// ownHosts lists the names and addresses of this machine, as far as it tells.
func ownHosts() (own []string) {
	if name, err := os.Hostname(); err == nil {
		own = append(own, strings.ToLower(name))
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			own = append(own, n.IP.String())
		}
	}
	return own
}

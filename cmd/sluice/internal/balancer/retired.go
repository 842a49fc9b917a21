package balancer

import (
	"time"

	"sluice/cmd/internal/config"
	"sluice/l4"
)

// remembered is how long a removed frontend can come back with its counters, and
// a removed pool with the counters and the health of its backends: as long as a
// pool remembers a removed backend.
const remembered = 10 * time.Minute

// retired holds what the file no longer names but what may still be needed:
// frontends with sessions or counters, and pools whose backends are remembered.
// The zero value is ready to use.
type retired struct {
	frontends map[string]retiredFrontend
	pools     map[string]retiredPool
}

type retiredFrontend struct {
	*l4.Frontend
	since time.Time
}

type retiredPool struct {
	*watchedPool
	since time.Time
}

// frontend takes the frontend of that name out; nil if there is none.
func (r *retired) frontend(name string) *l4.Frontend {
	f := r.frontends[name].Frontend
	delete(r.frontends, name)
	return f
}

// pool takes the pool of that name out; nil if there is none.
func (r *retired) pool(name string) *watchedPool {
	p := r.pools[name].watchedPool
	delete(r.pools, name)
	return p
}

// prune forgets what is over.
func (r *retired) prune(now time.Time) {
	for name, f := range r.frontends {
		if now.Sub(f.since) > remembered && f.Status().Active == 0 {
			delete(r.frontends, name)
		}
	}
	for name, p := range r.pools {
		if now.Sub(p.since) > remembered && len(p.pool.Status().Backends) == 0 {
			delete(r.pools, name)
		}
	}
}

// retire moves what c does not name out of the way. Its sessions go on. A pool
// is closed only here, when no frontend chooses from it any more.
func (b *Balancer) retire(c *config.Config) {
	names := make(map[string]bool)
	for _, f := range c.Frontends {
		names[f.Name] = true
	}
	for name, f := range b.frontends {
		if !names[name] {
			put(&b.retired.frontends, name, retiredFrontend{f, time.Now()})
			delete(b.frontends, name)
		}
	}
	clear(names)
	for _, p := range c.Pools {
		names[p.Name] = true
	}
	for name, w := range b.pools {
		if !names[name] {
			w.close()
			put(&b.retired.pools, name, retiredPool{w, time.Now()})
			delete(b.pools, name)
		}
	}
	b.retired.prune(time.Now())
}

func put[V any](m *map[string]V, name string, v V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[name] = v
}

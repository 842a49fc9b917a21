package balancer

import (
	"fmt"
	"slices"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/logs"
	"sluice/cmd/sluice/internal/state"
	"sluice/pool"

	"go.uber.org/zap"
)

// restored is what an earlier process kept of the API's changes, during a start.
type restored struct {
	kept  map[string]pool.Overrides // by pool; taken out as the pools are made
	lines []string                  // of what does not stand
}

// openState reads what an earlier process kept, for the pools to be made of c.
func (b *Balancer) openState(c *config.Config) {
	b.state, b.restored.kept = state.Open(state.Options{
		Config: b.options.File,
		Source: b.overrides,
		Log:    b.log,
	}, b.statePlace(c))
}

// statePlace returns where the state is kept under c. Without a file there is
// nothing that it could belong to.
func (b *Balancer) statePlace(c *config.Config) string {
	if b.options.File == "" {
		return ""
	}
	return state.Place(c.Process.StateFile, b.options.File)
}

// overrides returns what the API changed and is to be kept, by pool.
func (b *Balancer) overrides() map[string]pool.Overrides {
	all := make(map[string]pool.Overrides)
	for _, p := range b.view.Load().pools {
		if o := p.Overrides(); !o.Empty() {
			all[p.Name()] = o
		}
	}
	return all
}

// take returns what was kept of a pool, once.
func (r *restored) take(name string) pool.Overrides {
	o := r.kept[name]
	delete(r.kept, name)
	return o
}

// vet drops the backends that the API had added where this process listens now.
// A reload refuses to listen there; a start must not fail for it.
func (r *restored) vet(opened []*socket) {
	if len(r.kept) == 0 {
		return
	}
	own := ownHosts()
	for name, o := range r.kept {
		o.Backends = slices.DeleteFunc(o.Backends, func(o pool.BackendOverride) bool {
			at := o.Spec.Address
			i := slices.IndexFunc(opened, func(s *socket) bool {
				return config.Reaches(s.addr(), at, own) || config.Reaches(s.listen, at, own)
			})
			if !o.Added || i < 0 {
				return false
			}
			r.lines = append(r.lines, fmt.Sprintf("pool %s: backend %s removed (%s), since %s listens there now",
				name, o.Spec.ID, at, opened[i].who()))
			return true
		})
		r.kept[name] = o
	}
}

// tellRestored writes what a start took over, and what the file has won.
func (b *Balancer) tellRestored() {
	for name := range b.restored.kept {
		b.restored.lines = append(b.restored.lines, "pool "+name+": removed, and what the API had set of it is forgotten")
	}
	count := 0
	for _, p := range b.view.Load().pools {
		count += len(p.Differences())
	}
	if count > 0 || len(b.restored.lines) > 0 {
		b.log.Info("runtime changes restored", zap.String(logs.Path, b.state.Status().Path),
			zap.Int(logs.Count, count), zap.Strings(logs.Changes, b.restored.lines))
	}
	b.restored = restored{}
}

// unlike lists every difference between the file in force and what runs.
func (b *Balancer) unlike() []pool.Difference {
	v := b.view.Load()
	list := []pool.Difference{}
	for _, key := range b.restartNeeded(v.config) {
		d := pool.Difference{Key: key, File: v.config.Process.Engine, Running: b.engine.Name(), Origin: "restart"}
		if key == "process.loops" {
			d.File, d.Running = v.config.Process.Loops, b.engine.Loops()
		}
		list = append(list, d)
	}
	for _, p := range v.pools {
		list = append(list, p.Differences()...)
	}
	return list
}

package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/pool"
	"sluice/pool/balance"
)

// version is that of the file's form. A file of another is not read.
const version = 1

// document is the file.
type document struct {
	Version int                `json:"version"`
	Config  string             `json:"config"` // absolute path of the configuration that it belongs to
	Pools   map[string]onePool `json:"pools"`
}

type onePool struct {
	Strategy *strategy `json:"strategy,omitempty"`
	Backends []backend `json:"backends,omitempty"`
	Deleted  []deleted `json:"deleted,omitempty"`
}

type strategy struct {
	named
	File  named     `json:"file"` // that it overrode
	Since time.Time `json:"since"`
}

type named struct {
	Name  string `json:"name"`
	Ties  string `json:"ties,omitempty"`
	Bound int    `json:"hash_balance_factor,omitempty"`
}

// spec is what a file, or the API, said of a backend.
type spec struct {
	Weight      int    `json:"weight"`
	MaxSessions int    `json:"max_sessions"`
	SendProxy   int    `json:"send_proxy,omitempty"`
	Backup      int    `json:"backup,omitempty"`
	Zone        string `json:"zone,omitempty"`
	Name        string `json:"name,omitempty"`
}

type backend struct {
	ID          string `json:"id"`
	Address     string `json:"address"`
	Added       bool   `json:"added,omitempty"` // by the API
	Weight      int    `json:"weight"`
	MaxSessions int    `json:"max_sessions"`
	State       string `json:"state"`
	File        spec   `json:"file"` // that it overrode; of one that was added, what it was added with
	Since       since  `json:"since"`
}

type since struct {
	Added       time.Time `json:"added,omitzero"`
	Weight      time.Time `json:"weight,omitzero"`
	MaxSessions time.Time `json:"max_sessions,omitzero"`
	State       time.Time `json:"state,omitzero"`
}

type deleted struct {
	ID      string    `json:"id"`
	Address string    `json:"address"`
	File    spec      `json:"file"`
	Since   time.Time `json:"since"`
}

// owner returns the configuration that text belongs to, if it can be told, and
// an error if the text is none that this program reads.
func owner(path string, text []byte) (string, error) {
	var head struct {
		Version int    `json:"version"`
		Config  string `json:"config"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return "", broken{fmt.Errorf("%s is broken: %w", path, err)}
	}
	if head.Version != version || head.Config == "" {
		return head.Config, broken{fmt.Errorf("%s has version %d, this program reads %d", path, head.Version, version)}
	}
	return head.Config, nil
}

// encode returns the file; nil if there is nothing to keep.
func encode(config string, all map[string]pool.Overrides) []byte {
	if len(all) == 0 {
		return nil
	}
	d := document{version, config, make(map[string]onePool)}
	for name, o := range all {
		d.Pools[name] = poolOf(o)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic("state: plain values have no JSON: " + err.Error())
	}
	return append(text, '\n')
}

func poolOf(o pool.Overrides) (p onePool) {
	if s := o.Strategy; s != nil {
		p.Strategy = &strategy{nameOf(s.InForce), nameOf(s.File), s.Since}
	}
	for _, b := range o.Backends {
		p.Backends = append(p.Backends, backend{
			ID: b.Spec.ID, Address: b.Spec.Address, Added: b.Added,
			Weight: b.Weight, MaxSessions: b.MaxSessions, State: b.State.String(),
			File: specOf(b.Spec), Since: since(b.Since),
		})
	}
	for _, g := range o.Deleted {
		p.Deleted = append(p.Deleted, deleted{g.Spec.ID, g.Spec.Address, specOf(g.Spec), g.Since})
	}
	return p
}

func nameOf(s pool.Strategy) named { return named{s.Name, s.Ties, s.Bound} }

func specOf(s pool.Spec) spec {
	return spec{s.Weight, s.MaxSessions, s.SendProxy, s.Backup, s.Zone, s.Name}
}

// decode reads the file. An error means that it is broken.
func decode(text []byte) (map[string]pool.Overrides, error) {
	var d document
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	err := from.Decode(&d)
	if _, more := from.Token(); err == nil && more != io.EOF {
		err = errors.New("more follows its end")
	}
	all := make(map[string]pool.Overrides)
	for name, p := range d.Pools {
		if err != nil {
			break
		}
		if all[name], err = p.overrides(); err != nil {
			err = fmt.Errorf("pool %q: %w", name, err)
		}
	}
	if err != nil {
		return nil, broken{fmt.Errorf("the state file is broken: %w", err)}
	}
	return all, nil
}

func (p onePool) overrides() (o pool.Overrides, err error) {
	if p.Strategy != nil {
		if o.Strategy, err = p.Strategy.override(); err != nil {
			return o, err
		}
	}
	seen := map[string]bool{}
	for _, b := range p.Backends {
		if seen[b.ID] {
			return o, fmt.Errorf("backend %q is there twice", b.ID)
		}
		seen[b.ID] = true
		back, err := b.override()
		if err != nil {
			return o, fmt.Errorf("backend %q: %w", b.ID, err)
		}
		o.Backends = append(o.Backends, back)
	}
	for _, g := range p.Deleted {
		s, err := g.File.of(g.ID, g.Address)
		if err != nil {
			return o, fmt.Errorf("backend %q: %w", g.ID, err)
		}
		o.Deleted = append(o.Deleted, pool.Deletion{Spec: s, Since: g.Since})
	}
	return o, nil
}

func (s strategy) override() (*pool.StrategyOverride, error) {
	is, err := s.strategy()
	if err != nil {
		return nil, err
	}
	was, err := s.File.strategy()
	return &pool.StrategyOverride{InForce: is, File: was, Since: s.Since}, err
}

func (n named) strategy() (pool.Strategy, error) {
	s, err := balance.ByName(n.Name, n.Ties)
	return balance.Bounded(s, n.Bound), err
}

func (b backend) override() (pool.BackendOverride, error) {
	s, err := b.File.of(b.ID, b.Address)
	o := pool.BackendOverride{
		Spec: s, Added: b.Added, Weight: b.Weight, MaxSessions: b.MaxSessions, Since: pool.Since(b.Since),
	}
	err = errors.Join(err, spec{Weight: b.Weight, MaxSessions: b.MaxSessions}.check())
	for _, o.State = range []pool.Admin{pool.Ready, pool.Drain, pool.Maint} {
		if o.State.String() == b.State {
			return o, err
		}
	}
	return o, errors.Join(err, fmt.Errorf("state %q is none", b.State))
}

// of returns the whole spec, if it is one that a file could have.
func (s spec) of(id, address string) (pool.Spec, error) {
	err := errors.Join(pool.CheckName(id), pool.CheckAddress(address), s.check())
	return pool.Spec{
		ID: id, Address: address, Weight: s.Weight, MaxSessions: s.MaxSessions, SendProxy: s.SendProxy,
		Backup: s.Backup, Zone: s.Zone, Name: s.Name,
	}, err
}

func (s spec) check() error {
	switch {
	case s.Weight < 0 || s.Weight > pool.MaxWeight:
		return fmt.Errorf("weight %d is out of range", s.Weight)
	case s.MaxSessions < 0 || s.MaxSessions > pool.MaxSessionLimit:
		return fmt.Errorf("max_sessions %d is out of range", s.MaxSessions)
	case s.SendProxy < 0 || s.SendProxy > 2:
		return fmt.Errorf("send_proxy %d is no version", s.SendProxy)
	}
	return nil
}

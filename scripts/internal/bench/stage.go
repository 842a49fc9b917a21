//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sluice/scripts/internal/bench/load"
	"sluice/scripts/internal/bench/proc"
	"sluice/scripts/internal/bench/serve"
	"sluice/scripts/internal/bench/subject"
)

// without is the opponent of a feature: the subject that has it off.
const without = "off"

// contestant is a subject in a scenario. Two may be the same program.
type contestant struct {
	name    string // in the report
	subject string
	feature subject.Feature
	pairs   int
}

// stage is a scenario that is set up.
type stage struct {
	*bench
	*scenario
	setup   subject.Setup
	redis   []string // the redis-servers; nil if echo stands in for them
	running map[string]*subject.Running
	skipped map[string]string
	notes   []string
	first   contestant // the subject
	rate    float64    // of an open loop
}

// open starts the services of a scenario.
func (b *bench) open(ctx context.Context, s *scenario) (*stage, error) {
	st := &stage{
		bench: b, scenario: s,
		setup: subject.Setup{
			Group: b.group, Dir: b.dir, Backends: map[string][]string{}, Cores: b.cores, Files: b.files, Paths: b.paths,
		},
		running: map[string]*subject.Running{},
		skipped: map[string]string{},
	}
	if s.ordinary {
		nobody, err := ordinaryUser()
		if err != nil {
			return nil, err
		}
		st.setup.User = nobody
	}
	if slices.Contains(s.services, redisService) && b.redisServer != "" && b.redisBenchmark != "" {
		return st, st.openRedis(ctx)
	}
	all, err := b.startServices(ctx)
	if err != nil {
		return nil, err
	}
	for _, service := range s.services {
		if service == redisService {
			st.note("redis is not installed: the requests are of our own clients, to an echo")
			service = serve.Echo
		}
		st.setup.Backends[service] = all[service]
	}
	return st, nil
}

// ordinaryUser returns who processes run as that are not to be root.
func ordinaryUser() (*proc.User, error) {
	if os.Getuid() != 0 {
		return nil, subject.Unavailable("this is an ordinary user already: the scenario without -user is the same")
	}
	return &proc.User{UID: nobody, GID: nobody}, nil
}

// nobody is the user and group that own nothing on every Linux.
const nobody = 65534

// startServices starts the process behind the subjects.
func (b *bench) startServices(ctx context.Context) (serve.Addresses, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe to the services: %w", err)
	}
	defer r.Close()
	p, err := b.group.Start(proc.Command{
		Path: b.paths.Bench, Args: []string{roleServices}, Stdout: w, Log: filepath.Join(b.dir, "services.log"),
	})
	w.Close()
	if err != nil {
		return nil, err
	}
	if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	var a serve.Addresses
	if err := json.NewDecoder(r).Decode(&a); err != nil {
		return nil, errors.Join(fmt.Errorf("addresses of the services: %w", err), p.Alive())
	}
	return a, ctx.Err()
}

// openRedis starts two redis-servers.
func (st *stage) openRedis(ctx context.Context) error {
	for i := range 2 {
		address, err := st.startRedis(ctx, i)
		if err != nil {
			return fmt.Errorf("start redis-server: %w", err)
		}
		st.redis = append(st.redis, address)
	}
	st.setup.Backends[redisService] = st.redis
	return nil
}

func (b *bench) startRedis(ctx context.Context, i int) (string, error) {
	var last error
	for range 5 {
		address, port, err := subject.FreeAddress()
		if err != nil {
			return "", err
		}
		p, err := b.group.Start(proc.Command{
			Path: b.redisServer, Dir: b.dir, Log: filepath.Join(b.dir, fmt.Sprintf("redis-%d.log", i)),
			Args: []string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--maxclients", "5000"},
		})
		if err != nil {
			return "", err
		}
		if last = subject.Await(ctx, p, address); last == nil {
			return address, load.PrepareRedis(address)
		}
		last = errors.Join(last, p.End())
	}
	return "", last
}

// contestants returns who takes part, the subject first.
func (st *stage) contestants(a string) []contestant {
	most := st.options.pairs
	if st.fresh {
		// A slope hardly moves, and one takes as long as five rounds.
		most = max(1, most/4)
	}
	few := max(1, most/3)
	all := []contestant{{name: a, subject: a, feature: st.feature}, {name: subject.Self, subject: a, feature: st.feature, pairs: most}}
	if st.feature != "" {
		all[0].name = a + " + " + string(st.feature)
		return append(all, contestant{name: without, subject: a, pairs: most})
	}
	add := func(names []string, pairs int) {
		for _, name := range names {
			wanted := st.options.against == nil || slices.Contains(st.options.against, name)
			if name == a || !wanted || name == subject.Base && st.paths.Base == "" {
				continue
			}
			all = append(all, contestant{name: name, subject: name, pairs: pairs})
		}
	}
	add(st.against, most)
	if st.options.mode != "smoke" {
		add(st.beside, few)
	}
	return all
}

// start starts a contestant.
func (st *stage) start(ctx context.Context, c contestant) (*subject.Running, error) {
	setup := st.setup
	setup.Feature = c.feature
	return subject.Start(ctx, c.subject, setup)
}

// startAll starts the contestants and returns those that can run here. Only the
// first must.
func (st *stage) startAll(ctx context.Context, all []contestant) ([]contestant, error) {
	var able []contestant
	for i, c := range all {
		r, err := st.start(ctx, c)
		if err != nil {
			if i == 0 || ctx.Err() != nil {
				return nil, err
			}
			st.skipped[c.name] = err.Error()
			continue
		}
		able = append(able, c)
		if st.fresh {
			err = r.Stop()
		} else {
			st.running[c.name] = r
		}
		if err != nil {
			return nil, err
		}
	}
	return able, nil
}

// note adds something that a reader of the figures has to know, once.
func (st *stage) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(st.notes, text) {
		st.notes = append(st.notes, text)
	}
}

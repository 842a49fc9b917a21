//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"slices"

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
	return st, st.openServices(ctx)
}

// openServices starts what stands behind the subjects of the scenario.
func (st *stage) openServices(ctx context.Context) error {
	var own serve.Addresses
	for _, service := range st.services {
		var err error
		switch {
		case service == webService && (st.wrk == "" || st.paths.Nginx == ""):
			return subject.Unavailable("wrk or nginx is not installed")
		case service == webService:
			st.setup.Backends[service], err = st.startWeb(ctx)
		case service == redisService && st.redisServer != "" && st.redisBenchmark != "":
			st.redis, err = st.startRedis(ctx)
			st.setup.Backends[service] = st.redis
		default:
			if service == redisService {
				st.note("redis is not installed: the requests are of our own clients, to an echo")
				service = serve.Echo
			}
			if own == nil {
				own, err = st.startServices(ctx)
			}
			st.setup.Backends[service] = own[service]
		}
		if err != nil {
			return err
		}
	}
	return nil
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

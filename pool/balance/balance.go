// Package balance holds the algorithms that choose a backend, one file each.
//
// A picker is built over the members that are eligible now and is replaced when
// that set changes; what has to survive (the position of a rotation) is handed
// from the old picker to the new one. The package knows nothing of health,
// sockets or configuration files.
package balance

import (
	"fmt"
	"strings"

	"sluice/pool"
)

// Names lists the strategies, for messages.
func Names() []string {
	return []string{"round_robin", "least_connections", "random_two", "source_hash", "first"}
}

// ByName returns the strategy of that name. ties is "first", "rotate", or empty
// for the default (first). Unknown names are an error that lists the known ones.
func ByName(name, ties string) (pool.Strategy, error) {
	switch ties {
	case "":
		ties = "first"
	case "first", "rotate":
	default:
		return pool.Strategy{}, fmt.Errorf("unknown ties %q: it is first or rotate", ties)
	}
	switch name {
	case "round_robin":
		return pool.Strategy{Name: name, Build: buildRoundRobin}, nil
	case "least_connections":
		return pool.Strategy{Name: name, Ties: ties, Build: leastConnections(ties == "rotate")}, nil
	case "random_two":
		return pool.Strategy{Name: name, Build: buildRandomTwo}, nil
	case "source_hash":
		return pool.Strategy{Name: name, Build: sourceHashing(0)}, nil
	case "first":
		return pool.Strategy{Name: name, Build: buildFirst}, nil
	}
	return pool.Strategy{}, fmt.Errorf("unknown strategy %q: it is one of %s", name, strings.Join(Names(), ", "))
}

// Bounded returns s with a bound: the percentage of its fair share of the sessions
// that a backend may hold, more than 100, or 0 for none. Strategies other than
// source_hash have no bound and stay as they are.
func Bounded(s pool.Strategy, percent int) pool.Strategy {
	if s.Name == "source_hash" {
		s.Bound, s.Build = percent, sourceHashing(percent)
	}
	return s
}

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
func Names() []string { return []string{"round_robin", "least_connections"} }

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
	}
	return pool.Strategy{}, fmt.Errorf("unknown strategy %q: it is one of %s", name, strings.Join(Names(), ", "))
}

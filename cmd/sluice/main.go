// Sluice is a layer-4 load balancer: it accepts TCP connections, joins each to
// one of a pool of backends, and shows and steers all of it over HTTP.
//
//	sluice run   [-c config.toml]   serve
//	sluice check [-c config.toml]   find every mistake in a configuration
//	sluice plan  [-c config.toml]   show what a reload with it would change
//	sluice diff  [-c config.toml]   show what runs and is not what the file says
//	sluice explain [-c config.toml] show which backend is picked, and why not the others
//	sluice demo                     see it work, with nothing to install
//	sluice version
//	sluice man
//	sluice completion bash|zsh|fish
//
// This package reads the command line, owns the signals, and sets the exit
// status; everything that runs is held by internal/balancer.
//
// Exit status: 0 done, also after a drain; 1 a broken configuration, an address
// that cannot be bound, or a second signal; 2 a wrong command line. Those of diff
// are as of diff(1): 1 is a difference, 2 is trouble.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	exitFailed  = 1
	exitUsage   = 2
	exitTrouble = 2 // of a command whose 1 is an answer
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// run is main with everything it depends on. It returns the exit status; when
// ctx ends, a command that serves drains as it does on SIGTERM.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	used, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errForced), errors.Is(err, errDiffer):
		return exitFailed
	}
	fmt.Fprintln(stderr, err)
	if errors.As(err, new(troubleError)) {
		return exitTrouble
	}
	if errors.As(err, new(usageError)) {
		fmt.Fprintln(stderr, "See '"+used.CommandPath()+" --help'.")
		return exitUsage
	}
	return exitFailed
}

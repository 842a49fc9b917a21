//go:build linux

// Bench measures Sluice beside the balancers that it is compared with: on
// loopback, with processes that it starts itself and ends, in the paired way
// that package trial describes. scripts/bench builds and runs it; its usage text
// says what can be asked for.
//
// One scenario is a set of services (package serve, or redis-server), the
// subjects in front of them (package subject), a load (package load), and the
// bars that the outcome is held against (package report):
//
//	load --> subject (CPU, memory, descriptors: package proc) --> services
//
// The program has three roles: the benchmark, the services, and the plain
// balancer in Go; the last two are processes that the first starts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"sluice/scripts/internal/bench/serve"
	"sluice/scripts/internal/bench/subject"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with what it depends on. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var err error
	switch role, rest := split(args); role {
	case roleServices:
		err = runServices(ctx, stdout)
	case rolePlain:
		err = runPlain(ctx, rest)
	default:
		err = runBenchmark(ctx, args, stdout, stderr)
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(stderr, "%v\nscripts/bench -h tells what can be asked for.\n", err)
		return exitUsage
	}
	fmt.Fprintln(stderr, err)
	return exitFailed
}

// The roles that the benchmark starts itself in.
const (
	roleServices = "services"
	rolePlain    = "plain"
)

func split(args []string) (role string, rest []string) {
	if len(args) == 0 {
		return "", nil
	}
	return args[0], args[1:]
}

// addressesPerService is behind how many backends the work is spread.
const addressesPerService = 4

// runServices serves until it is told to end, and prints where.
func runServices(ctx context.Context, stdout io.Writer) error {
	err := serve.Run(ctx, addressesPerService, func(a serve.Addresses) {
		// Nobody is there to read it only if the benchmark has ended.
		_ = json.NewEncoder(stdout).Encode(a)
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func runPlain(ctx context.Context, args []string) error {
	services, err := subject.ParsePlain(args)
	if err != nil {
		return usageError{err}
	}
	return subject.RunPlain(ctx, services)
}

package main

import (
	"context"
	"os"
	"runtime"
	"testing"
)

// asProgram in the environment makes the test binary be the program: that is
// how tests start the balancer as a process of its own.
const asProgram = "SLUICE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	// The thread that /proc/net speaks for must not be one that a test gives a
	// network of its own.
	runtime.LockOSThread()
	os.Exit(m.Run())
}

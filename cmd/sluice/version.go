package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// stamp is the version that scripts/package has the linker put here.
var stamp string

// version returns the version that the build recorded, or "devel".
func version() string {
	if stamp != "" {
		return stamp
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// fullVersion adds what built it.
func fullVersion() string {
	return fmt.Sprintf("sluice %s (%s %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

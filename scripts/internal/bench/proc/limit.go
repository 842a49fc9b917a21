//go:build linux

package proc

import (
	"fmt"
	"syscall"
)

// RaiseFiles raises the limit of descriptors of the benchmark, and of what it
// starts from then on, to want or as near as it may. It returns the limit.
func RaiseFiles(want uint64) (uint64, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("read the limit of descriptors: %w", err)
	}
	if l.Max < want {
		// Only root may, and not in every container.
		more := syscall.Rlimit{Cur: want, Max: want}
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &more) == nil {
			return want, nil
		}
	}
	// Also if it is high enough: Go gives its children the limit that it
	// found, unless the program sets one.
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("raise the limit of descriptors: %w", err)
	}
	return l.Cur, nil
}

//go:build unix

package l4

import "syscall"

// DescriptorLimit returns the soft limit, which the Go runtime has raised to
// the hard one at start.
func DescriptorLimit() (int, bool) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0, false
	}
	const unlimited = 1 << 30
	return int(min(uint64(r.Cur), unlimited)), true
}

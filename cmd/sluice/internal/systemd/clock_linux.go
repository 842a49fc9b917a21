package systemd

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the clock that the manager compares with.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it cannot fail
	return time.Duration(t.Nano())
}

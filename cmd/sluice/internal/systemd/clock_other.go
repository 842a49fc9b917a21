//go:build !linux

package systemd

import "time"

// monotonic is of no use where there is no systemd.
func monotonic() time.Duration { return 0 }

package session

import "time"

// Settings are the limits that a session runs under. A session keeps the ones
// it started with, so a Settings is never changed once it is in use.
type Settings struct {
	Attempts         int           // different backends tried, the first included; at least 1
	ConnectTimeout   time.Duration // one dial
	DialBudget       time.Duration // all dials of one session
	IdleTimeout      time.Duration // no progress either way; 0 is never
	HalfCloseTimeout time.Duration // no progress after one side has ended; 0 is never
	KeepAlive        KeepAlive     // both sockets
	UserTimeout      time.Duration // TCP_USER_TIMEOUT; 0 is off
	MaxAge           time.Duration // from when its backend was picked; 0 is no limit
	AgeJitter        int           // percent of MaxAge, the last of it, in which a session's own limit lies
}

// KeepAlive is when the kernel probes a silent peer. Idle 0 is off.
type KeepAlive struct {
	Idle     time.Duration
	Interval time.Duration
	Count    int
}

package session

import (
	"net/netip"
	"time"
)

// Attempt is one dial of one session.
type Attempt struct {
	Backend string        // id
	Error   string        // a fault's word (see Fault), canceled, or empty
	Took    time.Duration // until the dial was over
}

// timedOut reports whether the last of the attempts ran out of time.
func timedOut(list []Attempt) bool {
	return len(list) > 0 && list[len(list)-1].Error == "timeout"
}

// Record is what a finished session leaves behind: plain values. It must not be
// changed: Attempts may be memory of the session.
type Record struct {
	Started        time.Time
	Session        string // unique across restarts
	Frontend       string
	Listen         string
	Client         netip.AddrPort // unmapped; zero for a unix socket
	Peer           netip.AddrPort // of the socket, if a header told another client; else zero
	Pool           string
	Backend        string // id of the backend that was reached, else the last one tried; empty if none
	Address        string // of Backend, the last one dialed: a literal address or a path; empty if none was
	Source         string // our address towards the backend; empty if none was reached
	Attempts       []Attempt
	ToBackend      int64 // payload bytes
	ToClient       int64
	Queue          time.Duration // waiting for a backend to be free
	Dial           time.Duration // from the first pick to the end of the last look-up or dial, without Queue
	Total          time.Duration
	Last           time.Duration // since the last progress, at the end
	FrontendActive int64         // sessions of the frontend at the end, this one included
	BackendActive  int64         // sessions of the backend at the end, this one included; 0 if none was reached
	Code           string        // HAProxy's two letters
	Cause          Cause
}

// Redials returns how many dials were made because an earlier one failed.
func (r *Record) Redials() int { return max(0, len(r.Attempts)-1) }

package admin

import "time"

// Name is a name of the file that stands for several backends of a pool, at one
// moment.
type Name struct {
	ID         string    `json:"id"`      // of the entry, and the first part of those of its backends
	Name       string    `json:"name"`    // that is looked up
	Resolve    string    `json:"resolve"` // all or srv, as in the file
	Found      []string  `json:"found"`
	Missing    int       `json:"missing,omitempty"`  // of Found, those that the last answer lacked
	Rotates    bool      `json:"rotates,omitempty"`  // answers have a part of the addresses each, so that one is missed for longer before it goes
	LeftOut    int       `json:"left_out,omitempty"` // found beyond the most that a name may stand for
	Skipped    []Skipped `json:"skipped,omitempty"`  // of Found, those that are no backends
	LastAnswer time.Time `json:"last_answer,omitzero"`
	Error      string    `json:"error,omitempty"` // of the last look-up
	Since      time.Time `json:"failing_since,omitzero"`
}

// Skipped is an address that was found and is not used.
type Skipped struct {
	Address string `json:"address"`
	Reason  string `json:"reason"`
}

package session

import "time"

// Addresses walks the addresses of one backend within one attempt, so that one
// that hangs leaves time for the others.
type Addresses struct {
	list     []string
	deadline time.Time
	err      error
}

// NewAddresses returns a walk over list, which it does not change, that is over
// at deadline.
func NewAddresses(list []string, deadline time.Time) Addresses {
	return Addresses{list: list, deadline: deadline}
}

// Next returns the next address and until when it may take: an equal share of
// the time that is left. It returns false when none is left.
func (a *Addresses) Next(now time.Time) (address string, deadline time.Time, ok bool) {
	if len(a.list) == 0 {
		return "", time.Time{}, false
	}
	left := a.deadline.Sub(now)
	deadline = a.deadline // over already, if none is left
	if left > 0 {
		deadline = now.Add(left / time.Duration(len(a.list)))
	}
	address, a.list = a.list[0], a.list[1:]
	return address, deadline, true
}

// Failed notes that the last address failed, and returns false if the others
// would fail as well.
func (a *Addresses) Failed(err error) (again bool) {
	f := FaultOf(err)
	if a.err == nil || f.Blame == OnUs || FaultOf(a.err).Blame == OnNobody {
		a.err = err
	}
	return f.Blame != OnUs && len(a.list) > 0
}

// Err returns the error that says most about the backend: one that counts
// against it before one that does not.
func (a *Addresses) Err() error { return a.err }

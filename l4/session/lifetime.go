package session

import (
	"math/bits"
	"time"
)

// lifetime returns how long after its start a session with a backend ends for its
// age; 0 is never. Its age counts from when its backend was picked: who had to wait
// for one, in a queue or for a header, is not ended for that as soon as it has it.
//
// Each session has a limit of its own, so that those that began together do not
// all come back together. It follows from the number of the session, which costs
// no room; it is the same at every call.
func (s *Session) lifetime() time.Duration {
	set := s.origin.Settings
	if set.MaxAge <= 0 {
		return 0
	}
	spread := set.MaxAge.Nanoseconds() / 100 * int64(set.AgeJitter)
	early, _ := bits.Mul64(scatter(s.number), uint64(spread))
	life := max(set.MaxAge-time.Duration(early), 1)
	if s.rest != nil {
		life += s.rest.picked
	}
	return life
}

// scatter makes numbers that follow each other differ in every bit, evenly over
// all 64: the finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
func scatter(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// Package session decides what happens to one client connection. It is the
// brain that every engine shares: an engine tells a [Session] what happened and
// does what it answers.
//
// It owns the choice of the next backend and the dial budget ([Route]), how long
// a client waits for one, the order of a backend's addresses ([Addresses]), the
// classes of dial faults, the table of endings, timeouts, the age at which a session
// ends, what it says of its backend in the end, causes, the record and the line of a
// listing. It never waits, reads, writes, sleeps or looks at a clock: every call
// that needs the time is given it.
//
//	Header, NoHeader         what a client begins with that may tell who it is
//	Next, Resolved, Dialed   looking for a backend: lookup, dial, relay or end
//	Queue, Woken, Left       waiting until a backend is free, or held until one is up
//	Moved, Ended             relaying: go on, half-close, finish or abort
//	Asked, Expired, Gone     orders, deadlines, and a client that left
//	Matches, Row             any time: whether it is meant; one line of a listing
//	Close                    once, when the sockets are no longer touched
//
// Invariants:
//
//   - A session has one owner at a time and is not safe for concurrent use.
//   - The first cause that is set stays.
//   - An event that makes no sense now changes nothing.
//   - Whatever waits has a deadline, if there is a limit for it: the steps of the
//     search carry theirs, Deadline tells that of the relay.
//   - A session that relays holds no memory of its own but the Session, unless it
//     redialed, waited in a queue, or its client was to begin with a header.
//   - Close releases the lease and yields exactly one record.
package session

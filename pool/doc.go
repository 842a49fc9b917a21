// Package pool knows which backends exist, which of them may be used now, and
// hands them out one session at a time.
//
// It owns the membership of a pool (what the file says and what an operator
// changed at run time), the live state of every backend (sessions, failures,
// health, bytes) and the snapshots that picks read. It does not dial, probe,
// sleep or log: whoever dials tells the lease how it went, whoever probes calls
// [Pool.SetHealth], and changes are reported through [Hooks]. Its only clocks
// are the timers that let a backend without probes try again, that end the time
// of one which is drained, held out or ejected, that take the steps of a slow start, and
// that release those who wait at a rate, or have one of them try again.
//
//	Config, Spec        inert values: what somebody asked for
//	Pool                one writer at a time, under a mutex
//	  snapshot          immutable, behind one atomic pointer; rebuilt on change
//	    Member          a Backend with the weight and limit this snapshot gives it
//	      Backend       live state; outlives snapshots, reloads and removal
//	  Lease             one session's hold on one backend
//	  Place             one session's place in the queue for one
//
// Invariants:
//
//   - A pick takes no lock and allocates nothing, unless sessions wait in the
//     queue. It reserves its slot before it returns, so a backend's limit is
//     never exceeded.
//   - The only way to count a session up is [Pool.Acquire] or [Pool.Join], and the
//     lease they fill is the only way to count it down.
//   - Nobody waits for a slot that is free, but for the turn that a rate gives, or
//     for the next try of a backend that refused; and nobody gets one for which
//     somebody waits who came before.
//   - With Policy.Single, no snapshot has two members.
//   - A snapshot is never edited after it was published.
//   - A Backend is identified by pool, id and address. The same id with another
//     address is another backend.
//   - Once an eviction is told, nobody picks that backend any more, until something
//     brings it back: who finds all its sessions then misses none.
//   - Hooks are called outside the mutex, in the order of the changes.
package pool

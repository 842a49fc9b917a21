// Package pool knows which backends exist, which of them may be used now, and
// hands them out one session at a time.
//
// It owns the membership of a pool (what the file says, what was found under its
// names, and what an operator changed at run time), the live state of every
// backend (sessions, failures, health, bytes, its newest events) and the snapshots
// that picks read. It does not dial, probe, look names up, sleep or log: whoever
// dials tells the lease how it went, whoever probes calls [Pool.SetHealth], whoever
// judges sessions calls [Pool.Eject], and changes are reported through [Hooks]. Its
// only clocks are the timers that let a backend without probes try again, that end
// the time of one which is drained, held out or ejected, that take the steps of a
// slow start, and that release those who wait at a rate, or have one of them try
// again.
//
//	Config, Spec        inert values: what somebody asked for
//	Pool                one writer at a time, under a mutex
//	  snapshot          immutable, behind one atomic pointer; rebuilt on change
//	    level           members chosen from together, with their Picker: first the
//	                    tiers and the zone in use, then what a session falls back on
//	      Member        a Backend with the weight and limit this snapshot gives it
//	        Backend     live state; outlives snapshots, reloads and removal
//	  Lease             one session's hold on one backend
//	  Place             one session's place in the queue for one: while all are full
//	                    (queue), or while none is eligible (hold)
//
// Who is eligible is decided in one place, where a snapshot is made: what an
// operator wants in (weight, state), what is fit (verdicts, flapping, ejection),
// the one that Policy.Single has chosen, and all of them in a panic (too few are
// up, and Policy.TryAll). [Pool.Explain] says the same in words.
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
//   - Passive signs (failed dials, ejection) never take out the last backend that
//     works; ejections are bounded by a budget, and never choose another primary.
//   - A session that finds the tiers in use full waits or is refused: it does not
//     spill over into the backups behind them.
//   - A snapshot is never edited after it was published.
//   - A Backend is identified by pool, id and address. The same id with another
//     address is another backend.
//   - Once an eviction is told, nobody picks that backend any more, until something
//     brings it back: who finds all its sessions then misses none.
//   - Explain, Status and Events change nothing, and reserve nothing.
//   - Hooks are called outside the mutex, in the order of the changes.
//
// Lock order: the pool's mutex, then the queue's; that of a backend's events comes
// last.
package pool

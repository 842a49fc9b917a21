// Package l4 moves bytes: it accepts clients, joins each to a backend of a
// pool, relays both ways, and closes.
//
// It owns sockets: listeners ([Listener]), frontends with their sessions and
// counters ([Frontend]), and the engine that carries out what a session
// decides. Decisions are in l4/session, addresses of names in l4/resolve,
// backends in pool. It reads no configuration file, serves no HTTP and writes
// no log: a finished session's record goes to a func.
//
// The life of one connection, in reading order:
//
//	acceptLoop.serve   accepts, and backs off on errors
//	Frontend.admit     limits; registers the session
//	conn.run           the whole life, in one function
//	  conn.connect     next backend, dial, judge: session.Next, Dialed
//	  conn.relay       two pumps, one for each direction
//	  conn.close       ends both sockets as the session decided
//	Frontend.leave     counts down, hands over the record
//
// The engine here is "copy": two goroutines a session, io.Copy in windows
// bounded in time and bytes, so that the kernel splices and counts still move.
// It runs on every system.
//
// Invariants:
//
//   - No wrapper stands between io.Copy and the sockets of a relay.
//   - A session's brain, its deadlines and its sockets' deadlines change only
//     under the conn's mutex. Reads and writes happen outside it.
//   - Lock order: Frontend.mu, then conn.mu, then the pool's.
package l4

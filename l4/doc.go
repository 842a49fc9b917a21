// Package l4 moves bytes: it accepts clients, joins each to a backend of a
// pool, relays both ways, and closes.
//
// It owns sockets: listeners ([Listener]), frontends with their admission and
// counters ([Frontend]), and the engines ([Engine]) that carry out what a
// session decides. Decisions are in l4/session, addresses of names in
// l4/resolve, what an event loop needs of Linux in l4/epoll, backends in pool.
// It reads no configuration file, serves no HTTP and writes no log: a finished
// session's record goes to a func.
//
// # The life of one connection on the engine "epoll"
//
// Each loop is one goroutine that never waits but for events; the listening
// sockets are shared. Files ending in _linux.go are this engine and nothing else.
//
//	loop.accept        a few clients at a time; an error pauses
//	loop.admit         lists and limits: Frontend.enter; perhaps another loop's client
//	loop.begin         a slot, a duplex; its first event starts the search
//	  loop.header      a PROXY header, if one is to come: session.Header
//	  loop.search      next backend, look-up, dial, judge: session.Next, Dialed
//	  loop.pump        both directions, a turn each (flow)
//	  loop.obey        half-close, linger, abort, close: session.Ended, Expired
//	loop.close         ends both sockets as the session decided, counts down
//	records            hands the record over, off the loop
//
// # The same on the engine "copy"
//
// Two goroutines a session and io.Copy in windows bounded in time and bytes, so
// that the kernel splices and counts still move. It runs on every system.
//
//	acceptLoop.serve   accepts, and backs off on errors
//	acceptLoop.admit   lists and limits: Frontend.enter
//	conn.run           the whole life, in one function
//	  conn.header      a PROXY header, if one is to come: session.Header
//	  conn.connect     next backend, dial, judge: session.Next, Dialed
//	  conn.relay       two pumps, one for each direction
//	  conn.close       ends both sockets as the session decided
//	Frontend.leave     counts down; Frontend.report hands over the record
//
// # Invariants
//
//   - What a session decides is in l4/session; what can be observed is the same on
//     both engines, and every test of behaviour runs over both.
//   - Nothing in a loop waits: no channel, no look-up, no write to a log. The only
//     mutexes are held for some instructions (mailbox, records, names).
//   - A duplex is touched by its loop alone. Others leave orders in the mailbox.
//   - A socket is never in Go's poller and in a loop at once.
//   - On "copy", no wrapper stands between io.Copy and the sockets of a relay; a
//     session's brain and the deadlines of its sockets change only under the
//     conn's mutex; reads and writes happen outside it.
package l4

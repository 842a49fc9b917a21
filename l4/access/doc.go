// Package access knows addresses: which are in a list ([Set]), and how many
// sessions each client has and begins ([Clients]).
//
// It owns the look-up and the counts, and knows nothing of sockets, frontends or
// configuration. Addresses are compared without their zone, and IPv4 in the
// clothes of IPv6 is IPv4.
//
// Invariants:
//
//   - A look-up in a Set takes as many steps as its length has digits in base 2.
//   - A client is in Clients while it has a session or its bucket is not full
//     again, which is at most a second; those without a session are bounded.
package access

// Package proxy is the HTTP /proxy path: it forwards requests to the backends
// of a pool, with the same pick, lease and redial that TCP sessions have.
//
// It keeps the HTTP connections to the backends, and nothing of them between
// two requests but those that are idle. Who may send a request, which pool it is
// for, and the server that reads it are its caller's.
//
//	Front      what all requests share: counters, the gate, kept connections
//	exchange   one request, from its pick to the end of its response
//	attempt    one backend tried for it
//
// Invariants:
//
//   - A request holds exactly one lease from its pick until its response is
//     delivered or its upgraded connection is closed.
//   - A request is never sent a second time unless it may be: nothing of it
//     reached a backend, or it is idempotent and has no body.
//   - Every dial has a deadline.
package proxy

// Package admin is what an operator sees and steers: the JSON API, the health
// endpoints, and the HTTP /proxy path.
//
// It reads and changes the rest of the program only through the funcs of
// [Sources]. It owns no backend, no frontend and no file; it keeps the HTTP
// connections to the backends, and nothing of them between two requests but
// those that are idle.
//
//	Handler     find (path) -> guard (host, origin, token) -> API or /proxy
//	API         one handler a path and method; an error changes nothing
//	/proxy      exchange: one request; attempt: one backend tried for it
//
// Invariants:
//
//   - Changes through the API happen one at a time.
//   - A request through /proxy holds exactly one lease from its pick until its
//     response is delivered or its upgraded connection is closed.
//   - A request is never sent a second time unless it may be: nothing of it
//     reached a backend, or it is idempotent and has no body.
//   - A token is compared by its hash, never logged and never forwarded.
package admin

// Package admin is what an operator sees and steers: the JSON API and the health
// endpoints, and the server that the HTTP /proxy path is reached through.
//
// It reads and changes the rest of the program only through the funcs of
// [Sources]. It owns no backend, no frontend and no file. What happens to a
// request through /proxy is package admin/proxy's.
//
//	entrance    the listeners of one scope: everything, probes alone, /proxy alone
//	Handler     find (path) -> guard (host, origin, token) -> API or /proxy
//	API         one handler a path and method; an error changes nothing
//	/explain    pool.Explain: which backend, why not each other, what happened to it
//	rebalance   rebalance.Desk: closes sessions in the background, at a rate
//	/proxy      proxy.Front
//	/metrics    metrics.Page
//
// Invariants:
//
//   - Changes through the API happen one at a time.
//   - What a request needs is decided by the listener it came in through.
//   - A change, made or refused, is one line of the log, and so is the end of a
//     rebalance.
//   - What runs in the background ends before the server's Close returns.
//   - A token is compared by its hash, never logged and never forwarded.
package admin

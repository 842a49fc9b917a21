package proxy

import (
	"time"

	"sluice/l4/session"
)

// queue waits for a backend like the sessions of the pool, as long as the client
// does. Without a backend and without a cause the request is over.
func (x *exchange) queue() (session.Try, session.Cause) {
	woken := make(chan struct{}, 1)
	try, cause := x.route.Queue(time.Now(), func() {
		select {
		case woken <- struct{}{}:
		default: // it looks already
		}
	})
	for cause == "" && try.Backend == nil {
		late := time.NewTimer(time.Until(try.Deadline))
		select {
		case <-woken:
		case <-late.C:
		case <-x.ctx.Done():
			late.Stop()
			x.route.Cancel(time.Now())
			return session.Try{}, ""
		}
		late.Stop()
		try, cause = x.route.Woken(time.Now())
	}
	return try, cause
}
